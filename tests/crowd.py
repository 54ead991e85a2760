"""One of many processes that take turns on a lock; see test_crowds.py.

In each turn it reads a number from a file, appends its fence to a journal and writes the number plus one.
If two processes did this at the same time, the sum would be too small or the journal out of order.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import fencelock


def take_turn(folder: Path, fence: int) -> None:
    counter = folder / "counter"
    value = int(counter.read_text())
    with (folder / "journal").open("a") as journal:
        journal.write(f"{fence} {os.getpid()}\n")
    counter.write_text(str(value + 1))


def main(url: str, name: str, folder: Path, turns: int) -> None:
    with fencelock.Client(url) as client:
        for _ in range(turns):
            with client.lock(name) as lease:
                take_turn(folder, lease.fence)


async def async_main(url: str, name: str, folder: Path, turns: int) -> None:
    async with fencelock.AsyncClient(url) as client:
        for _ in range(turns):
            async with client.lock(name) as lease:
                take_turn(folder, lease.fence)


if __name__ == "__main__":
    _, face, url, name, folder, turns = sys.argv
    if face == "sync":
        main(url, name, Path(folder), int(turns))
    else:
        asyncio.run(async_main(url, name, Path(folder), int(turns)))
