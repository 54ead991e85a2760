"""What happened in a run, in true time, as the callers, the engine and the network saw it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from fencelock.core.lease import LeaseState
from fencelock.core.ticket import Contender
from fencelock.io.simulated import SimulatedIO, World
from fencelock.observe.events import Event
from fencelock.observe.observer import Observer
from fencelock.primitives.lease import BaseLease
from fencelock.torture import records
from fencelock.torture.network import Server

_ALL_WAITERS = 1_000


@dataclass(slots=True, eq=False)
class Attempt(records.Attempt):
    """One try to hold a lock, from the caller's side."""

    rate: float = 1.0
    """How fast the clock of its process runs."""
    last: bool = False
    """Whether this is the attempt that must succeed: each live worker makes one after the faults."""
    renew: bool = True
    max_hold: float | None = None
    """How its lease ends by itself, if it does."""


@dataclass(slots=True, eq=False, kw_only=True)
class Grant(records.Grant):
    """One lease, and until when its holder relied on it."""

    attempt: Attempt
    lease: BaseLease
    refused: float = math.inf
    """When its own state first said that it was lost."""
    oddities: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Stay:
    """One ticket's stay in a queue, from the engine's side."""

    name: str
    label: str
    fence: int
    joined: float
    expires: float
    admitted: float = math.inf
    left: float = math.inf
    cause: str = ""
    by: str = ""
    """The kind of request that put it there."""
    again: bool = False
    """Whether a second copy of a request put it there. The first was answered, so no client knows of this."""


class _Recorder:
    prompt = True  # in the simulation there are no threads
    uses_no_lock = True

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def __call__(self, event: Event) -> None:
        self._events.append(event)


