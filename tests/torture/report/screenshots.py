"""Pictures of the report: `python -m tests.torture.report.screenshots FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fencelock.torture.report.page import write_report
from tests.browser import NARROW, WIDE, Tab, chromium
from tests.torture.report import histories


async def take(folder: Path) -> None:
    """Write a picture of each history, wide and narrow, light and dark."""
    async with chromium() as browser:
        for make in (
            histories.held,
            histories.broken,
            histories.not_exercised,
            histories.huge,
            histories.hostile,
        ):
            report = folder / f"{make.__name__}.html"
            write_report(make(), report)
            for size, theme in ((WIDE, "light"), (WIDE, "dark"), (NARROW, "light")):
                async with Tab.opened(browser, "file://", size=size, dark=theme == "dark") as tab:
                    await tab.page.goto(report.as_uri())
                    await tab.page.get_by_role("heading", level=1).wait_for()
                    name = f"{make.__name__}-{theme}-{size[0]}.png"
                    await tab.page.screenshot(path=folder / name, full_page=True)


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
