"""A replica of the service in the event loop of the test itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from aiohttp import web

from fencelock.service.addresses import Address
from fencelock.service.app import Service
from fencelock.service.connections import Door
from fencelock.service.settings import Settings
from tests.servers import HOST


def memory(**settings: Any) -> Settings:
    """Settings with an engine in memory that no other test uses."""
    return Settings(engine=f"memory://{uuid4()}", **settings)


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[str]:
    """Serve on a free port. Yields the URL."""
    runner = web.AppRunner(service.app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        assert runner.server is not None
        door = Door(runner.server, service.settings, None)
        yield f"http://{door.open(Address(HOST, 0))}"
    finally:
        await service.drain()
        await door.close()
        await runner.cleanup()
