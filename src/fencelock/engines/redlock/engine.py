"""The Redlock engine: a lock on a majority of independent Redis servers, with fences that only grow.

Efficiency locks: a node's clock or a lost memory can let two hold the lock, but not under one fence.
`protocol` decides and `asking` asks; docs/engines/redlock.md tells what it is good for.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from fencelock.core.backoff import Backoff
from fencelock.core.names import matches
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.leftovers import Leftovers, Release
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.members import Members
from fencelock.engines.redlock.protocol import (
    PATIENCE,
    Answer,
    Bid,
    Outcome,
    Tally,
    Verdict,
    validity,
)
from fencelock.engines.redlock.quorum import Quorum
from fencelock.engines.redlock.requests import (
    grants,
    hint,
    introduction,
    raising,
    release,
    releases,
    renewals,
)
from fencelock.engines.redlock.scripts import EVICT, INSPECT
from fencelock.engines.redlock.seat import Seat
from fencelock.engines.redlock.seeing import Scan, inspection_of
from fencelock.engines.redlock.welcoming import Host
from fencelock.engines.resp.script import floor_of
from fencelock.io.contract import IO

_WAITING = Standing(Place.WAITING)
_GONE = Standing(Place.GONE)
_SHARE = 0.2
"""How much of a ttl a node may use up before it answers."""


class RedlockEngine(Engine):
    """One lock on several servers."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "agreed upon by a majority of nodes in two phases: unique and growing without any clock while no "
            "node forgets; one that forgot waits by its own wall clock before it votes again; if most forget "
            "at once, max(what is left, the clients' clocks in µs)"
        ),
        clock="each node's own, and a majority of them",
        fifo=False,
        fenced_while_waiting=False,
    )

    def __init__(self, members: Members, where: str, io: IO) -> None:
        self._members = members
        self._nodes = len(members.all)
        self._io = io
        self._host = Host(members, io)
        self._quorum = Quorum(members, self._host, where)
        self._leftovers = Leftovers(members, io)
        self._seats: dict[str, Seat] = {}
        self._leaving: dict[str, Seat] = {}
        """Those whose release was begun, and is not decided yet."""
        self._rousing = threading.Lock()
        """While somebody's lines are cut from outside, they must not go to anybody else."""

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        seat = self._seats.get(ticket.id) or self._new_seat(ticket.id)
        kept, seat.lines = seat.lines, None
        lines: Lines | None = None
        try:
            lines = await self._quorum.take(ticket.name, timeout, kept)
            bid = await self._bid(lines, ticket, seat, not if_free)
            if bid.outcome is Outcome.UNREACHABLE and await self._host.welcome(lines):
                bid = await self._bid(lines, ticket, seat, not if_free)
        except BaseException:
            self._seats[ticket.id] = seat  # until it leaves: it may be in some nodes' lists
            for these in (kept, lines):
                if these is not None:
                    these.ignore(ticket.id)
            if lines is not None:
                self._members.discard(lines)
            raise
        if bid.outcome is Outcome.REFUSED and not if_free:
            self._seats[ticket.id] = seat
            seat.lines, seat.fence = lines, 0
            return Standing(Place.WAITING, recheck=self._recheck(seat, bid))
        lines.ignore(ticket.id)
        if bid.outcome is Outcome.REFUSED:
            self._seats.pop(ticket.id, None)
        else:
            self._seats[ticket.id] = seat
        self._members.give(lines)
        if bid.outcome is Outcome.WON:
            seat.fence, seat.abandoned = bid.fence, bid.abandoned
            return Standing(Place.ADMITTED, bid.fence, bid.abandoned)
        if bid.outcome is Outcome.UNREACHABLE:
            raise self._quorum.lost(ticket.name)
        return Standing(Place.REFUSED)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings: list[Standing | None] = [_GONE] * len(tickets)
        holders: dict[int, tuple[Ticket, Seat]] = {}
        for index, ticket in enumerate(tickets):
            seat = self._seats.get(ticket.id)
            if seat is not None and seat.fence:
                holders[index] = ticket._replace(id=seat.id), seat
            elif seat is not None:
                standings[index] = _WAITING
        if holders:
            outcomes = await self._renew(list(holders.values()), timeout)
            for (index, (_, seat)), outcome in zip(holders.items(), outcomes, strict=True):
                if outcome is None:
                    standings[index] = None
                elif outcome:
                    standings[index] = Standing(Place.ADMITTED, seat.fence, seat.abandoned)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        self._forget_undecided()
        told = self._leaving.pop(ticket.id, None)
        seat = told or self._seats.pop(ticket.id, None) or self._new_seat(ticket.id)
        if seat.parked is not None:  # the client is being closed
            seat.parked.dismiss(ticket.id)
        kept, seat.lines = seat.lines, None
        if kept is not None:
            kept.ignore(ticket.id)
        bidder = ticket._replace(id=seat.id)
        lines: Lines | None = None
        doubtful = () if told is None else told.known_at()
        tally = Tally(self._nodes)
        for yes in seat.released.values():
            tally.answered(yes)

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is not None and node not in seat.released:
                # If it was told before, it may have done so and its answer was lost.
                seat.released[node] = yes = replies[0] == 1 or node in doubtful
                tally.answered(yes)
            return ()

        try:
            lines = await self._quorum.take(ticket.name, timeout, kept, seat.asked_on)
            patience = min(self._members.node_timeout, timeout)
            if told is not None:  # those who have answered can't decide it
                wanted = len(seat.released.keys() & lines.up()) + tally.missing
                await self._members.revive(lines, wanted, self._io.now() + patience)
            requests = releases(lines, bidder, seat.fence, departure, seat.channels)
            await ask(
                self._members, lines, requests, take, lambda: tally.outcome is not None, patience
            )
        except BaseException:
            if known := seat.known_at():
                self._leftovers.note(known, Release(bidder, seat.fence, departure, seat.channels))
            if lines is not None:
                self._members.discard(lines)
            self._undecided(ticket, seat)
            raise
        farewell = Release(bidder, seat.fence, departure, seat.channels)
        self._leave_over(lines, lines.silent(), seat, farewell)
        self._members.give(lines)
        if tally.outcome is None:
            self._undecided(ticket, seat)
            raise self._quorum.lost(ticket.name)
        return tally.outcome

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        seat = self._seats.get(ticket.id)
        if seat is None or seat.lines is None:
            return None
        lines, seat.lines = seat.lines, None
        seat.parked = lines
        try:
            await lines.listen(ticket.id, until)
        except BaseException:
            lines.ignore(ticket.id)
            self._members.discard(lines)
            raise
        finally:
            with self._rousing:
                seat.parked = None
        if ticket.id in self._seats and lines.usable:
            seat.lines = lines
        else:
            self._members.discard(lines)
        return None

    def unpark(self, ticket: Ticket) -> None:
        seat = self._seats.get(ticket.id)
        if seat is not None and seat.lines is not None:
            lines, seat.lines = seat.lines, None
            lines.ignore(ticket.id)
            self._members.give(lines)

    def interrupt(self, ticket: Ticket) -> None:
        with self._rousing:
            seat = self._seats.get(ticket.id)
            if seat is not None and seat.parked is not None:
                seat.parked.interrupt(ticket.id)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        answers = await self._quorum.ask_all(name, INSPECT, timeout, str(limit))
        return inspection_of(name, answers, self._members.enough, limit)

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        lines = await self._quorum.take(None, timeout)
        scan = Scan()
        requests = [scan.request(node) for node in lines.up()]
        await self._quorum.ask(lines, requests, scan.take, lambda: False, timeout)
        if len(scan.done) < self._members.enough:
            raise self._quorum.lost(None)
        # On fewer nodes than a majority it is only what a failure has left over.
        return sorted(name for name in scan.on(self._members.enough) if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        answers = await self._quorum.ask_all(name, EVICT, timeout)
        return answers.count(1) >= self._members.enough

    async def close(self) -> None:
        for id, seat in list(self._seats.items()):
            if seat.parked is not None:
                seat.parked.dismiss(id)
        await self._host.close()
        await self._leftovers.close()
        await self._members.close()
        for seat in list(self._seats.values()):
            if seat.lines is not None:  # of one that waits, but does not park
                self._members.give(seat.lines)

    # --- bids

    def _new_seat(self, id: str) -> Seat:
        return Seat(id, self._io.now(), Backoff(0.01, 0.5, self._io.random), self._nodes)

    async def _bid(self, lines: Lines, ticket: Ticket, seat: Seat, waits: bool) -> Bid:
        """One attempt. If it is refused, it is taken back everywhere; if nobody can tell, it stays."""
        bid = Bid(self._nodes, seat.fence)
        blank = False
        now = self._io.now()
        waited = now - seat.since
        if waits:
            lines.expect(ticket.id)
            self._subscribe(lines, ticket, seat)
        if seat.over:
            seat.bid_anew(ticket.id)
        first = seat.bids == 1 and not seat.told
        bidder = ticket._replace(id=seat.id)

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            nonlocal blank
            if replies is None:
                orders = bid.failed(node)
            else:
                answer = Answer.parse(replies[0])
                blank = blank or answer.verdict is Verdict.BLANK
                orders = bid.answered(node, answer)
            return [raising(lines, order.node, bidder, order.fence) for order in orders]

        def decided() -> bool:
            return bid.outcome is not None

        # A holder that looks again brings its own fence: under another one, a node that has missed the
        # first bid would have the lock for it, and never vote for it.
        least = seat.fence or max(hint(), floor_of(ticket.name, ticket.floor) + 1)
        requests = grants(lines, bidder, least, seat.channels, None if first else waited)
        seat.asked_on, seat.unheard = lines, lines.up()
        seat.told.update(seat.unheard)
        patience = min(self._members.node_timeout, ticket.ttl * _SHARE)
        await ask(self._members, lines, requests, take, decided, patience)
        seat.unheard = lines.silent()
        if bid.outcome is Outcome.WON and validity(ticket.ttl, self._io.now() - now) <= 0:
            bid.outcome = Outcome.REFUSED
        if bid.outcome is Outcome.REFUSED:
            stays = waited if waits else None
            seat.over = True
            lines.begin()
            for request in releases(
                lines, bidder, seat.fence, Departure.WITHDRAWN, seat.channels, stays
            ):
                lines.tell(*request)
            # What is told again later takes it off no list: by then it may wait there for its next bid.
            farewell = Release(bidder, seat.fence, Departure.WITHDRAWN, [""] * self._nodes)
            self._leave_over(lines, lines.up(), seat, farewell)
        if blank and bid.outcome is not Outcome.UNREACHABLE:
            self._host.look_after()
        return bid

    def _subscribe(self, lines: Lines, ticket: Ticket, seat: Seat) -> None:
        """Settle where each node is to wake it, and take it back where it is listed otherwise."""
        lines.begin()
        listed = ticket if seat.owner is None else ticket._replace(owner=seat.owner)
        for node in lines.up():
            channel, before = lines.channel(node), seat.channels[node]
            if before and (before != channel or listed != ticket) and not seat.fence:
                stale = release(lines.runs[node], listed, 0, Departure.WITHDRAWN, before)
                lines.tell(*Request.of(node, [stale]))
            seat.channels[node] = channel
        seat.owner = ticket.owner

    def _leave_over(self, lines: Lines, told: Sequence[int], seat: Seat, farewell: Release) -> None:
        """After a release was sent: who can't have heard of it, or too early, hears of it later."""
        missed = {node for node in seat.known_at() if lines.links[node] is None}
        if seat.asked_on is not None and not lines.follows(seat.asked_on):
            missed.update(seat.unheard)
        if missed:
            self._leftovers.note(missed, farewell)
        if doubtful := [node for node in told if node not in missed]:
            self._leftovers.doubt(doubtful, lines, farewell)

    def _undecided(self, ticket: Ticket, seat: Seat) -> None:
        """Whoever asks again is to count on what some nodes have said already."""
        seat.until = self._io.now() + ticket.ttl
        self._leaving[ticket.id] = seat

    def _forget_undecided(self) -> None:
        """Those that have expired by now, for which nobody asks again."""
        if self._leaving:
            # Some at a time, as in an outage there may be thousands; those in front were last asked for
            # longest ago. A copy, because other threads come and go.
            for id in list(self._leaving)[:2]:
                seat = self._leaving.get(id)
                if seat is not None and seat.until <= self._io.now():
                    self._leaving.pop(id, None)

    def _recheck(self, seat: Seat, bid: Bid) -> float:
        """When to bid again if nobody is heard of: soon, or when the lock would expire."""
        pause = seat.backoff.next()
        return min(pause, bid.recheck + pause / 4) if bid.recheck else pause

    async def _renew(self, holders: list[tuple[Ticket, Seat]], timeout: float) -> list[bool | None]:
        """Renew holders at all nodes, in one write to each; None for one of which too few know."""
        began = self._io.now()
        lines = await self._quorum.take(None, timeout)
        tallies = [Tally(self._nodes) for _ in holders]
        strangers: dict[int, list[int]] = {}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is None:
                return ()
            for at, tally in enumerate(tallies):
                if replies[at] == Verdict.BLANK:
                    self._host.look_after()
                else:
                    tally.answered(replies[at] == 1)
                    if replies[at] == 0:
                        strangers.setdefault(node, []).append(at)
            return ()

        def decided() -> bool:
            return all(tally.outcome is not None for tally in tallies)

        requests = renewals(lines, [(ticket, seat.fence) for ticket, seat in holders])
        try:
            patience = min(self._members.node_timeout, timeout)
            await ask(self._members, lines, requests, take, decided, patience)
            # Else a holder for days would lose one vote after the other, as nodes restart in turn.
            for node, unknown in strangers.items():
                still = [holders[at] for at in unknown if tallies[at].outcome]
                self._introduce(lines, node, still)
        except BaseException:
            self._members.discard(lines)
            raise
        self._members.give(lines)
        late = self._io.now() - began >= PATIENCE  # as if there had been no answer
        outcomes = [None if late else tally.outcome for tally in tallies]
        if all(outcome is None for outcome in outcomes):
            raise self._quorum.lost(None)
        return outcomes

    def _introduce(self, lines: Lines, node: int, holders: list[tuple[Ticket, Seat]]) -> None:
        """Make holders known to a node, unless they are being released at this very moment."""
        commands = []
        for ticket, seat in holders:
            seat.told.add(node)
            seat.asked_on, seat.unheard = lines, [*seat.unheard, node]
            if (
                self._seats.get(ticket.id.partition(".")[0]) is seat
            ):  # now, for who releases it looks at what was noted above
                commands.append(introduction(lines, node, ticket, seat.fence))
        if commands:
            lines.tell(*Request.of(node, commands))
