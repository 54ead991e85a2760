"""Pictures of the live page, with a real service and real programs: `scripts/screenshots FOLDER`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from tests.browser import NARROW, WIDE, Tab, chromium
from tests.servers import RedisServer
from tests.servers_service import Replica
from tests.service.company import token_in
from tests.service.live.board import Board
from tests.service.live.scene import Scene

SIZES = {"wide": WIDE, "narrow": NARROW}
THEMES = ("light", "dark")


async def take(folder: Path) -> None:
    """Write the pictures of all parts of the page, in all sizes and themes."""
    with tempfile.TemporaryDirectory() as place:
        tokens = Path(place) / "tokens.toml"
        program = token_in(tokens, "shop", lock=["*"], read=["*"])
        person = token_in(tokens, "oncall", read=["*"], break_=["*"])
        flags = ("--tokens", str(tokens))
        with (
            RedisServer(Path(place) / "redis") as redis,
            Replica(Path(place) / "replica", redis.url, *flags) as replica,
            Scene(replica.url.replace("://", f"://{program}@"), redis.url) as scene,
        ):
            scene.shop()
            async with AsyncExitStack() as stack:
                browser = await stack.enter_async_context(chromium())
                for size, pixels in SIZES.items():
                    for theme in THEMES:
                        opened = Tab.opened(browser, replica.url, size=pixels, dark=theme == "dark")
                        async with opened as tab:
                            await _tour(Board(tab), person, folder, f"{size}-{theme}")


async def _tour(board: Board, token: str, folder: Path, suffix: str) -> None:
    async def picture(part: str) -> None:
        await board.page.screenshot(path=folder / f"{part}-{suffix}.png", animations="disabled")

    await board.open()
    await board.page.get_by_label("Token").wait_for()
    await picture("login")
    await board.log_in(token)
    await board.live()
    await board.until(
        lambda rows: all(row["Holder"] != "not looked at yet" for row in rows.values()) and rows,
        "everything has been looked at",
    )
    await board.page.get_by_text("wait for one another").wait_for()
    await picture("list")
    await board.go_to("report/daily")
    await board.until_table("History", lambda rows: len(rows) > 10, "all that has happened")
    await picture("name")
    await board.offer_break()
    await picture("break")
    await board.page.keyboard.press("Escape")
    await board.go_to("account:bob")
    await board.page.get_by_role("heading", name="Transactions that wait").wait_for()
    await picture("circle")
    await board.page.get_by_role("link", name="The whole").click()
    await board.page.get_by_role("heading", name="The last hour").wait_for()
    await picture("whole")


if __name__ == "__main__":
    wanted = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    wanted.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(wanted))
