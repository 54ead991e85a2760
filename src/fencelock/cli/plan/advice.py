"""What the model's figures mean, as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fencelock.cli.bench.expect import rough, short_duration
from fencelock.planning.model import FULL, Load, Model, shortest_ttl
from fencelock.primitives.schedule import RENEW_AT

_IMPATIENT = 5
"""From this many times the time held, waiting is most of what callers do."""

_A_ROLE = 600.0
"""Seconds. A lock that is held for longer is less a lock than a role."""

_A_CROWD = 10_000
"""Waiters at one moment, from which the queue is better kept by something that is made for it."""


def leases_per_process(model: Model, ttl: float) -> float | None:
    """How many leases one process can keep if it spends half of its time on renewals; None: unknown."""
    renewals = model.engine.renewals_per_second
    return None if renewals is None else renewals * ttl * RENEW_AT / 2


def expectations(model: Model, now: Load, operation: float) -> Iterator[str]:
    """What will happen, when more come and when a holder dies."""
    yield _about_the_name(model, now)
    if now.partition_busy is not None:
        yield _about_the_engine(model, now)
    ttl = shortest_ttl(operation, model.engine.pair_p99)
    yield _about_the_ttl(now, ttl, operation, model.engine.pair_p99)
    leases = leases_per_process(model, ttl)
    if leases is None:
        yield (
            "How many leases one process can keep is not known: give the figures of `fencelock bench`."
        )
    elif math.isfinite(tickets := now.held + now.waiting):
        processes = math.ceil(tickets / leases)
        yield (
            f"With this ttl, one process should hold no more than {rough(leases)} leases. About "
            f"{rough(tickets)} are held or waited for at a moment: that is enough work for "
            f"{processes:,} process{'es' * (processes > 1)} at least."
        )
    else:
        yield f"With this ttl, one process should hold no more than {rough(leases)} leases."


def _about_the_name(model: Model, now: Load) -> str:
    limit = model.limit
    if now.busy < 1:
        return (
            f"From {rough(limit)} locks per second on, {limit / now.per_second:.1f} times as many as now, "
            "the queue of the busiest name grows without end."
        )
    text = (
        f"The queue of the busiest name grows without end. It has an end below {rough(limit)} locks per "
        "second."
    )
    if now.per_second < model.name_limit:
        return f"{text} The engine is the reason: its requests wait for one another."
    served = now.busiest_per_second * model.name_limit / now.per_second
    return (
        f"{text} {rough(now.busiest_per_second)} callers per second come, and {rough(served)} can be "
        "served. More partitions don't change that."
    )


def _about_the_engine(model: Model, now: Load) -> str:
    known = (
        f"The engine is overloaded from {rough(model.engine_limit)} locks per second on, with "
        f"{model.partitions} partition{'s' * (model.partitions > 1)}."
    )
    if now.partitions_needed is None:
        return (
            f"{known} No number of partitions is enough: the busiest name alone is too much for one "
            f"partition, if none shall be busy for more than {FULL:.0%} of the time."
        )
    return known


def _about_the_ttl(now: Load, ttl: float, operation: float, latency: float) -> str:
    text = (
        f"A ttl of {short_duration(ttl)} is enough: 2 × (operation {short_duration(operation)} + latency "
        f"{short_duration(latency)} + drift), at least a second. If a holder is killed, its name stands "
        "still for that time"
    )
    if now.busy >= 1:
        return f"{text}."
    drained = ttl * now.busy / (1 - now.busy)
    return (
        f"{text}: at the busiest name, {rough(now.busiest_per_second * ttl)} callers queue up, and it "
        f"takes {short_duration(drained)} more until that queue is gone."
    )


def instead(model: Model, now: Load) -> list[str]:
    """When a lock is the wrong tool, and what to use."""
    return list(_instead(model, now)) or ["Nothing speaks against a lock."]


def _instead(model: Model, now: Load) -> Iterator[str]:
    held, engine = model.held, model.engine
    if held.mean <= engine.hand_off:
        yield (
            f"The work ({short_duration(held.mean)}) is shorter than a hand-off "
            f"({short_duration(engine.hand_off)}): one statement of the storage that checks and writes at "
            "once (UPDATE … WHERE, INCR, compare and swap) needs no lock. Or do several pieces of work "
            "under one lock."
        )
    if now.busy > FULL:
        yield (
            f"The busiest name is in use for more than {FULL:.0%} of the time: lock something smaller. "
            f"{model.finer(now.per_second):,} names instead of it would be enough. If most holders only "
            "read, use a read-write lock; if there is room for several, a semaphore."
        )
    if now.mean_wait > _IMPATIENT * held.mean:
        yield (
            "Callers of the busiest name wait much longer than they work. If they need no answer at once, "
            "write the work down instead: a job queue, with one worker for each name."
        )
    if _A_CROWD < now.waiting < math.inf:
        yield (
            f"About {rough(now.waiting)} callers wait at a moment, and each renews its ticket: a job queue "
            "or a rate limit in front of the lock costs less."
        )
    if held.mean > _A_ROLE:
        yield "A lock that is held for so long is a role: an election has terms, and tells the others."
