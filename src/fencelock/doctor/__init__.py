"""The doctor: what a lock on a set-up is really good for. Read-only, unless it may take a lock to probe.

    engine.diagnose()            facts: what each server says about itself (`engines/diagnosis.py`)
      → Rule.check(setup)        judgements: pure functions from the facts (`doctor/<engine>.py`)
        → Report                 the verdict, in one line, and what to mend (`verdict.py`)

**To add an engine**, two steps; `redis.py` is the example to follow:

1. In the engine, override `diagnose` (see `engines/contract.py`). Return a `Server` for each server, with
   what it `said` as text, by the server's own names. A question that it refuses goes into `refused`, and a
   server that does not answer gets a `failure`. `engines.diagnosis.measure` times the round trips and
   compares the clocks. Each request has the given timeout. Judge nothing there, and import what only this
   needs in the method: few programs diagnose.
2. Write `doctor/<engine>.py`, named like the engine's label (the part before a "+"), with `RULES`, in the
   order in which people should read them. Take the rules of `common.py` that make sense for the engine. Make
   one with `@each_server` or `@whole_setup` from a function that returns `ok`, `advice` or `bad`, with what
   was found. `why` is one sentence about locks. `mend` is one command or setting. `ask` says what to ask a
   provider who hides it. `leaves` is the most that a lock is good for while this is bad. If a fact is
   missing, `server.text("fact")` by itself ends the check as "can't tell".

Then take the engine out of `TO_COME` in `tests/doctor/tables.py`, put the table that this module prints into
docs/doctor.md (a test compares them), and test each rule in `tests/doctor/` on a server that has the fault
and on one that has not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module

from fencelock.core.errors import EngineError
from fencelock.doctor import common
from fencelock.doctor.checks import Check, Rule, Setup, Status, Verdict
from fencelock.doctor.measures import ClockOffset, Latency, clocks_of, latency_of, shortest_ttl
from fencelock.doctor.probe import hand_over
from fencelock.doctor.verdict import Report, judge, weakest
from fencelock.engines.contract import Engine
from fencelock.engines.diagnosis import Server, digest_of, identity_of
from fencelock.engines.routing import RoutedEngine
from fencelock.io.contract import IO

__all__ = ["Check", "ClockOffset", "Latency", "Report", "Status", "Verdict", "examine", "rules_of"]

TIMEOUT = 2.0
"""Seconds for each request, if the caller gives none."""


def rules_of(label: str) -> tuple[Rule, ...]:
    """The rules for a kind of engine."""
    name = f"{__name__}.{label.partition('+')[0]}"
    try:
        rules: tuple[Rule, ...] = import_module(name).RULES
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return (common.undescribed,)
    return rules


async def examine(
    engine: Engine,
    io: IO,
    *,
    ttl: float | None = None,
    timeout: float = TIMEOUT,
    probe: bool = False,
) -> Report:
    """Examine what stands behind an engine. `EngineError` if no server can be examined.

    `ttl` is the ttl of the locks that it is for, or the engine's default. With `probe` a lock is taken and
    handed over, and what can't be asked without writing is asked.
    """
    if isinstance(engine, RoutedEngine):
        reports = [
            (await examine(part, io, ttl=ttl, timeout=timeout, probe=probe))._replace(
                names=tuple(engine.patterns_of(part))
            )
            for part in engine.parts()
        ]
        return _combined(engine, reports)
    servers = await engine.diagnose(timeout=timeout, probe=probe)
    serving = [server for server in servers if server.serves]
    if servers and all(server.failure for server in serving):
        failures = "; ".join(f"{each.where}: {each.failure}" for each in servers if each.failure)
        raise EngineError(
            f"it could not be examined: {failures or 'no server keeps locks'}",
            outcome="not applied",
        )
    traits = engine.traits
    ttl = traits.default_ttl if ttl is None else ttl
    probed = await hand_over(engine, io, ttl=ttl, timeout=timeout) if probe else None
    setup = Setup(engine.label, traits, servers, ttl, probed)
    checks = [check for rule in rules_of(engine.label) if (check := rule.check(setup)) is not None]
    parts = _behind(servers)
    return Report(
        engine=engine.label,
        promise=traits.guarantee,
        condition=traits.condition,
        verdict=weakest([judge(traits.guarantee, checks), *(part.verdict for part in parts)]),
        checks=tuple(checks),
        latency=latency_of(servers),
        clocks=clocks_of(servers),
        ttl=shortest_ttl(servers) if traits.leases_expire else None,
        parts=parts,
        identity=identity_of(serving),
    )


def _behind(servers: Sequence[Server]) -> tuple[Report, ...]:
    """What lock services have found out about their engine: once, if all have found the same."""
    reports = [
        Report.of_json(json.loads(server.said["report"]))
        for server in servers
        if "report" in server.said
    ]
    found = {(each.identity, each.verdict, each.in_the_way): each for each in reversed(reports)}
    return tuple(reversed(found.values()))


def _combined(engine: RoutedEngine, parts: list[Report]) -> Report:
    """The report of a client with routes: as weak as its weakest part."""
    traits = engine.traits
    return Report(
        engine=engine.label,
        promise=traits.guarantee,
        condition=traits.condition,
        verdict=weakest([part.verdict for part in parts]),
        checks=(),
        latency=max(
            (p.latency for p in parts if p.latency), key=lambda each: each.p99, default=None
        ),
        clocks=tuple(clock for part in parts for clock in part.clocks),
        ttl=max((part.ttl for part in parts if part.ttl is not None), default=None),
        parts=tuple(parts),
        identity=digest_of(part.identity for part in parts),
    )
