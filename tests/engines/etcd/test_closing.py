"""Closing an asyncio client whose calls are running: gRPC cancels them, but the caller is not cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from fencelock.engines.etcd.messages_pb2 import RangeRequest
from fencelock.engines.etcd.multiplexed import AsyncioNode
from fencelock.engines.etcd.wire import RANGE
from fencelock.primitives.waiting import new_id
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_etcd import EtcdCluster
from tests.waiting import PATIENCE


async def steps(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def outcome(task: asyncio.Task[Any]) -> BaseException | None:
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done()
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def test_closing_a_client_cancels_no_task(etcd_url: str) -> None:
    """However far the first request has come: its caller learns that the client was closed."""
    for moment in range(40):
        client = fencelock.AsyncClient(etcd_url)
        task = asyncio.create_task(client.lock(f"closing:{new_id()}", ttl=5).acquire())
        await steps(moment)
        await client.close()
        error = await outcome(task)
        if error is None:
            assert task.result().state is fencelock.LeaseState.LOST
        else:
            assert isinstance(error, fencelock.FencelockError), moment
            assert "closed" in str(error)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_cancellation_stays_a_cancellation(
    etcd_cluster: EtcdCluster,
    grpc_proxy: Callable[[int], TcpProxy],
    several: bool,
    cancelled: bool,
) -> None:
    """Also if the channel is closed before the cancelled caller runs again."""
    proxy = grpc_proxy(etcd_cluster.members[0].port)
    node = AsyncioNode(f"{HOST}:{proxy.port}", None)
    request = RangeRequest(key=b"fencelock/q/none")
    await node.call(RANGE, request, PATIENCE, ())
    proxy.black_hole()
    if several:
        call = node.call_all([(RANGE, request)] * 2, PATIENCE, ())
    else:
        call = node.call(RANGE, request, PATIENCE, ())
    task = asyncio.create_task(call)
    await steps(5)
    if cancelled:
        task.cancel()
    await node.close()
    error = await outcome(task)
    if cancelled:
        assert isinstance(error, asyncio.CancelledError)
        return
    errors: list[Any] = task.result() if several else [error]
    assert {str(one) for one in errors} == {"the client was closed"}
    assert {one.outcome for one in errors} == {"unknown"}
