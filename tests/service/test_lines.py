"""Several lines of one client: the requests of a ticket may come on any of them."""

from __future__ import annotations

from fencelock.core.ticket import Place
from fencelock.service.app import Service
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket


async def test_a_ticket_that_waits_on_one_line_leaves_on_another() -> None:
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as one, raw_line(url) as other:
        holder, waiter = ticket("order:1"), ticket("order:1")
        await one.enter(holder)
        assert (await one.enter(waiter)).place is Place.WAITING
        assert waiter.id in service.acts.waits
        assert await other.leave(waiter)
        assert not service.acts.waits, "nobody waits for a ticket that has left"
        assert (await other.enter(holder)).place is Place.ADMITTED  # asked again, elsewhere
