"""What to check at every engine. The rules of an engine name those that make sense there."""

from __future__ import annotations

from fencelock.core.durations import DRIFT
from fencelock.doctor.checks import Finding, Setup, advice, bad, ok, whole_setup
from fencelock.doctor.measures import TRIPS_PER_TTL, in_words, latency_of

_MISLEADING = 1.0
"""Seconds by which a wall clock may be off where only people read it."""


@whole_setup(
    "reachable",
    why="A server that is down is missed at the next failure, and can't be examined.",
    mend="start it, or take it out of the set-up",
)
def reachable(setup: Setup) -> Finding:
    down = [f"{each.where}: {each.failure}" for each in setup.servers if each.failure]
    if down:
        return bad("; ".join(down))
    return ok(f"{len(setup.servers)} of {len(setup.servers)} answer")


@whole_setup(
    "round-trip",
    why="After a renewal that failed, there must be time for two more before the lease ends.",
    mend="use a longer ttl, or move the client and the server closer together",
)
def round_trip(setup: Setup) -> Finding | None:
    latency = latency_of(setup.servers)
    if latency is None:
        return None
    found = f"p99 {in_words(latency.p99)}, with a ttl of {setup.ttl:g} s"
    return bad(found) if latency.p99 > setup.ttl / TRIPS_PER_TTL else ok(found)


@whole_setup(
    "clock",
    why="Leases expire by the server's clock. When that is set right, they end early or late.",
    mend="run chrony or another NTP client on the servers and on this machine",
    ask="ask your provider whether the clocks follow NTP",
    leaves="efficiency",
)
def clock(setup: Setup) -> Finding | None:
    if not setup.traits.leases_expire:
        return None
    limit = DRIFT * setup.ttl
    servers = [server for server in setup.answering() if server.own_clock]
    if not servers:
        return None
    wrong, vague, untold = [], [], []
    for server in servers:
        clock = server.clock
        if clock is None:
            untold.append(server.where)
        elif clock.stepped:
            wrong.append(f"{server.where} jumped while it was looked at")
        elif abs(clock.offset) - clock.uncertainty > limit:
            wrong.append(f"{server.where} is {in_words(clock.offset, sign=True)} off")
        elif clock.uncertainty > limit:
            vague.append(f"{server.where} ± {in_words(clock.uncertainty)}")
    if wrong:
        return bad("; ".join(wrong))
    if untold:
        return Finding("unknown", f"not told by {', '.join(untold)}; --probe may help")
    if vague:
        return Finding("unknown", f"the answers are too slow to tell: {', '.join(vague)}")
    return ok(f"at most {in_words(limit)} off, 1 % of a ttl of {setup.ttl:g} s")


@whole_setup(
    "wall-clock",
    why="No lease ends by it here, but in logs and ages that people read it is misleading.",
    mend="run chrony or another NTP client on the servers and on this machine",
    ask="ask your provider whether the clocks follow NTP",
)
def wall_clock(setup: Setup) -> Finding:
    """For engines whose leases end by the time that has passed, and not by a clock that is set."""
    clocks = {server.where: server.clock for server in setup.answering() if server.clock}
    if not clocks:
        return Finding("unknown", "no server tells what its clock shows; --probe may help")
    wrong = [
        f"{where} is {in_words(clock.offset, sign=True)} off"
        for where, clock in clocks.items()
        if abs(clock.offset) - clock.uncertainty > _MISLEADING
    ]
    return advice("; ".join(wrong)) if wrong else ok(f"at most {in_words(_MISLEADING)} off")


@whole_setup(
    "encryption",
    why="Anyone on the way can read a ticket's secret id, and release the lock with it.",
    mend="use TLS beyond this machine: rediss://, etcds://, https:// and so on",
)
def encryption(setup: Setup) -> Finding | None:
    remote = [server for server in setup.answering() if server.remote]
    plain = [server.where for server in remote if not server.encrypted]
    if plain:
        return advice(f"plain text to {', '.join(plain)}")
    return ok("TLS" if remote else "nothing leaves this machine") if setup.servers else None


@whole_setup(
    "hand-over",
    why="A lock that can't be taken and handed over, with fences that grow, is of no use.",
    mend="see what the error says, and the other checks",
    leaves="not safe",
)
def hand_over(setup: Setup) -> Finding | None:
    if setup.probe is None:
        return None
    if setup.probe.failure:
        return bad(setup.probe.failure)
    first, second = setup.probe.fences
    if second <= first:
        return bad(f"the fence was {first} and then {second}", "report this as a bug, please")
    return ok(f"handed over in {in_words(setup.probe.handed_over_after)}")


@whole_setup(
    "described",
    why="What is not known about an engine can break its promise.",
    mend="look at its documentation",
    ask="look at the engine's own documentation: Fencelock has no checks for it",
    leaves="not safe",
)
def undescribed(setup: Setup) -> Finding:
    return Finding("unknown", f"there are no checks for {setup.label}")


RULES = (reachable, round_trip, clock, encryption, hand_over)
"""The rules for an engine with servers."""
