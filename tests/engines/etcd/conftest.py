"""Fixtures for what only etcd does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.engines.etcd.server_state import grpc_replies
from tests.proxy import TcpProxy


@pytest.fixture
def grpc_proxy() -> Iterator[Callable[[int], TcpProxy]]:
    """Put a proxy that knows gRPC in front of a port: `grpc_proxy(member.port)`."""
    with ExitStack() as running:
        yield lambda port: running.enter_context(TcpProxy(port, grpc_replies))


@pytest.fixture(autouse=True)
def _patient(patient: None) -> None:
    pass
