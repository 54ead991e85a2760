"""What `fencelock choose` says about a decision: reasons, costs, cautions, pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from fencelock.cli.choose.code import URLS, packages, program
from fencelock.cli.choose.rules import EFFICIENT, Answers, Decision

_PAGE = "docs/do-you-need-a-lock.md"
_EXAMPLES = "examples/without_locks"


class Step(NamedTuple):
    """One step of the page."""

    title: str
    why: str
    costs: str
    page: str
    example: str | None


_AVOID = f"{_PAGE}#1-avoid-coordination"
STEPS = {
    "nothing": Step(
        "You need no lock",
        "Nothing goes wrong if two processes do it at the same time.",
        "nothing",
        _AVOID,
        None,
    ),
    "statement": Step(
        "No lock: one statement, or a constraint",
        "The database does the whole change in one step, so no other writer comes in between.",
        "nothing; with a constraint, an error for the caller that came second",
        _AVOID,
        f"{_EXAMPLES}/atomic_update.py",
    ),
    "key": Step(
        "No lock: an idempotency key",
        "The receiver stores the key with the result, and answers a repetition with the stored result.",
        "a key that is made before the first attempt, and kept with the result",
        _AVOID,
        f"{_EXAMPLES}/idempotency_key.py",
    ),
    "crdt": Step(
        "No lock: copies that can be merged",
        "A CRDT gives the same result in whatever order, and however often, copies are merged.",
        "every rule about all copies together, such as: never below zero",
        _AVOID,
        f"{_EXAMPLES}/g_counter.py",
    ),
    "version": Step(
        "No lock: an optimistic version",
        "Write only if the version is still the one that was read. Otherwise read and compute again.",
        "work in vain when writers meet",
        f"{_PAGE}#2-optimistic-versions-and-etags",
        f"{_EXAMPLES}/optimistic_version.py",
    ),
    "election": Step(
        "A single writer by election",
        "One process writes, and the others send it their changes: no lock for each change.",
        "a pause of one ttl when the writer dies",
        f"{_PAGE}#3-a-single-writer-by-election",
        f"{_EXAMPLES}/single_writer.py",
    ),
    "efficiency": Step(
        "An efficiency lock",
        "Two at once waste work, and break nothing.",
        "two round trips, and the wait for other holders",
        f"{_PAGE}#4-an-efficiency-lock",
        f"{_EXAMPLES}/efficiency_lock.py",
    ),
    "correctness": Step(
        "A correctness lock with a guard",
        "Two at once would do damage, and the work can't be repeated, or expressed in one step.",
        "more than any other way: a queue, and a guard at the storage",
        f"{_PAGE}#5-a-correctness-lock-with-a-guard",
        f"{_EXAMPLES}/correctness_lock.py",
    ),
}


def cautions(answers: Answers, decision: Decision) -> Iterator[str]:
    """What the user has to know, and to see to."""
    engine, guard = decision.engine, decision.guard
    if engine == "postgresql" and answers["runs"] != engine:
        yield (
            "Your SQL database can keep the lock, too, and promises more than Redis. "
            "If it is MySQL or MariaDB: mysql://."
        )
    if engine == "etcd" and answers["runs"] != engine and guard == "outside":
        yield "Where nothing checks the fence, only an engine that promises correctness will do."
    if engine == "sqlite":
        yield "The file must be on a local disk, not on a network share."
    if engine in EFFICIENT and guard != "none":
        yield (
            f"{engine.capitalize()} may let two work at once, after a restart, a failover or a clock "
            "jump. The guard then refuses one of them."
        )
    if guard != "none" and engine in ("postgresql", "mysql"):
        yield (
            "Never set the clock of the database server forward, and let no standby take over that "
            "lacks the newest commits."
        )
    if guard == "redis":
        yield (
            "The Redis with the data must not evict keys (maxmemory-policy noeviction), and no replica "
            "may take over that lacks the newest writes."
        )
    if guard == "outside":
        yield (
            "Nothing checks the fence there. A holder that is paused past its ttl can still do harm: "
            "send an idempotency key with each request."
        )


def as_json(answers: Answers, decision: Decision) -> dict[str, Any]:
    """docs/cli.md documents these keys, so they stay."""
    step = STEPS[decision.step]
    return {
        "answers": dict(answers),
        "step": decision.step,
        "title": step.title,
        "why": step.why,
        "costs": step.costs,
        "engine": decision.engine,
        "url": URLS[decision.engine] if decision.engine else None,
        "guard": None if decision.guard in ("none", "outside") else decision.guard,
        "cautions": list(cautions(answers, decision)),
        "pages": list(pages(decision)),
        "example": step.example,
        "install": packages(decision),
        "code": program(decision),
    }


def pages(decision: Decision) -> Iterator[str]:
    yield STEPS[decision.step].page
    if decision.engine:
        yield f"docs/engines/{decision.engine}.md"
    if decision.guard not in ("none", "outside"):
        yield "docs/fencing.md"
