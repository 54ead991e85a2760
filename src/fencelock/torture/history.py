"""What happened in a run, by true time, from three sides: the callers, the engine, the network."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from fencelock.core.lease import LeaseState
from fencelock.core.ticket import Contender
from fencelock.io.simulated import SimulatedIO, World
from fencelock.primitives.lease import BaseLease
from fencelock.torture.network import Server

_MANY = 1_000


@dataclass(slots=True, eq=False)
class Attempt:
    """One try to hold a lock, from the caller's side."""

    io: SimulatedIO
    label: str
    name: str
    ttl: float
    timeout: float
    started: float
    got: float = math.inf
    """When the acquire ended, with a lease or without."""
    ended: float = math.inf
    """When all was over: nothing of it may be left at the engine from then on."""
    outcome: str = "unfinished"
    last: bool = False
    """The one that every live contender must win after the faults have stopped."""


@dataclass(slots=True, eq=False)
class Grant:
    """One lease, and what its holder believed about it."""

    attempt: Attempt
    lease: BaseLease
    fence: int
    granted: float
    believed_until: float
    abandoned: bool
    closed: float = math.inf
    """When the holder stopped relying on it: it began to release, or its process died."""
    told: float = math.inf
    """When `on_lost` ran."""
    reason: str = ""
    refused: float = math.inf
    """When its own state first said that it was lost."""
    oddities: list[str] = field(default_factory=list)

    @property
    def believed(self) -> float:
        """The end of the time in which its holder could think that it holds."""
        return min(self.believed_until, self.closed, self.told)

    def __str__(self) -> str:
        return f"{self.attempt.label} of {self.attempt.io.name} (fence {self.fence})"


@dataclass(slots=True, eq=False)
class Place:
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
    """What kind of request put it there."""
    again: bool = False
    """Put there by a second copy of a request that had been answered: nobody can know of it."""


