"""A lease whose object is gone: it is not renewed any more, and the next holder finds it abandoned."""

import gc
import math
from typing import Any

import pytest

from fencelock.testing.conformance.cells import Cell, kept_by, lasting
from fencelock.testing.conformance.waiting import soon, within

TTL = 1.0


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_lease_that_nobody_can_release_ends_with_its_ttl(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = cell.client(), cell.client()
    if not client.traits.leases_expire:  # it is trusted for three heartbeats: make them short
        monkeypatch.setattr(client._contexts, "default_ttl", TTL)

    async def dropped() -> int:
        lock = client.lock(cell.name, **lasting(client, TTL))
        lease = await cell.run(lock.acquire, keep=False)
        fence: int = lease.fence
        del lease
        return fence

    fence = await dropped()

    def forgotten() -> bool:
        gc.collect()  # a task may live on in a cycle
        return not kept_by(client)

    await soon(forgotten, "it to be renewed no more")
    heir: Any = await within(cell.actor().start(other.lock(cell.name).acquire))
    assert heir.fence > fence
    assert heir.abandoned
    assert (await cell.run(lambda: other.inspect(cell.name))).holders[0].held_for < math.inf
    await cell.run(heir.release)
