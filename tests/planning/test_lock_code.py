"""The real lock code, in virtual time, waits as long as the model says: no more, and in the model's order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from benchmarks.planning.measured import Caller, Turn, callers_of, waits
from fencelock.core.ticket import Owner
from fencelock.io.simulated import START, World
from fencelock.planning.held import Exponential, Fixed, Held
from fencelock.planning.queue import replay
from fencelock.primitives.context import Context
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.torture.network import Faults, FaultyEngine, Network, Server
from fencelock.torture.workers import SimulatedClient

CALLERS = 600
PROCESSES = 4

DELAY = 0.0005
MESSAGE = 1.2 * DELAY
"""The mean time of a message in the simulated network."""
ENTRY = 2 * MESSAGE
HAND_OFF = 3 * MESSAGE
"""The release and the push; and after every second push, which has no news, a look and its answer."""


@pytest.mark.parametrize("busy", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("held", [Exponential(0.02), Fixed(0.02)], ids=str)
def test_callers_wait_as_long_as_the_model_says(held: Held, busy: float) -> None:
    per_second = busy / (held.mean + HAND_OFF)
    callers = callers_of(per_second, held, CALLERS / per_second, Random(5))
    real = waits([turn.wait for turn in play(callers)])

    # The model's queue with the same callers, so that only the lock code can make a difference, and not
    # chance. test_queue.py compares that queue with the formulas, with many more callers.
    queue = replay((caller.came, caller.held + HAND_OFF) for caller in callers)
    same = waits([ENTRY + wait for wait in queue])
    assert real.mean == pytest.approx(same.mean, rel=0.06)
    assert real.p99 == pytest.approx(same.p99, rel=0.06)


def play(callers: Sequence[Caller]) -> list[Turn]:
    """Let the callers come, each in one of several processes, to one server."""
    world, random = World(7, max_steps=100 * len(callers)), Random(7)
    network = Network(world, Server(world))
    network.faults = Faults(delay=DELAY)
    clients = [_client(world, network, f"p{number}") for number in range(PROCESSES)]
    turns: list[Turn] = []

    async def take_a_turn(client: SimulatedClient, held: float) -> None:
        came = world.time
        owner = Owner(client.io.name, client.context.pid, "caller")
        lock = AsyncLock(client.contexts, "name", LockOptions(owner, ttl=600.0))
        lease = await lock.acquire()
        got = world.time
        await client.io.sleep(held)
        turns.append(Turn(came, got, world.time))
        await lease.release()

    def come(client: SimulatedClient, held: float) -> None:
        client.io.spawn(take_a_turn(client, held), "caller")

    for caller in callers:
        world.at(START + caller.came, partial(come, random.choice(clients), caller.held))
    world.run()
    world.close()
    assert not world.failures
    assert len(turns) == len(callers)
    return turns


def _client(world: World, network: Network, name: str) -> SimulatedClient:
    io = world.process(name, rate=1.0)
    engine = FaultyEngine(network, io)
    return SimulatedClient(io, engine, Context(engine, io))