class History:
    """The record of one run. Checkers read it when the run is over."""

    def __init__(self, world: World, server: Server, names: list[str]) -> None:
        self.world = world
        self.names = names
        self.attempts: dict[str, Attempt] = {}
        self.grants: list[Grant] = []
        self.places: list[Place] = []
        self.admissions: list[Place] = []
        self.counts: Counter[str] = Counter()
        self.forgotten: list[tuple[float, str]] = []
        """When and where the engine took a lock from its holder: broken, or its memory wiped."""
        self.wipes: list[float] = []
        self.pauses: dict[str, list[tuple[float, float]]] = {}
        self.crashes: dict[str, float] = {}
        self.closed: dict[str, float] = {}
        """When a process had closed its client: nothing may be there any more."""
        self.calm_at = math.inf
        """From here on there are no more faults."""
        self.settled_at = math.inf
        """From here on nothing of the faults is under way any more."""
        self.ended_at = math.inf
        self.leftovers: list[str] = []
        self._server = server
        self._here: dict[str, dict[int, Place]] = {name: {} for name in names}
        self._open: dict[SimulatedIO, list[Grant]] = {}
        server.observe = self.look
        world.after_step = self.sample

    # --- the callers' side

    def attempt(
        self, io: SimulatedIO, name: str, ttl: float, timeout: float | None, *, last: bool
    ) -> Attempt:
        """Someone begins to want a lock."""
        label = f"a{len(self.attempts)}"
        patience = math.inf if timeout is None else timeout
        attempt = Attempt(io, label, name, ttl, patience, self.world.time, last=last)
        self.attempts[label] = attempt
        within = "for ever" if timeout is None else f"{patience:.2f} s"
        self.world.log(io.name, f"{label} wants {name} (ttl {ttl}, waits {within})")
        return attempt

    def granted(self, attempt: Attempt, lease: BaseLease) -> Grant:
        """It got a lease."""
        now = self.world.time
        attempt.got = now
        until = now + lease.remaining() / attempt.io.rate
        grant = Grant(attempt, lease, lease.fence, now, until, lease.abandoned)
        self.grants.append(grant)
        self._open.setdefault(attempt.io, []).append(grant)
        self.counts["grants"] += 1
        self.world.log(attempt.io.name, f"{attempt.label} holds {lease.name}, fence {lease.fence}")
        return grant

    def lost(self, grant: Grant | None, lease: BaseLease) -> None:
        """`on_lost` ran."""
        self.counts["leases lost"] += 1
        if grant is None:  # before its caller even had it in hand
            return
        grant.told = min(grant.told, self.world.time)
        grant.reason = lease._claim.reason or ""
        self.world.log(grant.attempt.io.name, f"{grant.attempt.label} lost: {grant.reason}")

    def releasing(self, grant: Grant) -> None:
        """Its holder relies on it no more."""
        self.sample(grant.attempt.io)
        grant.closed = min(grant.closed, self.world.time)
        self._open[grant.attempt.io].remove(grant)

    def over(self, attempt: Attempt, outcome: str) -> None:
        """An attempt is over, with or without having held."""
        attempt.ended = self.world.time
        attempt.got = min(attempt.got, attempt.ended)
        attempt.outcome = outcome
        self.counts[f"attempts {outcome}"] += 1
        self.world.log(attempt.io.name, f"{attempt.label} is over: {outcome}")

    def sample(self, io: SimulatedIO) -> None:
        """After each step of a process: what do its leases say of themselves?"""
        for grant in self._open.get(io, ()):
            lease = grant.lease
            if lease.state is LeaseState.LOST:
                grant.refused = min(grant.refused, self.world.time)
            else:
                grant.believed_until = self.world.time + lease.remaining() / io.rate
                if grant.refused < math.inf:
                    grant.oddities.append("was lost and came back")
            if lease.fence != grant.fence:
                grant.oddities.append(f"changed its fence to {lease.fence}")
            if lease.abandoned != grant.abandoned:
                grant.oddities.append(f"changed abandoned to {lease.abandoned}")

    # --- the engine's side

    def look(self, name: str, cause: str) -> None:
        """After each change of a queue: who has come, was admitted, has gone?"""
        server, now = self._server, self.world.time
        seen = server.store.on(name, lambda queue: queue.inspect(server.io.now(), _MANY))
        here = self._here[name]
        if cause == "wiped":
            self.wipes.append(now)
        present: dict[int, Contender] = {c.fence: c for c in seen.contenders}
        for fence in [fence for fence in here if fence not in present]:
            place = here.pop(fence)
            place.left = now
            # One that was found expired on the occasion has not left by itself.
            expired = place.expires <= now
            if (
                place.admitted == math.inf
                and not expired
                and fence < min(present, default=math.inf)
            ):
                # The one ahead was found expired in this very step, so it left as the holder.
                place.admitted = now
                self.admissions.append(place)
            place.cause = "expired" if expired and cause != "wiped" else cause
            if cause in ("evicted", "wiped") and not expired:
                self.forgotten.append((now, name))
        for fence, contender in present.items():
            known = here.get(fence)
            if known is None:
                known = here[fence] = Place(name, contender.owner.label, fence, now, 0.0)
                known.by, known.again = cause, server.again
                self.places.append(known)
            known.expires = now + contender.expires_in
        for holder in seen.holders:
            if here[holder.fence].admitted == math.inf:
                here[holder.fence].admitted = now
                self.admissions.append(here[holder.fence])

    def left_behind(self) -> list[Place]:
        """Tickets that are in a queue now and have not expired."""
        for name in self.names:
            self.look(name, "looked")
        return [place for here in self._here.values() for place in here.values()]

    # --- the world's side

    def pause(self, io: SimulatedIO, seconds: float) -> None:
        """Let a process stand still for a while, but not longer than there are faults."""
        now = self.world.time
        seconds = min(seconds, self.calm_at - now)
        io.pause(seconds)
        self.counts["pauses"] += 1
        self.pauses.setdefault(io.name, []).append((now, now + seconds))
        self.world.log(io.name, f"paused for {seconds:.2f} s")

    def crashed(self, io: SimulatedIO) -> None:
        """A process is dead: it believes nothing any more."""
        now = self.world.time
        self.counts["crashes"] += 1
        self.crashes[io.name] = now
        self.world.log(io.name, "crashed")
        for grant in self._open.pop(io, []):
            grant.closed = min(grant.closed, now)

    def awake_at(self, process: str, moment: float, wink: float) -> float:
        """The first moment from then on at which a process was not paused for at least a wink."""
        for start, end in sorted(self.pauses.get(process, [])):
            if start - wink <= moment < end:
                moment = end
        return moment

    def forgot(self, name: str, since: float, until: float) -> bool:
        """Whether the engine took this lock from its holder in that time."""
        return any(since <= time <= until and name == where for time, where in self.forgotten)