class History:
    """The record of one run. The checkers read it when the run is over."""

    def __init__(self, world: World, server: Server, names: list[str]) -> None:
        self.world = world
        self.names = names
        self.attempts: dict[str, Attempt] = {}
        self.grants: list[Grant] = []
        self.stays: list[Stay] = []
        self.admissions: list[Stay] = []
        self.counts: Counter[str] = Counter()
        self.forgotten: list[tuple[float, str]] = []
        """When the engine took which lock from its holder: it was broken, or the memory was wiped."""
        self.wipes: list[float] = []
        self.pauses: dict[str, list[tuple[float, float]]] = {}
        self.crashes: dict[str, float] = {}
        self.closed: dict[str, float] = {}
        """When a process had closed its client. From then on nothing of it may be left."""
        self.calm_at = math.inf
        """From this moment on there are no new faults."""
        self.settled_at = math.inf
        """From this moment on no message from the time of the faults is on its way."""
        self.ended_at = math.inf
        self.leftovers: list[str] = []
        self.events: dict[str, list[Event]] = {}
        """What the observers of each process heard. Only some runs have observers."""
        self._server = server
        self._admitted: dict[tuple[str, int], float] = {}
        self._here: dict[str, dict[int, Stay]] = {name: {} for name in names}
        self._open: dict[str, list[Grant]] = {}
        server.observe = self.look
        world.after_step = lambda io: self._sample(io.name)

    # --- the callers' side

    def attempt(
        self, io: SimulatedIO, name: str, ttl: float, timeout: float | None, *, last: bool
    ) -> Attempt:
        """A worker begins to ask for a lock."""
        label = f"a{len(self.attempts)}"
        patience = math.inf if timeout is None else timeout
        attempt = Attempt(
            io.name, label, name, ttl, patience, self.world.time, rate=io.rate, last=last
        )
        self.attempts[label] = attempt
        within = "for ever" if timeout is None else f"{patience:.2f} s"
        self.world.log(io.name, f"{label} wants {name} (ttl {ttl}, waits {within})")
        return attempt

    def granted(self, attempt: Attempt, lease: BaseLease) -> Grant:
        """The attempt got a lease."""
        now = self.world.time
        attempt.got = now
        until = now + lease.remaining() / attempt.rate
        grant = Grant(
            attempt=attempt,
            lease=lease,
            fence=lease.fence,
            granted=now,
            believed_until=until,
            abandoned=lease.abandoned,
        )
        self.grants.append(grant)
        self._open.setdefault(attempt.process, []).append(grant)
        self.counts["grants"] += 1
        self.world.log(attempt.process, f"{attempt.label} holds {lease.name}, fence {lease.fence}")
        return grant

    def lost(self, grant: Grant | None, lease: BaseLease) -> None:
        """`on_lost` ran."""
        self.counts["leases lost"] += 1
        if grant is None:  # lost before the acquire returned it
            return
        grant.told = min(grant.told, self.world.time)
        grant.reason = lease._claim.reason or ""
        self.world.log(grant.attempt.process, f"{grant.attempt.label} lost: {grant.reason}")

    def releasing(self, grant: Grant) -> None:
        """Its holder does not rely on it any more."""
        self._sample(grant.attempt.process)
        grant.closed = min(grant.closed, self.world.time)
        self._open[grant.attempt.process].remove(grant)

    def over(self, attempt: Attempt, outcome: str) -> None:
        """An attempt is over, with or without a lease."""
        attempt.ended = self.world.time
        attempt.got = min(attempt.got, attempt.ended)
        attempt.outcome = outcome
        self.counts[f"attempts {outcome}"] += 1
        self.world.log(attempt.process, f"{attempt.label} is over: {outcome}")

    def _sample(self, process: str) -> None:
        """After each step of a process: record the state of its leases."""
        for grant in self._open.get(process, ()):
            lease = grant.lease
            if lease.state is LeaseState.LOST:
                grant.refused = min(grant.refused, self.world.time)
            else:
                grant.believed_until = self.world.time + lease.remaining() / grant.attempt.rate
                if grant.refused < math.inf:
                    grant.oddities.append("was lost and came back")
            if lease.fence != grant.fence:
                grant.oddities.append(f"changed its fence to {lease.fence}")
            if lease.abandoned != grant.abandoned:
                grant.oddities.append(f"changed abandoned to {lease.abandoned}")

    def acknowledged(self, name: str) -> int:
        """How many writes the storage has confirmed to their writers."""
        return self.counts[f"acknowledged {name}"]

    def observer(self, io: SimulatedIO) -> Observer:
        """An observer that records the events of a process."""
        return _Recorder(self.events.setdefault(io.name, []))

    # --- the engine's side

    def look(self, name: str, cause: str) -> None:
        """After each change of a queue: record which tickets have joined, were admitted or have gone."""
        server, now = self._server, self.world.time
        seen = server.store.on(name, lambda queue: queue.inspect(server.io.now(), _ALL_WAITERS))
        here = self._here[name]
        if cause == "wiped":
            self.wipes.append(now)
        present: dict[int, Contender] = {c.fence: c for c in seen.contenders}
        for fence in [fence for fence in here if fence not in present]:
            stay = here.pop(fence)
            stay.left = now
            # A ticket that was found expired in this step has not left by itself.
            expired = stay.expires <= now
            if stay.admitted == math.inf and not expired and fence < min(present, default=math.inf):
                # The ticket ahead was found expired in the same step, so this ticket left as the holder.
                self._admit(stay)
            stay.cause = "expired" if expired and cause != "wiped" else cause
            if cause in ("evicted", "wiped") and not expired:
                self.forgotten.append((now, name))
        for fence, contender in present.items():
            known = here.get(fence)
            if known is None:
                known = here[fence] = Stay(name, contender.owner.label, fence, now, 0.0)
                known.by, known.again = cause, server.again
                self.stays.append(known)
            known.expires = now + contender.expires_in
        for holder in seen.holders:
            if here[holder.fence].admitted == math.inf:
                self._admit(here[holder.fence])

    def admitted(self, grant: records.Grant) -> float:
        """When the engine admitted the ticket; or else when its holder learned of it."""
        return self._admitted.get((grant.attempt.name, grant.fence), grant.granted)

    def _admit(self, stay: Stay) -> None:
        stay.admitted = self.world.time
        self.admissions.append(stay)
        self._admitted[stay.name, stay.fence] = stay.admitted

    # --- the world's side

    def pause(self, io: SimulatedIO, seconds: float) -> None:
        """Stop a process for a while, but not beyond the time of the faults."""
        now = self.world.time
        seconds = min(seconds, self.calm_at - now)
        io.pause(seconds)
        self.counts["pauses"] += 1
        self.pauses.setdefault(io.name, []).append((now, now + seconds))
        self.world.log(io.name, f"paused for {seconds:.2f} s")

    def crashed(self, io: SimulatedIO) -> None:
        """A process has crashed. It does not rely on anything any more."""
        now = self.world.time
        self.counts["crashes"] += 1
        self.crashes[io.name] = now
        self.world.log(io.name, "crashed")
        for grant in self._open.pop(io.name, []):
            grant.closed = min(grant.closed, now)

    def awake_at(self, process: str, moment: float, least: float) -> float:
        """The first moment from then on after which a process ran for at least so many seconds."""
        for start, end in sorted(self.pauses.get(process, [])):
            if start - least <= moment < end:
                moment = end
        return moment

    def forgot(self, name: str, since: float, until: float) -> bool:
        """Whether the engine took this lock from its holder in that time."""
        return any(since <= time <= until and name == where for time, where in self.forgotten)
