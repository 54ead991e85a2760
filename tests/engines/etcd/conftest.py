"""Fixtures for what only etcd does: one face at a time, on any URL, and nobody complains."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.conformance.cells import FACES, Cell
from tests.engines.etcd.seeing import grpc_replies
from tests.proxy import TcpProxy


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
async def open_cell(face: str, complaints: list[str]) -> AsyncIterator[Callable[[str], Cell]]:
    """Clients and callers of one face at a URL: `open_cell(cluster.url)`."""
    cells: list[Cell] = []

    def open_at(url: str) -> Cell:
        cells.append(Cell("etcd", face, url))
        return cells[-1]

    yield open_at
    for cell in cells:
        await cell.close()


@pytest.fixture
def grpc_proxy() -> Iterator[Callable[[int], TcpProxy]]:
    """Put a proxy that knows gRPC in front of a port: `grpc_proxy(member.port)`."""
    with ExitStack() as running:
        yield lambda port: running.enter_context(TcpProxy(port, grpc_replies))
