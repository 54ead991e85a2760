"""How long things take, to the millisecond: in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencelock.core.errors import LockTimeout
from fencelock.core.ticket import Owner, Ticket
from tests.torture.stage import NAME, Stage

PROMPT = 0.02
"""A few round trips of the simulated network."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.world.close()


@pytest.mark.parametrize("timeout", [0.5, 3.0])
def test_a_timeout_is_a_total(stage: Stage, timeout: float) -> None:
    """Also with a wake-up every tenth of a second: kazoo arms its timeout again on each."""
    holder, waiter = stage.process("holder"), stage.process("waiter")
    ahead = [Ticket(NAME, f"ahead-{n}", 60.0, Owner("host", 1)) for n in range(100)]

    async def hold() -> None:
        stage.leases.append(await stage.lock(holder, "a", 60.0).acquire())
        for ticket in ahead:
            await holder.engine.enter(ticket, if_free=False, timeout=2.0)
            holder.engine.unpark(ticket)
        for ticket in reversed(ahead):  # each tells the waiter that it stands behind another now
            await holder.io.sleep(0.1)
            await holder.engine.leave(ticket, timeout=2.0)

    async def wait() -> float:
        await waiter.io.sleep(1.0)
        start = stage.now
        with pytest.raises(LockTimeout):
            await stage.lock(waiter, "b", 60.0).acquire(timeout)
        return stage.now - start

    stage.start(holder, hold())
    task = stage.start(waiter, wait())
    stage.run(until=20.0)
    assert task.result == pytest.approx(timeout, abs=PROMPT)


@pytest.mark.parametrize("heirs_ttl", [1.0, 60.0])
def test_a_dead_holder_is_followed_when_its_ttl_has_passed(stage: Stage, heirs_ttl: float) -> None:
    """Whatever the ttl of the one that waits: it must not take its own renewals to notice."""
    holder, heir = stage.process("holder"), stage.process("heir")

    async def hold() -> None:
        stage.leases.append(await stage.lock(holder, "a", 2.0).acquire())
        await holder.io.sleep(60.0)

    async def follow() -> float:
        await heir.io.sleep(0.1)
        lease = await stage.lock(heir, "b", heirs_ttl).acquire()
        assert lease.abandoned
        return stage.now

    stage.start(holder, hold())
    task = stage.start(heir, follow())
    stage.run(until=5.0)
    expires = stage.now + stage.seen().holders[0].expires_in
    holder.io.crash()
    stage.run(until=30.0)
    assert expires <= task.result <= expires + PROMPT


def test_a_dead_waiter_delays_the_next_by_its_ttl(stage: Stage) -> None:
    holder, ghost, heir = (stage.process(name) for name in ("holder", "ghost", "heir"))

    async def hold() -> None:
        lease = await stage.lock(holder, "a", 60.0).acquire()
        await holder.io.sleep(5.1)
        await lease.release()

    async def haunt() -> None:
        await ghost.io.sleep(0.1)
        stage.leases.append(await stage.lock(ghost, "b", 3.0).acquire())

    async def follow() -> float:
        await heir.io.sleep(0.2)
        stage.leases.append(await stage.lock(heir, "c", 60.0).acquire())
        return stage.now

    stage.start(holder, hold())
    stage.start(ghost, haunt())
    task = stage.start(heir, follow())
    stage.run(until=5.0)
    expires = stage.now + stage.seen().waiters[0].expires_in
    ghost.io.crash()
    stage.run(until=30.0)
    assert expires <= task.result <= expires + PROMPT
