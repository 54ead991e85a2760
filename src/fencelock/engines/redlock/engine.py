"""The Redlock engine: a lock on a majority of independent Redis servers, with fences that only grow.

Efficiency locks: a wrong clock or lost data at a node can let two hold the lock, but never under one fence.
docs/engines/redlock.md tells what it is good for. The files of this folder, from the top down:

- `opening`: from a URL to the engine. `engine`: the operations of the contract.
- `bidding`: one attempt to hold a name. `ticket_state`: what the client remembers about a ticket.
- `takeover`: going on with a ticket that another client has entered.
- `protocol`: the pure rules of a bid, which the simulation runs too.
- `quorum`, `asking`: a question to all nodes, and the error if too few answer. `inspection`: reads their
  views.
- `pending_releases`: releases that a node has not confirmed. `readmission`, `readmission_rule`: nodes that
  lost their data vote again.
- `nodes`, `node_links`: which nodes can be asked, and the links to them; `blocking` and `multiplexed` are
  the two kinds. `requests`, `scripts`, `lua/`: what runs on a node.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.bidding import Bidding
from fencelock.engines.redlock.inspection import Scan, inspection_of
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.pending_releases import PendingReleases, Release
from fencelock.engines.redlock.protocol import DECISION_LIMIT, Bid, Outcome, Tally, Vote
from fencelock.engines.redlock.quorum import Quorum
from fencelock.engines.redlock.readmission import Readmission
from fencelock.engines.redlock.requests import introduction, releases, renewals
from fencelock.engines.redlock.scripts import EVICT, INSPECT
from fencelock.engines.redlock.takeover import Taken, Takeover
from fencelock.engines.redlock.ticket_state import TicketState
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines.diagnosis import Server

_Holder = tuple[Ticket, TicketState]

_MIN_TIDY = 1_000
"""With fewer tickets than this, a client does not look for those that it can forget."""

_GONE = Standing(Place.GONE)


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
        portable=True,
        fenced_while_waiting=False,
    )

    def __init__(self, nodes: Nodes, where: str, io: IO) -> None:
        self._nodes = nodes
        self._io = io
        self._readmission = Readmission(nodes, io)
        self._quorum = Quorum(nodes, self._readmission, where)
        self._pending = PendingReleases(nodes, io)
        self._bidding = Bidding(nodes, self._readmission, self._pending, io)
        self._takeover = Takeover(nodes, self._bidding, io)
        self._states: dict[str, TicketState] = {}
        self._tidy_at = _MIN_TIDY
        self._leaving: dict[str, TicketState] = {}
        """The tickets whose release was sent, and is not decided yet."""
        self._parked_lock = threading.Lock()
        """Held while another thread interrupts a `park`: until then its links must not go to anybody else."""

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        state = self._states.get(ticket.id) or self._new_state(ticket.id)
        state.expires = self._io.now() + ticket.ttl
        kept, state.links = state.links, None
        links: NodeLinks | None = None
        try:
            links = await self._quorum.take(ticket.name, timeout, kept)
            bid = await self._bidding.bid(links, ticket, state, not if_free)
            if bid.outcome is Outcome.UNREACHABLE and await self._readmission.readmit(links):
                bid = await self._bidding.bid(links, ticket, state, not if_free)
            taken = Taken.GONE
            if bid.outcome is Outcome.REFUSED and state.elsewhere:
                (taken,) = await self._takeover.take_over(links, [(ticket, state)], timeout)
                if taken is Taken.UNDECIDED:
                    raise self._quorum.lost(ticket.name)
        except BaseException:
            self._states[ticket.id] = state  # until it leaves: some nodes may list it
            for these in (kept, links):
                if these is not None:
                    these.ignore(ticket.id)
            if links is not None:
                self._nodes.discard(links)
            raise
        refused = bid.outcome is Outcome.REFUSED and taken is not Taken.OVER
        if refused and not if_free:
            self._states[ticket.id] = state
            state.links, state.fence = links, 0
            state.recheck_at = self._io.now() + self._recheck(state, bid)
            return self._waiting(state)
        links.ignore(ticket.id)
        if refused:
            self._states.pop(ticket.id, None)
        else:
            self._states[ticket.id] = state
        self._nodes.give(links)
        if refused:
            return Standing(Place.REFUSED)
        if bid.outcome is Outcome.UNREACHABLE:
            raise self._quorum.lost(ticket.name)
        if bid.outcome is Outcome.WON:
            state.fence, state.abandoned = bid.fence, bid.abandoned
        return Standing(Place.ADMITTED, state.fence, state.abandoned)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings: list[Standing | None] = [_GONE] * len(tickets)
        holders: dict[int, _Holder] = {}
        elsewhere: list[int] = []
        for index, ticket in enumerate(tickets):
            state = self._states.get(ticket.id)
            if state is not None and state.fence:
                holders[index] = ticket._replace(id=state.id), state
            elif state is not None and state.waits_here:
                standings[index] = self._waiting(state)
            else:
                elsewhere.append(index)
        if holders:
            outcomes = await self._renew(list(holders.values()), timeout)
            for (index, (ticket, state)), outcome in zip(holders.items(), outcomes, strict=True):
                if outcome is None:
                    standings[index] = None
                elif outcome:
                    standings[index] = Standing(Place.ADMITTED, state.fence, state.abandoned)
                    state.expires = self._io.now() + ticket.ttl
                else:
                    elsewhere.append(index)
        if elsewhere:
            try:
                found = await self._renew_elsewhere([tickets[at] for at in elsewhere], timeout)
            except EngineError:
                if len(elsewhere) == len(tickets):
                    raise
                found = [None] * len(elsewhere)  # the others have their answers
            for index, standing in zip(elsewhere, found, strict=True):
                standings[index] = standing
        return standings

    async def _renew_elsewhere(
        self, tickets: Sequence[Ticket], timeout: float
    ) -> list[Standing | None]:
        """Renew tickets that this client does not know, or that another client may have taken over."""
        states = [self._states.get(one.id) or self._new_state(one.id) for one in tickets]
        links = await self._quorum.take(None, timeout)
        with self._nodes.returned(links):
            pairs = list(zip(tickets, states, strict=True))
            results = await self._takeover.take_over(links, pairs, timeout)
        standings: list[Standing | None] = []
        for ticket, state, taken in zip(tickets, states, results, strict=True):
            if taken is Taken.OVER:
                self._states[ticket.id] = state
                state.expires = self._io.now() + ticket.ttl
                standings.append(Standing(Place.ADMITTED, state.fence, state.abandoned))
            elif taken is Taken.UNDECIDED:
                standings.append(None)
            else:
                # A waiter that is known here waits, also while no node lists it: it asks again soon.
                waits = taken is Taken.LISTED or self._states.get(ticket.id) is state
                standings.append(self._waiting(state) if waits and not state.fence else _GONE)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        self._forget_expired_leaves()
        again = self._leaving.pop(ticket.id, None)
        state = again or self._states.pop(ticket.id, None) or self._new_state(ticket.id)
        if state.parked is not None:  # the client is being closed
            state.parked.dismiss(ticket.id)
        kept, state.links = state.links, None
        if kept is not None:
            kept.ignore(ticket.id)
        state.elsewhere = again is not None and again.elsewhere
        release = Release(ticket._replace(id=state.id), state.fence, departure, state.channels)
        links: NodeLinks | None = None
        told_before = () if again is None else again.known_at()
        tally = Tally(len(self._nodes.all))
        for yes in state.released.values():
            tally.answered(yes)

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is not None and node not in state.released:
                # A node that was told before may have released then, and its answer was lost.
                state.released[node] = yes = replies[0] == 1 or node in told_before
                state.elsewhere = state.elsewhere or replies[0] == 2
                tally.answered(yes)
            return ()

        try:
            links = await self._quorum.take(ticket.name, timeout, kept, state.asked_on)
            limit = min(self._nodes.node_timeout, timeout)
            if again is not None:  # the nodes that have answered before can't decide it
                wanted = len(state.released.keys() & links.connected()) + tally.missing
                await self._nodes.revive(links, wanted, self._io.now() + limit)
            requests = releases(links, *release)
            await ask(self._nodes, links, requests, take, limit, lambda: tally.outcome is not None)
        except BaseException:
            if known := state.known_at():
                self._pending.add(known, release)
            if links is not None:
                self._nodes.discard(links)
            self._keep_undecided(ticket, state)
            raise
        self._pending.track(links, links.unanswered(), state, release)
        self._nodes.give(links)
        if tally.outcome is None:
            self._keep_undecided(ticket, state)
            raise self._quorum.lost(ticket.name)
        if not tally.outcome and state.elsewhere:
            # Another client has the lock for this ticket. If it can be taken over, it is known from then on.
            (standing,) = await self._renew_elsewhere([ticket], timeout)
            if standing is None:
                raise self._quorum.lost(ticket.name)
            if standing.place is Place.ADMITTED:
                return await self.leave(ticket, timeout=timeout, departure=departure)
        return tally.outcome

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        state = self._states.get(ticket.id)
        if state is None or state.links is None:
            return None
        links, state.links = state.links, None
        state.parked = links
        try:
            await links.listen(ticket.id, until)
        except BaseException:
            links.ignore(ticket.id)
            self._nodes.discard(links)
            raise
        finally:
            with self._parked_lock:
                state.parked = None
        if ticket.id in self._states and links.usable:
            state.links = links
        else:
            self._nodes.discard(links)
        return None

    def unpark(self, ticket: Ticket) -> None:
        state = self._states.get(ticket.id)
        if state is not None and state.links is not None:
            links, state.links = state.links, None
            links.ignore(ticket.id)
            self._nodes.give(links)

    def interrupt(self, ticket: Ticket) -> None:
        with self._parked_lock:
            state = self._states.get(ticket.id)
            if state is not None and state.parked is not None:
                state.parked.interrupt(ticket.id)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        answers = await self._quorum.call_all(name, INSPECT, timeout, str(limit))
        return inspection_of(name, answers, self._nodes.enough, limit)

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        links = await self._quorum.take(None, timeout)
        scan = Scan()
        requests = [scan.request(node) for node in links.connected()]
        await self._quorum.ask_all(links, requests, scan.take, timeout)
        if len(scan.done) < self._nodes.enough:
            raise self._quorum.lost(None)
        # A name that is locked on fewer nodes is not held: a failure has left that behind.
        return sorted(name for name in scan.held_on(self._nodes.enough) if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        answers = await self._quorum.call_all(name, EVICT, timeout)
        return answers.count(1) >= self._nodes.enough

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        from fencelock.engines.resp.diagnosis import describe  # few programs need it

        nodes = [health.node for health in self._nodes.all]
        return [await describe(node, self._io, timeout, role="node") for node in nodes]

    async def close(self) -> None:
        for id, state in list(self._states.items()):
            if state.parked is not None:
                state.parked.dismiss(id)
        await self._readmission.close()
        await self._pending.close()
        await self._nodes.close()
        for state in list(self._states.values()):
            if state.links is not None:  # of a ticket that waits, but is not parked
                self._nodes.give(state.links)

    def _new_state(self, id: str) -> TicketState:
        if len(self._states) >= self._tidy_at:
            # Tickets that went on by another client, or whose caller is gone. If they are needed after all,
            # they are found at the nodes.
            now = self._io.now()
            for old, state in list(self._states.items()):
                if state.expires < now and state.links is None and state.parked is None:
                    self._states.pop(old, None)
            self._tidy_at = max(_MIN_TIDY, 2 * len(self._states))
        backoff = Backoff(0.01, 0.5, self._io.random)
        return TicketState(id, self._io.now(), backoff, len(self._nodes.all))

    def _keep_undecided(self, ticket: Ticket, state: TicketState) -> None:
        """Keep what some nodes have answered, for the next `leave` of this ticket."""
        state.expires = self._io.now() + ticket.ttl
        self._leaving[ticket.id] = state

    def _forget_expired_leaves(self) -> None:
        """Forget undecided releases of tickets that have expired: nobody asks for these again."""
        if self._leaving:
            # Two at a time: in an outage there may be thousands. The first ones are the oldest. A copy,
            # because other threads add and remove.
            for id in list(self._leaving)[:2]:
                state = self._leaving.get(id)
                if state is not None and state.expires <= self._io.now():
                    self._leaving.pop(id, None)

    def _waiting(self, state: TicketState) -> Standing:
        """A renewal doesn't put off the next bid: nobody tells a waiter that a lock has expired."""
        return Standing(Place.WAITING, recheck=max(0.0, state.recheck_at - self._io.now()))

    def _recheck(self, state: TicketState, bid: Bid) -> float:
        """Seconds until the next bid if no wake-up comes: soon, or when the lock would expire."""
        pause = state.backoff.next()
        return min(pause, bid.recheck + pause / 4) if bid.recheck else pause

    async def _renew(self, holders: list[_Holder], timeout: float) -> list[bool | None]:
        """Renew holders at all nodes, in one write to each. None for a holder for which it is undecided."""
        began = self._io.now()
        links = await self._quorum.take(None, timeout)
        tallies = [Tally(len(self._nodes.all)) for _ in holders]
        unknown: dict[int, list[int]] = {}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is None:
                return ()
            for at, tally in enumerate(tallies):
                if replies[at] == Vote.BLANK:
                    self._readmission.start()
                else:
                    tally.answered(replies[at] == 1)
                    if replies[at] == 0:
                        unknown.setdefault(node, []).append(at)
            return ()

        def decided() -> bool:
            return all(tally.outcome is not None for tally in tallies)

        requests = renewals(links, [(ticket, state.fence) for ticket, state in holders])
        limit = min(self._nodes.node_timeout, timeout)
        with self._nodes.returned(links):
            await ask(self._nodes, links, requests, take, limit, decided)
            # Without this, a holder for days would lose one vote after the other as nodes restart in turn.
            for node, those in unknown.items():
                self._introduce(links, node, [holders[at] for at in those if tallies[at].outcome])
        late = self._io.now() - began >= DECISION_LIMIT  # then the answers do not count
        outcomes = [None if late else tally.outcome for tally in tallies]
        if all(outcome is None for outcome in outcomes):
            raise self._quorum.lost(None)
        return outcomes

    def _introduce(self, links: NodeLinks, node: int, holders: list[_Holder]) -> None:
        """Make holders known to a node, except those that another thread is releasing at this moment."""
        commands = []
        for ticket, state in holders:
            # First note it, then look: a release reads these notes after it has removed the state.
            state.told.add(node)
            state.asked_on, state.unheard = links, [*state.unheard, node]
            if self._states.get(ticket.id.partition(".")[0]) is state:
                commands.append(introduction(links, node, ticket, state.fence))
        if commands:
            links.tell(*Request.of(node, commands))
