"""Observers hear the same story on every engine."""

import pytest

import fencelock
from fencelock import observe
from tests.conformance.cells import ENGINES, Cell
from tests.observe.recorder import Recorder
from tests.waiting import soon, within

LABELS = {
    "redis+cluster": "redis",
    **{each: "http" for each in ENGINES if each.startswith("http+")},
}


async def test_what_observers_hear(cell: Cell) -> None:
    heard = Recorder()
    client = cell.client(observers=[heard])
    lease = await cell.run(client.lock(cell.name).acquire)
    waiting = cell.actor().start(client.lock(cell.name).acquire)
    await soon(lambda: heard.heard(observe.Queued), "the waiter")
    await cell.run(lease.release)
    heir = await within(waiting)
    assert await cell.run(lambda: client.break_lock(cell.name))
    with pytest.raises(fencelock.LeaseLost):
        await cell.run(heir.release)
    await soon(lambda: not heard.oddities(), "whole stories")

    granted = [event.fence for event in heard.heard(observe.Granted)]
    assert granted == [lease.fence, heir.fence]
    assert [event.fence for event in heard.heard(observe.Released)] == [lease.fence]
    assert [event.fence for event in heard.heard(observe.Lost)] == [heir.fence]
    label = LABELS.get(cell.engine, cell.engine)
    assert {event.engine for event in heard.heard(observe.TicketEvent)} == {label}
    requests = heard.heard(observe.EngineRequest)
    assert {each.engine for each in requests} == {label}
    if client.traits.leases_expire:  # else breaking a lock ends a connection, with its requests
        assert {each.outcome for each in requests} == {"ok"}
    assert {"enter", "leave", "evict"} <= {each.operation for each in requests}
    for secret in (lease.id, heir.id):
        assert secret not in repr(heard.events)
