"""How a queue is joined, read and left. Every answer is of one session, or it counts for nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import NodeExistsError
from kazoo.protocol.states import EventType

from holdfast.core.sightings import Sightings
from holdfast.core.ticket import Departure, Place, Standing, Ticket
from holdfast.engines.zookeeper import requests as ask
from holdfast.engines.zookeeper.advice import rejection
from holdfast.engines.zookeeper.batch import Batch, wake
from holdfast.engines.zookeeper.nodes import Mark, Slip, escaped, in_order, sequence, stem
from holdfast.engines.zookeeper.own import Own
from holdfast.engines.zookeeper.requests import Stat
from holdfast.engines.zookeeper.wire import Wire
from holdfast.io.contract import IO

GONE = Standing(Place.GONE)

_REMEMBERED = 1000
"""Names of which it is remembered whose ticket was seen when an attempt was refused."""


class Queues:
    """All queues below one path, and the watches on them."""

    def __init__(self, wire: Wire, io: IO, root: str, acl: Any) -> None:
        self.root = root
        self._wire = wire
        self._io = io
        self._acl = acl
        self._sightings = Sightings()
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._watched: dict[str, Own] = {}

    def path_of(self, name: str) -> str:
        return f"{self.root}/{escaped(name)}"

    async def ask(self, until: float, *requests: Any) -> list[Any]:
        """Send requests together; an answer that is no value is one of kazoo's exceptions."""
        return (await self._wire.exchange(list(requests), until)).replies

    # --- joining

    async def join(self, ticket: Ticket, until: float) -> tuple[Own, Standing | None]:
        """Stand in a queue as a newcomer: None if someone is ahead.

        The look at the container before tells how the last holder departed, the listing after tells
        who is ahead: together they take no longer than the creation alone.
        """
        parent = self.path_of(ticket.name)
        data = Slip(ticket.ttl, ticket.owner).pack()
        create = ask.create_ticket(f"{parent}/{stem(ticket)}", data, self._acl)
        wanted = [ask.get(parent), create, ask.children(parent)]
        batch = await self._wire.exchange(wanted, until)
        while ask.gone(batch.replies[1]):  # the name's first ticket, or the first in a while
            wanted = [ask.create_container(parent, self._acl), *wanted[-3:]]
            batch = await self._wire.exchange(wanted, until)
            container = batch.replies.pop(0)
            if ask.gone(container):
                await self._make_root(until)
            elif not isinstance(container, NodeExistsError):
                value(container)
        before, created, listing = batch.replies
        path, stat = value(created)
        own = Own(parent, path[len(parent) + 1 :], stat.czxid, batch.session)
        own.promise(ticket, self._io.now())
        ordered = in_order(value(listing))
        own.marked = 0 if isinstance(before, Exception) else before[1].mzxid
        if ordered[:1] != [own.node]:
            if own.node in ordered:  # else it was evicted at once
                own.ahead, own.renewed = ordered[ordered.index(own.node) - 1], True
            return own, None
        if own.marked and _nobody_between(Stat._make(before[1]), own):
            known = before[1].mzxid == before[1].pzxid
            return own, own.admit(Mark.unpack(before[0]).abandoned if known else True)
        # Someone came or went in between.
        data, stat = value((await self.ask(until, ask.get(parent)))[0])
        return own, own.admit(own.finds_abandoned(Mark.unpack(data), Stat._make(stat), 0))

    async def find(self, ticket: Ticket, until: float) -> Own | None:
        """The ticket, should it be there although nobody said so."""
        parent, beginning = self.path_of(ticket.name), stem(ticket)
        while True:
            batch = await self._wire.exchange([ask.sync(parent), ask.children(parent)], until)
            if ask.gone(batch.replies[1]):
                return None
            found = [node for node in value(batch.replies[1]) if node.startswith(beginning)]
            if not found:
                return None
            again = await self._wire.exchange([ask.exists(f"{parent}/{found[0]}")], until)
            if again.replies[0] is not None:
                stat = Stat._make(value(again.replies[0]))
                if stat.owner == again.session:
                    own = Own(parent, found[0], stat.czxid, again.session)
                    own.promise(ticket, self._io.now())
                    return own
                await self.ask(until, ask.delete(f"{parent}/{found[0]}"))  # of a session that ends

    async def _make_root(self, until: float) -> None:
        parts = self.root.split("/")
        paths = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        for reply in await self.ask(until, *(ask.create_plain(p, self._acl) for p in paths)):
            if not isinstance(reply, NodeExistsError):
                value(reply)

    # --- looking

    async def look_again(self, own: Own, ticket: Ticket, until: float) -> Standing:
        """Renew a ticket and look where it stands."""
        touch = ask.touch(own.path, own.slip(ticket, self._io.now()))
        if own.holds or own.ahead is None:
            batch = await self._wire.exchange([touch], until)
        else:
            batch = await self._wire.exchange([touch, self._watch(own)], until)
        if self._is_gone(own, batch, batch.replies[0]):
            return GONE
        if own.holds:
            return own.standing()
        if own.ahead is None or ask.gone(batch.replies[1]):
            return await self.look(own, until)
        standing = self._waits(own, batch.replies[1])
        return standing if standing.recheck > 0 else await self.look(own, until)

    async def hear(self, own: Own, until: float) -> Standing:
        """Find out what the news is about the one ahead, and watch it further."""
        if own.renewed:
            batch = await self._wire.exchange([self._watch(own)], until)
            if self._is_gone(own, batch):
                return GONE
            if not ask.gone(batch.replies[0]):
                standing = self._waits(own, batch.replies[0])
                if standing.recheck > 0:
                    return standing
        return await self.look(own, until)

    async def look(self, own: Own, until: float, *, listen: bool = True) -> Standing:
        """Read the whole queue: who is ahead now? Takes out one that has expired."""
        while True:
            wanted = [ask.children(own.parent), ask.get(own.parent)]
            batch = await self._wire.exchange(wanted, until)
            listing, container = batch.replies
            if self._is_gone(own, batch, listing) or own.node not in value(listing):
                return GONE
            mark, stat = Mark.unpack(value(container)[0]), Stat._make(container[1])
            ordered = in_order(listing)
            place = ordered.index(own.node)
            if place == 0:
                self.let_go(own)
                standing = own.admit(own.finds_abandoned(mark, stat, self._io.now()))
                _wake(own)  # perhaps it was not the one that is parked who looked
                return standing
            if own.ahead != ordered[place - 1]:
                self.let_go(own)
                own.ahead = ordered[place - 1]
            own.marked = stat.mzxid
            request = self._watch(own) if listen else ask.get(own.path_ahead)
            batch = await self._wire.exchange([request], until)
            if self._is_gone(own, batch):
                return GONE
            if not ask.gone(batch.replies[0]):
                standing = self._waits(own, batch.replies[0])
                if standing.recheck > 0:
                    return standing
                version = batch.replies[0][1].version
                await self._expire(own.parent, ordered[:place], version, until)

    async def renew(self, pairs: Sequence[tuple[Ticket, Own]], until: float) -> dict[str, Standing]:
        """Touch many tickets in one write, and see whether those that wait still have to."""
        requests: list[Any] = []
        for ticket, own in pairs:
            requests.append(ask.touch(own.path, own.slip(ticket, self._io.now())))
            if not own.holds:
                requests.append(ask.get(own.path_ahead))
        if not requests:
            return {}
        batch = await self._wire.exchange(requests, until)
        replies = iter(batch.replies)
        standings: dict[str, Standing] = {}
        moved: list[tuple[Ticket, Own]] = []
        for ticket, own in pairs:
            touched, ahead = next(replies), None if own.holds else next(replies)
            if self._is_gone(own, batch, touched):
                standings[ticket.id] = GONE
            elif own.holds:
                standings[ticket.id] = own.standing()
            elif ask.gone(ahead):
                moved.append((ticket, own))
            else:
                standings[ticket.id] = self._waits(own, ahead)
        for ticket, own in moved:
            standings[ticket.id] = await self.look(own, until, listen=own.event is not None)
        return standings

    def _waits(self, own: Own, ahead: Any) -> Standing:
        """How a ticket stands behind one that was seen just now."""
        data, stat = value(ahead)
        ttl, now = Slip.unpack(data).ttl, self._io.now()
        left = self._sightings.left(own.path_ahead, stat.version, ttl, now)
        own.alive_until = now + left
        return Standing(Place.WAITING, own.fence, recheck=max(0.0, min(left, ttl)))

    def _is_gone(self, own: Own, batch: Batch, reply: Any = None) -> bool:
        return batch.session != own.session or ask.gone(reply)

    # --- leaving

    async def leave(self, own: Own, departure: Departure, until: float) -> bool:
        """Take a ticket out; False if it was not there."""
        found_again = not own.holds and own.ahead is None  # and nothing is known of it
        if found_again and await self.look(own, until, listen=False) == GONE:
            return False
        while True:
            if own.holds:
                mark = Mark(sequence(own.node), departure.abandoned(own.abandoned))
                request = ask.depart(own.path, own.parent, mark.pack())
            else:
                request = ask.withdraw(own.path, own.path_ahead)
            (left,) = await self.ask(until, request)
            if ask.done(left) or ask.missing(left):
                return ask.done(left)
            if own.holds:
                raise rejection(left)
            # The one ahead is gone: perhaps this is the holder by now.
            if await self.look(own, until, listen=False) == GONE:
                return False

    async def refuse(self, own: Own, until: float) -> Standing:
        """Take out a ticket that was to be admitted at once or not at all, unless it is by now.

        GONE: it was taken out, but so was one ahead that has expired: worth another attempt.
        """
        while True:
            seen, left = await self.ask(
                until, ask.get(own.path_ahead), ask.withdraw(own.path, own.path_ahead)
            )
            if ask.done(left):
                return await self._refused_by(own, seen, until)
            if ask.missing(left):
                return GONE
            standing = await self.look(own, until, listen=False)
            if standing.place is not Place.WAITING:
                return standing

    async def evict(self, name: str, until: float) -> bool:
        """Take out the holder, whoever it is."""
        parent = self.path_of(name)
        while True:
            _, listing = await self.ask(until, ask.sync(parent), ask.children(parent))
            ordered = [] if ask.gone(listing) else in_order(value(listing))
            if not ordered:
                return False
            mark = Mark(sequence(ordered[0]), abandoned=True)
            path = f"{parent}/{ordered[0]}"
            (left,) = await self.ask(until, ask.depart(path, parent, mark.pack()))
            if ask.done(left):
                return True
            if not ask.missing(left):
                raise rejection(left)

    async def _refused_by(self, own: Own, seen: Any, until: float) -> Standing:
        """Whether the one that was in the way has expired: repeated attempts count as watching."""
        path = own.path_ahead
        earlier = self._refused.pop(own.parent, path)
        if earlier != path:
            self._sightings.forget(earlier)
        self._refused[own.parent] = path
        if len(self._refused) > _REMEMBERED:
            self._sightings.forget(self._refused.popitem(last=False)[1])
        if ask.gone(seen) or self._waits(own, seen).recheck > 0:
            return Standing(Place.REFUSED)
        listing = value((await self.ask(until, ask.children(own.parent)))[0])
        ordered = in_order(listing)
        if own.ahead in ordered:
            ahead = ordered[: ordered.index(own.ahead) + 1]
            await self._expire(own.parent, ahead, seen[1].version, until)
        return GONE

    async def _expire(self, parent: str, ahead: list[str], version: int, until: float) -> None:
        """Take out the last of these, unless it has been renewed since."""
        path = f"{parent}/{ahead[-1]}"
        if len(ahead) == 1:
            mark = Mark(sequence(ahead[-1]), abandoned=True)
            await self.ask(until, ask.depart(path, parent, mark.pack(), version))
        else:
            await self.ask(until, ask.withdraw(path, f"{parent}/{ahead[-2]}", version))

    # --- watching

    def _watch(self, own: Own) -> Any:
        """Ask for the one ahead, and to be told when it is renewed or gone."""
        if own.event is None:
            own.event = self._io.event()
        self._watched[own.path_ahead] = own
        return ask.get(own.path_ahead, self._happened)

    def _happened(self, event: Any) -> None:
        """Called in the connection's thread."""
        if event.path is None:  # the connection was lost, and all watches with it
            self.wake_all()
        elif (own := self._watched.get(event.path)) is not None:
            own.renewed = event.type == EventType.CHANGED
            _wake(own)

    def wake_all(self) -> None:
        for own in list(self._watched.values()):
            own.renewed = False
            _wake(own)

    def ignore(self, own: Own) -> None:
        """Nobody is parked who wants to hear of the one ahead.

        Its watch is not taken back: there is one at most for each node, and it is used up by the next
        renewal.
        """
        if own.ahead is not None and self._watched.get(own.path_ahead) is own:
            del self._watched[own.path_ahead]

    def let_go(self, own: Own) -> None:
        """What becomes of the one ahead is of no interest any more."""
        self.ignore(own)
        if own.ahead is not None and self._refused.get(own.parent) != own.path_ahead:
            self._sightings.forget(own.path_ahead)


def _wake(own: Own) -> None:
    if own.event is not None:
        wake(own.event)


def value(reply: Any) -> Any:
    """An answer, unless it is an error with which nobody reckons."""
    if isinstance(reply, Exception):
        raise rejection(reply)
    return reply


def _nobody_between(before: Stat, own: Own) -> bool:
    """Whether the queue was empty and nobody else has come before this one."""
    return before.children == 0 and (before.creations - sequence(own.node)) % 2**31 == 0
