"""Rules on recorded facts, for what no server here can be brought to say."""

from __future__ import annotations

from fencelock.doctor import Check
from fencelock.doctor.checks import Rule, Setup
from fencelock.engines.diagnosis import Server
from fencelock.engines.memory import MemoryEngine


def judged(rule: Rule, *servers: Server, ttl: float = 30.0) -> Check:
    """What a rule says about these servers."""
    found = rule.check(Setup("test", MemoryEngine.traits, servers, ttl))
    assert found is not None
    return found
