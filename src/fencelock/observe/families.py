"""The metrics: their names, their labels, and what they mean. docs/observing/metrics.md says more."""

from __future__ import annotations

from typing import Literal, NamedTuple

TIMES = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
"""The upper limits of buckets, in seconds: 100 µs to 5 minutes. What takes longer is in a last bucket."""

MARGINS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""The same for what is left of a ttl: finer where people set their limits."""


class Family(NamedTuple):
    """All series of one metric."""

    name: str
    """As Prometheus shows it. The name of a counter ends in `_total`."""
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    merged_by: Literal["sum", "max"] = "sum"
    """What a gauge of several processes is together."""


ACQUIRE_WAIT = Family(
    "fencelock_acquire_wait_seconds",
    "histogram",
    "Time from asking for a lock to the answer, by outcome.",
    ("engine", "kind", "group", "outcome"),
    TIMES,
)
LEASE_HELD = Family(
    "fencelock_lease_held_seconds",
    "histogram",
    "Time for which a lease was held, by how it ended.",
    ("engine", "kind", "group", "end"),
    TIMES,
)
RENEWAL_MARGIN = Family(
    "fencelock_renewal_margin_seconds",
    "histogram",
    "Time that was left of a lease when its renewal was confirmed.",
    ("engine", "group"),
    MARGINS,
)
LEASES = Family(
    "fencelock_leases",
    "gauge",
    "Leases that this process has now. Suspended: the last renewal was not answered.",
    ("engine", "state"),
)
WAITERS = Family(
    "fencelock_waiters",
    "gauge",
    "Callers of this process that wait in a queue now.",
    ("engine", "group"),
)
OLDEST_WAIT = Family(
    "fencelock_oldest_wait_seconds",
    "gauge",
    "How long the oldest of these waiters has been waiting.",
    ("engine", "group"),
    merged_by="max",
)
LEASES_LOST = Family(
    "fencelock_leases_lost_total",
    "counter",
    "Leases that were lost before they were released.",
    ("engine", "group", "reason"),
)
ABANDONED = Family(
    "fencelock_abandoned_total",
    "counter",
    "Leases whose previous holder did not release: its work may be half done.",
    ("engine", "group"),
)
STALE_FENCES = Family(
    "fencelock_stale_fences_total",
    "counter",
    "Writes that a guard refused because the holder was stale.",
    ("guard", "group"),
)
FENCE_REGRESSIONS = Family(
    "fencelock_fence_regressions_total",
    "counter",
    "Leases whose fence was not above an earlier one. Must stay 0.",
    ("engine", "group"),
)
HELD_LONG = Family(
    "fencelock_held_long_total",
    "counter",
    "Leases that were held for longer than their warn_after.",
    ("engine", "group"),
)
PAUSES = Family(
    "fencelock_pauses_total",
    "counter",
    "How often this process stood still for half a second or more while it held leases or waited.",
    ("engine",),
)
PAUSED = Family(
    "fencelock_paused_seconds_total",
    "counter",
    "How long this process stood still in these pauses.",
    ("engine",),
)
ENGINE_REQUEST = Family(
    "fencelock_engine_request_seconds",
    "histogram",
    "Time that a request to the engine took.",
    ("engine", "operation", "outcome"),
    TIMES,
)
ENGINE_REQUESTS = Family(
    "fencelock_engine_requests_total",
    "counter",
    "Requests to the engine.",
    ("engine", "operation", "outcome"),
)
ENGINE_INFO = Family(
    "fencelock_engine_info",
    "gauge",
    "The engines of this process. The value is always 1.",
    ("engine", "guarantee", "version"),
    merged_by="max",
)

ALL = (
    *(
        ACQUIRE_WAIT,
        LEASE_HELD,
        RENEWAL_MARGIN,
        LEASES,
        WAITERS,
        OLDEST_WAIT,
        LEASES_LOST,
        ABANDONED,
    ),
    *(STALE_FENCES, FENCE_REGRESSIONS, HELD_LONG, PAUSES, PAUSED),
    *(ENGINE_REQUEST, ENGINE_REQUESTS, ENGINE_INFO),
)

# What only a lock service has: `fencelock serve`.

SERVICE_REQUESTS = Family(
    "fencelock_service_requests_total",
    "counter",
    "Requests that this replica has answered, over HTTP and on lines.",
    ("route", "code"),
)
SERVICE_REQUEST = Family(
    "fencelock_service_request_seconds",
    "histogram",
    "Time that the answer to a request took, including the time it waited for a lock.",
    ("route",),
    TIMES,
)
SERVICE_READY = Family(
    "fencelock_service_ready",
    "gauge",
    "1 if this replica takes requests, 0 while it drains.",
    (),
)
SERVICE_LINES = Family(
    "fencelock_service_lines", "gauge", "Clients that have a line to this replica now.", ()
)
SERVICE_PARKED = Family(
    "fencelock_service_parked",
    "gauge",
    "Tickets that wait at this replica for their wake-up now.",
    (),
)
SERVICE_AUTH_FAILURES = Family(
    "fencelock_service_auth_failures_total",
    "counter",
    "Requests without a valid token or certificate.",
    (),
)
SERVICE_LIMITED = Family(
    "fencelock_service_limited_total",
    "counter",
    "Requests that were refused because of a limit.",
    ("limit",),
)

SERVICE = (
    *(SERVICE_REQUESTS, SERVICE_REQUEST, SERVICE_READY, SERVICE_LINES, SERVICE_PARKED),
    *(SERVICE_AUTH_FAILURES, SERVICE_LIMITED),
)

GUARDS = ("check", "columns", "etcd", "file", "object", "redis", "sql", "zookeeper")
"""The kinds of guards. Their counters exist from the beginning, with 0. "check": a guard that is not ours has
asked the lock service about a fence."""
