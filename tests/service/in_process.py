"""A replica of the service in the event loop of the test itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from aiohttp import web

from fencelock.service.app import Service
from tests.servers import HOST


def memory() -> str:
    """The URL of an engine in memory that no other test uses."""
    return f"memory://{uuid4()}"


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[str]:
    """Serve on a free port. Yields the URL."""
    runner = web.AppRunner(service.app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        _, port = runner.addresses[0]
        yield f"http://{HOST}:{port}"
    finally:
        await service.drain()
        await runner.cleanup()
