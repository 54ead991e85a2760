"""Which series the Prometheus observer exports: what rules and dashboards can use."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple, get_args

from fencelock.core.ticket import Owner
from fencelock.observe import events
from fencelock.observe.events import Event, LossReason, RequestOutcome

_OPERATIONS = ("enter", "renew", "leave")


class Series(NamedTuple):
    name: str
    labels: dict[str, str]

    def __str__(self) -> str:
        """As in the text that Prometheus scrapes."""
        labels = ",".join(f'{label}="{value}"' for label, value in self.labels.items())
        return f"{self.name}{{{labels}}}"


@cache
def exported() -> list[Series]:
    """The series of a program in which everything has happened."""
    if importlib.util.find_spec("fencelock.observe.prometheus") is None:
        return list(_planned())
    from fencelock.observe.prometheus import Metrics  # type: ignore[import-not-found, unused-ignore]

    metrics: Any = Metrics({"order:*": "order"}, registry=None)
    for event in _everything():
        metrics(event)
    return [
        Series(sample.name, dict(sample.labels))
        for collector in (metrics, _service())
        for family in collector.collect()
        for sample in family.samples
        if collector is metrics or family.name.startswith("fencelock_service")
    ]


def _service() -> Any:
    """The metrics of a lock service in which everything has happened."""
    from fencelock.observe import families
    from fencelock.service.counters import Counters

    gauges = (families.SERVICE_READY, families.SERVICE_LINES, families.SERVICE_PARKED)
    counters = Counters({}, lambda: dict.fromkeys(gauges, 1))
    for code in (200, 500, 503):
        counters.served("line enter", code, 0.001)
    counters.auth_failed()
    for limit in ("leases", "requests"):
        counters.limited(limit)
    return counters


def _everything() -> Iterator[Event]:
    """Every event. One ticket still waits, one is held, and one is suspended."""
    owner = Owner("host", 1, "label")

    def of(ticket: int) -> tuple[str, str, str, Owner, int]:
        return "order:42", "redis", "lock", owner, ticket

    ends = [
        events.Refused(*of(1), 0.1),
        events.TimedOut(*of(2), 0.1),
        events.GaveUp(*of(3), 0.1),
        events.Failed(*of(4), 0.1, "EngineError"),
    ]
    for each in ends:
        yield events.Asked(*of(each.ticket), 1.0)
        yield each
    yield events.Asked(*of(5), 1.0)
    yield events.Queued(*of(5))
    for ticket in (6, 7, 8, 9, *range(10, 10 + len(get_args(LossReason)))):
        yield events.Asked(*of(ticket), 1.0)
        yield events.Granted(*of(ticket), 0.1, ticket, abandoned=True)
        yield events.Renewed(*of(ticket), ticket, 20.0)
    yield events.HeldLong(*of(6), 6, 10.0, "the stack")
    yield events.Suspended(*of(7), 7, 5.0)
    yield events.Released(*of(8), 8, 1.0, closed=False)
    yield events.Released(*of(9), 9, 1.0, closed=True)
    for ticket, reason in enumerate(get_args(LossReason), 10):
        yield events.Lost(*of(ticket), ticket, 1.0, reason)
    yield events.Broken("order:42", "redis", owner)
    yield events.StaleFence("order:42", "sql", 1, 2)
    yield events.FenceFell("order:42", "redis", 1, 2)
    yield events.Paused("redis", 1.0)
    for operation, outcome in product(_OPERATIONS, get_args(RequestOutcome)):
        yield events.EngineRequest("redis", operation, outcome, 0.001)


_ENGINE = {"engine": ["redis"]}
_GROUP = {"group": ["order"]}
_KIND = {"kind": ["lock"]}

_PLAN: dict[str, dict[str, list[str]]] = {
    "acquire_wait_seconds": _ENGINE
    | _KIND
    | _GROUP
    | {"outcome": ["granted", "timeout", "cancelled", "refused", "error"]},
    "lease_held_seconds": _ENGINE | _KIND | _GROUP | {"end": ["released", "lost", "closed"]},
    "renewal_margin_seconds": _ENGINE | _GROUP,
    "leases": _ENGINE | {"state": ["held", "suspended"]},
    "waiters": _ENGINE | _GROUP,
    "oldest_wait_seconds": _ENGINE | _GROUP,
    "leases_lost_total": _ENGINE | _GROUP | {"reason": list(get_args(LossReason))},
    "abandoned_total": _ENGINE | _GROUP,
    "stale_fences_total": {"guard": ["sql"]} | _GROUP,
    "fence_regressions_total": _ENGINE | _GROUP,
    "held_long_total": _ENGINE | _GROUP,
    "pauses_total": _ENGINE,
    "paused_seconds_total": _ENGINE,
    "engine_request_seconds": _ENGINE
    | {"operation": list(_OPERATIONS), "outcome": list(get_args(RequestOutcome))},
    "engine_requests_total": _ENGINE
    | {"operation": list(_OPERATIONS), "outcome": list(get_args(RequestOutcome))},
}
_HISTOGRAMS = {
    "acquire_wait_seconds",
    "lease_held_seconds",
    "renewal_margin_seconds",
    "engine_request_seconds",
}


def _planned() -> Iterator[Series]:
    """What the observer will export. Only as long as there is none."""
    for metric, labels in _PLAN.items():
        for values in product(*labels.values()):
            found = dict(zip(labels, values, strict=True))
            if metric in _HISTOGRAMS:
                yield Series(f"fencelock_{metric}_sum", found)
                yield Series(f"fencelock_{metric}_count", found)
                yield Series(f"fencelock_{metric}_bucket", {**found, "le": "1.0"})
                yield Series(f"fencelock_{metric}_bucket", {**found, "le": "+Inf"})
            else:
                yield Series(f"fencelock_{metric}", found)
