"""Servers whose sessions are shorter than the default ttl: a lock that was asked for none takes what fits."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.cli import exits
from tests import servers_zookeeper
from tests.conformance.cells import Cell, OpenCell, kept_by
from tests.engines.zookeeper.observing import connected, replies
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_zookeeper import SingleServer
from tests.waiting import within

LONGEST = 6.0
"""Seconds after which these servers end a session, whatever clients ask for."""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SingleServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(servers_zookeeper.SETTINGS, "maxSessionTimeout", int(LONGEST * 1000))
        with SingleServer(tmp_path_factory.mktemp("strict")) as server:
            yield server


@pytest.fixture
def cell(strict: SingleServer, open_cell: OpenCell) -> Cell:
    return open_cell(strict.url)


async def test_without_a_ttl_a_lock_takes_the_longest_there_is(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert lease.ttl == LONGEST
    assert 0 < lease.remaining() < LONGEST
    holder = (await cell.run(lambda: client.inspect(cell.name))).holders[0]
    assert holder.expires_in <= LONGEST
    assert await cell.run(lambda: other.lock(cell.name).try_acquire()) is None
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await cell.run(lease.renew)
    await cell.run(lease.release)
    second = await within(waiter)
    assert (second.ttl, second.abandoned) == (LONGEST, False)
    await cell.run(second.release)


@pytest.mark.parametrize("reply", [3, 4])
async def test_its_first_attempt_is_not_taken_for_good(
    strict: SingleServer, open_cell: OpenCell, reply: int
) -> None:
    """How long sessions are is known after it has joined; the last answer to that is lost, or the one to
    its departure."""
    with TcpProxy(strict.port, replies) as proxy:
        cell = open_cell(f"zookeeper://{HOST}:{proxy.port}")
        await connected(cell, cell.client())  # the name's container is there
        cut = proxy.cut_after_request(reply)
        client = cell.client()
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        assert cut.is_set()
        assert lease.ttl == LONGEST
        assert lease.remaining() < LONGEST


async def test_so_do_all_that_are_made_of_locks(cell: Cell) -> None:
    client = cell.client()
    names = [f"{cell.name}:{number}" for number in range(3)]
    several = await cell.run(lambda: client.lock_all(names).acquire())
    reader = await cell.run(lambda: client.rwlock(f"{cell.name}:read").read().acquire())
    permit = await cell.run(lambda: client.semaphore(f"{cell.name}:permits", 2).acquire())
    leader = client.election(f"{cell.name}:leader", "me")
    term = await cell.run(leader.campaign)
    kept = kept_by(client)
    assert len(kept) >= 6
    assert {one.ticket.ttl for one in kept} == {LONGEST}
    for held in (several, reader, permit, term):
        await cell.run(held.release)
    assert len(client._context.sweeper) == 0, "nothing is in doubt"
    work = _async_work if cell.face == "async" else _work
    assert await cell.run(lambda: client.once(f"{cell.name}:once", work)) == "done"


def _work() -> str:
    return "done"


async def _async_work() -> str:
    return "done"


async def test_a_ttl_that_was_asked_for_is_refused(cell: Cell) -> None:
    client, strict = cell.client(), cell.client(ttl=30)
    for lock in (client.lock(cell.name, ttl=30), strict.lock(cell.name)):
        with pytest.raises(fencelock.Unsupported, match=r"6 s.*raise maxSessionTimeout") as caught:
            await cell.run(lock.acquire)
        assert caught.value.longest_ttl == LONGEST
        with pytest.raises(fencelock.Unsupported, match="a ttl of 30 s does not fit"):
            await cell.run(lock.try_acquire)
    lease = await cell.run(lambda: client.lock(cell.name, ttl=LONGEST).acquire())
    assert (lease.ttl, lease.abandoned) == (LONGEST, False)


async def test_a_renewal_that_is_refused_leaves_the_lease_as_it_was(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=3).acquire())
    with pytest.raises(fencelock.EngineError, match="use a shorter ttl"):
        await cell.run(lambda: lease.renew(ttl=30))
    assert lease.ttl == 3
    await cell.run(lease.renew)
    lease.check()
    assert all(one.ticket.ttl == 3 for one in kept_by(client))


@pytest.mark.parametrize("face", ["sync"])
async def test_the_command_line(cell: Cell) -> None:
    async def ran(*options: str) -> Any:
        command = ["run", cell.name, "--url", cell.url, *options, "--", "echo", "done"]
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "fencelock", *command],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=60,
        )

    done = await ran()
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    refused = await ran("--grace", "4")  # it would do for the default ttl
    assert (refused.returncode, refused.stdout) == (exits.USAGE, "")
    assert "--grace must be zero or more and less than half the ttl, so less than 3 s" in (
        refused.stderr
    )
