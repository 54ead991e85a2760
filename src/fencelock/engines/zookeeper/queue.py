"""How a queue is joined and read. Every answer is of one session, or it counts for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NodeExistsError

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.admission import Line
from fencelock.engines.zookeeper.advice import rejection
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.nodes import (
    Mark,
    Slip,
    ending,
    escaped,
    sequence,
    stem,
    turned,
)
from fencelock.engines.zookeeper.own import Own
from fencelock.engines.zookeeper.removals import expiry
from fencelock.engines.zookeeper.requests import Stat
from fencelock.engines.zookeeper.watches import Watches, interrupt
from fencelock.engines.zookeeper.wire import Wire
from fencelock.io.contract import IO

GONE = Standing(Place.GONE)


class Queues:
    """All queues below one path."""

    def __init__(self, wire: Wire, io: IO, root: str, acl: Any) -> None:
        self.root = root
        self.watches = Watches(io, root, wire.tell, wire.unchanged_since)
        self._wire = wire
        self._io = io
        self.acl = acl
        self.aloud = True
        """Whether farewells are said: not where the root's owner lets nobody delete below it."""

    def path_of(self, name: str) -> str:
        return f"{self.root}/{escaped(name)}"

    async def ask(self, until: float, *requests: Any) -> list[Any]:
        """Send requests together; an answer that is no value is one of kazoo's exceptions."""
        return (await self._wire.exchange(list(requests), until)).replies

    # --- joining

    async def join(self, ticket: Ticket, until: float) -> tuple[Own, Standing | None]:
        """Stand in a queue as a newcomer: None if it has to wait.

        The look at the container before tells how the last holder departed, the listing after tells
        who is ahead: together they take no longer than the creation alone.
        """
        parent = self.path_of(ticket.name)
        data = Slip(ticket.ttl, ticket.owner).pack()
        create = ask.create_ticket(f"{parent}/{stem(ticket)}", data, self.acl)
        wanted = [ask.get(parent), create, ask.children(parent)]
        batch = await self._wire.exchange(wanted, until)
        while ask.gone(batch.replies[1]):  # the name's first ticket, or the first in a while
            start = Mark(None, False, "shared").pack() if ticket.share.group else b""
            wanted = [ask.create_container(parent, start, self.acl), *wanted[-3:]]
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
        own.data = data
        line = Line.of(value(listing))
        own.marked = 0 if isinstance(before, Exception) else before[1].mzxid
        if own.node not in line.nodes:  # it was evicted at once
            own.gone = True
            return own, None
        finding = line.find(own.node)
        if finding.ahead:
            self.watches.expect(own, finding)
            own.changed.update(finding.ahead)
            return own, None
        seen = Stat._make(before[1]) if own.marked else None
        if seen is None or not _steady(seen, own, line):  # someone came or went in between
            data, stat = value((await self.ask(until, ask.get(parent)))[0])
            mark, seen = Mark.unpack(data), Stat._make(stat)
            abandoned = own.finds_abandoned(mark, seen, line.nodes[0], 0)
        else:
            mark = Mark.unpack(before[0])
            silent = seen.mzxid != seen.pzxid  # somebody else has come or gone since the last mark
            if silent or mark.state:
                abandoned = own.finds_abandoned(mark, seen, line.nodes[0], 0)
            else:
                abandoned = mark.abandoned
        return own, await self._admit(own, mark, seen, abandoned, line, until)

    async def _admit(
        self, own: Own, mark: Mark, stat: Stat, abandoned: bool, line: Line, until: float
    ) -> Standing:
        """Let a ticket hold, and write down what others have to know should it vanish."""
        own.abandoned = abandoned
        note = own.noted(mark, line.nodes[0])
        if note is not None:
            request = ask.note(own.path, own.parent, note.pack(), stat.version)
            (reply,) = await self.ask(until, request)
            if ask.missing(reply):
                return GONE
            if not ask.done(reply):  # somebody else has left a mark meanwhile
                return await self.look(own, until)
        return self.hold(own, abandoned)

    def hold(self, own: Own, abandoned: bool) -> Standing:
        """It is a ticket's turn, and nothing is left to be written down."""
        self.watches.let_go(own)
        standing = own.admit(abandoned)
        interrupt(own)  # perhaps it was not the one that is parked who looked
        return standing

    async def find(self, ticket: Ticket, until: float) -> Own | None:
        """The ticket, should it be there although nobody said so."""
        parent, end = self.path_of(ticket.name), ending(ticket)
        while True:
            batch = await self._wire.exchange([ask.sync(parent), ask.children(parent)], until)
            if ask.gone(batch.replies[1]):
                return None
            nodes = Line.of(value(batch.replies[1])).nodes
            found = [node for node in nodes if node.rpartition(".")[0].endswith(end[:-1])]
            if not found:
                return None
            again = await self._wire.exchange([ask.exists(f"{parent}/{found[0]}")], until)
            if again.replies[0] is not None:
                stat = Stat._make(value(again.replies[0]))
                if stat.owner == again.session:
                    own = Own(parent, found[0], stat.czxid, again.session)
                    own.slip(ticket, self._io.now())
                    return own
                await self.ask(until, ask.delete(f"{parent}/{found[0]}"))  # of a session that ends

    async def _make_root(self, until: float) -> None:
        parts = self.root.split("/")
        paths = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        for reply in await self.ask(until, *(ask.create_plain(p, self.acl) for p in paths)):
            if not isinstance(reply, NodeExistsError):
                value(reply)

    # --- looking

    async def look_again(self, own: Own, ticket: Ticket, until: float) -> Standing:
        """Renew a ticket and look where it stands."""
        touch = ask.touch(own.path, own.slip(ticket, self._io.now()))
        nodes = own.blockers if own.decisive and not own.holds else ()
        batch = await self._wire.exchange([touch, *self.watches.watch(own, nodes)], until)
        if self._is_gone(own, batch, batch.replies[0]):
            return GONE
        if own.holds:
            return own.standing()
        seen = dict(zip(nodes, batch.replies[1:], strict=False))
        return (self._behind(own, seen) if seen else None) or await self.look(own, until)

    async def hear(self, own: Own, until: float) -> Standing:
        """Find out what the news is about those ahead, and watch them further."""
        nodes = tuple(own.changed.intersection(own.blockers))
        if nodes and own.decisive and not own.gone:
            batch = await self._wire.exchange(self.watches.watch(own, nodes), until)
            if self._is_gone(own, batch):
                return GONE
            standing = self._behind(own, dict(zip(nodes, batch.replies, strict=False)))
            if standing is not None:
                return standing
        return await self._succeed(own, until) or await self.look(own, until)

    async def _succeed(self, own: Own, until: float) -> Standing | None:
        """Let a ticket hold if the one ahead held alone and has departed. None: look at the whole queue.

        The container's mark says so, however long the queue is. Nor has the own ticket been taken out since,
        or there would be another mark; a waiter's is only after its ttl, and then no admission counts.
        """
        if own.share.group or own.ahead is None:
            return None
        own.gone = False
        batch = await self._wire.exchange([ask.get(own.parent)], until)
        (container,) = batch.replies
        if self._is_gone(own, batch, container):
            return GONE
        mark = Mark.unpack(value(container)[0])
        if mark.state or mark.seq != sequence(own.ahead):
            return None
        return self.hold(own, mark.abandoned)

    async def look(self, own: Own, until: float, *, listen: bool = True) -> Standing:
        """Read the whole queue: who is ahead now? Takes out those that have expired."""
        while True:
            own.gone = False
            wanted = [ask.children(own.parent), ask.get(own.parent)]
            batch = await self._wire.exchange(wanted, until)
            listing, container = batch.replies
            if self._is_gone(own, batch, listing) or own.node not in value(listing):
                return GONE
            mark, stat = Mark.unpack(value(container)[0]), Stat._make(container[1])
            line = Line.of(listing)
            own.share, own.turn, own.turning = line.share(own.node), line.turn_of(own.node), False
            finding = line.find(own.node)
            if own.short and not finding.short and line.has_peer_behind(own.node):
                await self._call(own, until)
            if not finding.ahead:
                found = own.finds_abandoned(mark, stat, line.nodes[0], self._io.now())
                abandoned = own.abandoned if own.holds else found
                return await self._admit(own, mark, stat, abandoned, line, until)
            self.watches.expect(own, finding)
            own.marked = stat.mzxid
            requests = (
                self.watches.watch(own, own.blockers)
                if listen
                else [ask.get(path) for path in own.paths]
            )
            batch = await self._wire.exchange(requests, until)
            if self._is_gone(own, batch):
                return GONE
            seen = dict(zip(own.blockers, batch.replies, strict=False))
            standing = self._behind(own, seen)
            if standing is not None:
                return standing
            taken: set[str] = set()
            for node in reversed(self.watches.expired(own)):
                if node not in taken and not ask.gone(seen[node]):
                    version = seen[node][1].version
                    taken |= await self.expire(own.parent, line, node, version, until)

    async def expire(
        self, parent: str, line: Line, node: str, version: int, until: float
    ) -> set[str]:
        """Take out a ticket that has expired and the dead right ahead of it, unless they were renewed since.

        A process that dies leaves a whole row. It is read in steps of twice the size, so that there are few,
        and those who live are left alone: the first of them looks after what is ahead of it.
        """
        dead = [(node, version)]
        end, size = line.nodes.index(node), 1
        while end > 0:
            some = line.nodes[max(0, end - size) : end]
            found = await self._dead_among(parent, some, until)
            dead += found
            if len(found) < len(some):
                break
            end, size = end - len(some), 2 * size
        # The last one first: that it does not hold shows in the one ahead of it.
        await self.ask(until, *(expiry(parent, line, *one) for one in dead))
        return {node for node, _ in dead}

    async def _dead_among(
        self, parent: str, nodes: list[str], until: float
    ) -> list[tuple[str, int]]:
        """Those at the end of a row that have expired, the last one first, and their versions."""
        replies = await self.ask(until, *(ask.get(f"{parent}/{node}") for node in nodes))
        found: list[tuple[str, int]] = []
        for node, reply in zip(reversed(nodes), reversed(replies), strict=True):
            if ask.gone(reply) or not self.watches.is_dead(value(reply)):
                break
            found.append((node, reply[1].version))
        return found

    async def holds(self, own: Own, until: float) -> bool:
        """Whether a ticket was admitted, which it stays as long as its node is there."""
        if own.holds:
            return True
        standing = await self.look(own, until, listen=own.event is not None)
        return standing.place is Place.ADMITTED

    async def renew(self, pairs: Sequence[tuple[Ticket, Own]], until: float) -> dict[str, Standing]:
        """Touch many tickets in one write, and see whether those that wait still have to."""
        requests: list[Any] = []
        asked: list[tuple[str, ...]] = []
        for ticket, own in pairs:
            asked.append(own.blockers if own.decisive and not own.holds else ())
            requests.append(ask.touch(own.path, own.slip(ticket, self._io.now())))
            requests += [ask.get(f"{own.parent}/{node}") for node in asked[-1]]
        if not requests:
            return {}
        batch = await self._wire.exchange(requests, until)
        replies = iter(batch.replies)
        standings: dict[str, Standing] = {}
        moved: list[tuple[Ticket, Own]] = []
        for (ticket, own), nodes in zip(pairs, asked, strict=True):
            touched, seen = next(replies), {node: next(replies) for node in nodes}
            if self._is_gone(own, batch, touched):
                standings[ticket.id] = GONE
            elif own.holds:
                standings[ticket.id] = own.standing()
            elif seen and (standing := self._behind(own, seen)) is not None:
                standings[ticket.id] = standing
            else:
                moved.append((ticket, own))
        for ticket, own in moved:
            standings[ticket.id] = await self.look(own, until, listen=own.event is not None)
        return standings

    def _behind(self, own: Own, seen: dict[str, Any]) -> Standing | None:
        """How a ticket stands if those ahead were at most renewed; None: look at the whole queue."""
        for node, reply in seen.items():
            if ask.gone(reply):
                return None
            slip = self.watches.saw(own, node, value(reply))
            if slip.turned and own.share.group and node not in own.turned_ahead:
                return None
        return None if self.watches.expired(own) else self.watches.standing(own)

    async def _call(self, own: Own, until: float) -> None:
        """Let the next of the group know that this one has found room."""
        with suppress(RequestFailed):  # then that one learns it when it is renewed
            await self.ask(until, ask.touch(own.path, own.data))

    async def turn(self, own: Own, ticket: Ticket, until: float) -> Standing:
        """Let one that holds alone share from now on. What it found is what it leaves behind."""
        node = turned(own.node, ticket.share)
        mark = Mark(sequence(own.node), own.abandoned, "shared")
        own.turn, own.turning = node, True
        request = ask.turn(
            own.path,
            own.slip(ticket, self._io.now()),
            f"{own.parent}/{node}",
            own.parent,
            mark.pack(),
            self.acl,
        )
        batch = await self._wire.exchange([request], until)
        (reply,) = batch.replies
        if self._is_gone(own, batch) or ask.missing(reply):
            return GONE
        if not ask.done(reply) and not isinstance(reply[1], NodeExistsError):  # else it has already
            raise rejection(reply)
        own.share, own.turning = ticket.share, False
        return own.standing()

    def _is_gone(self, own: Own, batch: Batch, reply: Any = None) -> bool:
        return batch.session != own.session or ask.gone(reply)


def value(reply: Any) -> Any:
    """An answer, unless it is an error with which nobody reckons."""
    if isinstance(reply, Exception):
        raise rejection(reply)
    return reply


def _steady(before: Stat, own: Own, line: Line) -> bool:
    """Whether nobody can have held alone between a look at the container and the own arrival."""
    first = line.nodes[0]
    if first == own.node:  # the queue was empty and nobody else has come before this one
        return before.children == 0 and (before.creations - sequence(first)) % 2**31 == 0
    return 0 < (before.creations - sequence(first)) % 2**31 < 2**30  # it was there, and holds
