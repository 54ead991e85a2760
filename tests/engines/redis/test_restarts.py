"""A server that forgets: everything, only our scripts, or nothing but for a moment."""

import asyncio

import pytest

import fencelock
from tests.conformance.cells import OpenCell, answered, queued
from tests.engines.redis.server_state import lost, renewed, tickets
from tests.servers import RedisFactory
from tests.waiting import soon, within


async def test_restarted_without_persistence(
    redis_server: RedisFactory, open_cell: OpenCell
) -> None:
    server = redis_server()
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=1.5).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=20).acquire())
    await answered(client, 2)
    server.restart(keep_data=False)
    following = await within(waiter)
    assert following.fence > lease.fence, "fences grow although the server has forgotten the last"
    await lost(lease)
    with pytest.raises(fencelock.LeaseLost):
        await cell.run(lease.release)
    assert tickets(server, cell.name) == [following.id]


async def test_fences_grow_over_a_restart(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server()
    cell = open_cell(server.url)
    client = cell.client()
    fences = []
    for _ in range(3):
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        fences.append(lease.fence)
        await cell.run(lease.release)
        server.restart(keep_data=False)
    assert fences == sorted(set(fences))


async def test_restarted_with_an_append_only_file(
    redis_server: RedisFactory, open_cell: OpenCell
) -> None:
    server = redis_server(appendonly="yes", appendfsync="always")
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=9).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=20).acquire())
    await answered(client, 2)
    places = tickets(server, cell.name)
    server.kill()
    server.start()
    assert tickets(server, cell.name) == places
    await renewed(cell, lease)
    await cell.run(lease.release)
    following = await within(waiter)
    assert [following.id] == places[1:], "it kept its place"
    assert following.fence > lease.fence


async def test_scripts_are_brought_again(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server()
    cell = open_cell(server.url)
    client = cell.client()

    def forget() -> None:
        server.execute("SCRIPT", "FLUSH")

    forget()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    forget()
    await cell.run(lease.renew)
    forget()
    assert len((await cell.run(lambda: client.inspect(cell.name))).holders) == 1
    forget()
    assert await cell.run(lambda: client.names(cell.name)) == [cell.name]
    forget()
    await cell.run(lease.release)
    following = await within(waiter)
    forget()
    assert await cell.run(lambda: client.break_lock(cell.name)) is True
    assert following.fence > lease.fence


async def test_scripts_are_brought_again_in_a_batch(
    redis_server: RedisFactory, open_cell: OpenCell
) -> None:
    server = redis_server()
    cell = open_cell(server.url)
    client = cell.client(ttl=3)
    leases = [await cell.run(client.lock(f"{cell.name}:{number}").acquire) for number in range(20)]
    server.execute("SCRIPT", "FLUSH")
    before = [lease.remaining() for lease in leases]
    await soon(
        lambda: (
            all(lease.remaining() > 2 for lease in leases) and leases[0].remaining() > before[0]
        ),
        "the renewal",
    )
    assert {lease.state for lease in leases} == {fencelock.LeaseState.HELD}


async def test_a_server_that_is_loading(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server(key_load_delay=1000, loading_process_events_interval_bytes=1024)
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    with server.client() as other, other.pipeline(transaction=False) as pipeline:
        for number in range(1500):
            pipeline.set(f"ballast:{number}", "x" * 100)
        pipeline.execute()
    server.execute("SAVE")
    server.kill()
    started = asyncio.create_task(asyncio.to_thread(server.start))

    async def refused() -> fencelock.EngineError | None:
        try:
            await cell.run(lambda: client.inspect(cell.name))
        except fencelock.EngineError as error:
            return error if "LOADING" in str(error) else None
        return None

    error = await soon(refused, "the server to say that it is loading")
    assert error.outcome == "not applied"
    assert "still loading" in str(error)
    await started
    await renewed(cell, lease)
    await cell.run(lease.release)
