"""The state of a replica and of its engine, as `/v1/health` and the live page show it."""

from __future__ import annotations

from msgspec import Struct


class EngineHealth(Struct, frozen=True):
    """How the engine answered the last probe."""

    kind: str
    reachable: bool
    latency: float
    """Seconds until it answered, or until the probe gave up."""
    detail: str = ""


class Health(Struct, frozen=True):
    """The answer of `/v1/health`. "degraded": the replica is well, but its engine does not answer."""

    status: str
    engine: EngineHealth
    draining: bool
    replica: str
    version: str
