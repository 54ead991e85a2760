"""Runs some pairs for a counter such as strace. It is a small program, so that strace sees little else.

strace -f python -m benchmarks.counted MODULE ADAPTER URL PAIRS
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable

from benchmarks.adapters.contract import AnyTurns, AsyncTurns, Turns

MARK = "/here the counted pairs begin or end"
WARM = 20


def run(
    adapter: type[AnyTurns],
    url: str,
    pairs: int,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    """Run this many pairs between two calls, after some pairs to warm up."""
    if issubclass(adapter, Turns):
        _run(adapter, url, pairs, begin, end)
    elif issubclass(adapter, AsyncTurns):
        asyncio.run(_run_async(adapter, url, pairs, begin, end))


def _run(
    adapter: type[Turns],
    url: str,
    pairs: int,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    turns = adapter(url, f"counted-{adapter.__name__}")
    for number in range(-WARM, pairs):
        if number == 0:
            begin()
        turns.acquire()
        turns.release()
    end()
    turns.close()


async def _run_async(
    adapter: type[AsyncTurns],
    url: str,
    pairs: int,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    turns = await adapter.connect(url, f"counted-{adapter.__name__}")
    for number in range(-WARM, pairs):
        if number == 0:
            begin()
        await turns.acquire()
        await turns.release()
    end()
    await turns.close()


def main() -> None:
    module, adapter, url, pairs = sys.argv[1:]

    def mark() -> None:
        os.access(MARK, os.F_OK)  # a system call that differs from all others

    run(getattr(importlib.import_module(module), adapter), url, int(pairs), mark, mark)


if __name__ == "__main__":
    main()
