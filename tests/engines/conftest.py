"""Fixtures for what one engine does: one face at a time, on any URL, and nobody complains."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencelock.core.url import Url
from tests.conformance.cells import FACES, Cell, OpenCell


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
async def complaints() -> AsyncIterator[list[str]]:
    """What asyncio has to say about exceptions that nobody looked at: nothing."""
    heard: list[str] = []

    def listen(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        heard.append(f"{context['message']}: {context.get('exception')!r}")

    asyncio.get_running_loop().set_exception_handler(listen)
    yield heard
    gc.collect()  # it is when they are collected that they complain
    await asyncio.sleep(0)
    assert heard == []


@pytest.fixture
async def open_cell(face: str, complaints: list[str]) -> AsyncIterator[OpenCell]:
    """Clients and callers of one face at a URL: `open_cell(server.url)`."""
    cells: list[Cell] = []

    def open_at(url: str) -> Cell:
        cells.append(Cell(Url.parse(url).scheme, face, url))
        return cells[-1]

    yield open_at
    for cell in cells:
        await cell.close()
