"""The real client of the service in the simulated world, where replicas die."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines.http.wire import Answer, AnyAct, Enter, Renew, WireStanding
from fencelock.torture.replicas import SimulatedLine, simulate_service
from tests.effort import effort


def test_nothing_is_lost_when_replicas_die() -> None:
    died = 0
    for seed in range(effort(100, 5000)):
        result = simulate_service(seed)
        assert not result.violations, result.report()
        died += result.counts["replicas died"]
    assert died > 100


def test_a_replica_that_answers_from_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica must keep no state that matters. This one renews by itself, without its engine."""
    honest = SimulatedLine.exchange

    async def remember(self: SimulatedLine, act: AnyAct, *more: Any) -> Answer:
        memory: dict[str, WireStanding] = vars(self).setdefault("memory", {})
        if isinstance(act, Renew) and act.tickets[0].id in memory:
            return Answer(standings=[memory.get(each.id) for each in act.tickets])
        answer = await honest(self, act, *more)
        if isinstance(act, Enter) and answer.standings and answer.standings[0] is not None:
            memory[act.tickets[0].id] = answer.standings[0]
        return answer

    monkeypatch.setattr(SimulatedLine, "exchange", remember)
    assert any(simulate_service(seed).violations for seed in range(100))
