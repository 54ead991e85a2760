"""Runs a replica until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from fencelock.service.app import Service


def serve(url: str, host: str, port: int, listening: Callable[[str], None]) -> None:
    """Serve this engine. Calls `listening` with the address, and returns after SIGTERM or SIGINT.

    The first signal drains: `/readyz` says no, waiting clients are sent elsewhere, and requests under way
    finish. A second one ends at once.
    """
    _run(_serve(url, host, port, listening))


async def _serve(url: str, host: str, port: int, listening: Callable[[str], None]) -> None:
    service = Service(url)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    runner = web.AppRunner(service.app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        listening(runner.addresses[0])
        await ended.wait()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, _end_at_once)
        await service.drain()
    finally:
        await runner.cleanup()


def _end_at_once() -> None:
    raise SystemExit(1)


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run in the faster event loop, if it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(main)
    else:
        uvloop.run(main)
