"""Every engine against the reference: it must answer random requests as core/queue.py does.

Nothing expires here, because the ttl is long. The conformance suite and the simulator test expiry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import ALONE, READING, Owner, Place, Share, Standing, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from tests.effort import effort

CONTENDERS = st.integers(0, 4)
SHARES = st.sampled_from(
    [
        *(ALONE, ALONE, READING, READING, Share.of(3), Share.of(3, 2), Share.of(2)),
        *(Share.rate(3, 900.0), Share.rate(3, 900.0, 2), Share.rate(2, 900.0)),
    ]
)
LIMIT = 2.0


class EngineAgainstModel(RuleBasedStateMachine):
    """Five contenders send random requests for one name, to the engine and to the model."""

    url: ClassVar[str]

    @initialize()
    def start(self) -> None:
        self.engine: Engine = open_engine(self.url, BlockingIO())
        self.name = f"model:{uuid4().hex}"
        self.model = TicketQueue(self.name)
        self.now = 1.0
        self.fences: dict[int, int] = {}
        self.newest = 0

    def ticket(self, contender: int, share: Share = ALONE) -> Ticket:
        return Ticket(self.name, f"{self.name}-{contender}", 600.0, Owner("host", contender), share)

    @rule(contender=CONTENDERS, if_free=st.booleans(), share=SHARES)
    def enter(self, contender: int, if_free: bool, share: Share) -> None:
        if not self.engine.traits.supports_sharing:
            share = ALONE
        if share.lasts and not self.engine.traits.supports_rates:
            share = Share.of(share.permits, share.weight)
        ticket = self.ticket(contender, share)
        ours = run(self.engine.enter(ticket, if_free=if_free, timeout=LIMIT))
        self.engine.unpark(ticket)
        self.agree(contender, ours, self.model.enter(ticket, self.now, if_free=if_free))

    @rule(contenders=st.lists(CONTENDERS, min_size=1, unique=True))
    def renew(self, contenders: list[int]) -> None:
        tickets = [self.ticket(contender) for contender in contenders]
        answers = run(self.engine.renew(tickets, timeout=LIMIT))
        for contender, ticket, ours in zip(contenders, tickets, answers, strict=True):
            assert ours is not None
            self.agree(contender, ours, self.model.renew(ticket, self.now))

    @rule(contender=CONTENDERS)
    def leave(self, contender: int) -> None:
        ticket = self.ticket(contender)
        ours = run(self.engine.leave(ticket, timeout=LIMIT))
        assert ours == self.model.leave(ticket, self.now)
        self.fences.pop(contender, None)

    @rule()
    def evict(self) -> None:
        assert run(self.engine.evict(self.name, timeout=LIMIT)) == self.model.evict(self.now)
        present = {one.owner.pid for one in self._both()[1]}
        self.fences = {one: fence for one, fence in self.fences.items() if one in present}

    @invariant()
    def same_picture(self) -> None:
        if not hasattr(self, "engine"):
            return
        ours, _ = self._both()
        theirs = self.model.inspect(self.now, 10)
        for those, these in ((ours.holders, theirs.holders), (ours.waiters, theirs.waiters)):
            assert [(one.owner, one.share) for one in those] == [
                (one.owner, one.share) for one in these
            ]
        assert (ours.waiting, ours.abandoned) == (theirs.waiting, theirs.abandoned)
        assert run(self.engine.names(self.name, timeout=LIMIT)) == [self.name] * bool(
            theirs.holders
        )

    def agree(self, contender: int, ours: Standing, theirs: Standing) -> None:
        assert ours.place is theirs.place
        if ours.place in (Place.GONE, Place.REFUSED):
            return
        if ours.place is Place.ADMITTED:
            assert ours.abandoned == theirs.abandoned
        known = self.fences.get(contender)
        if known is None:
            assert ours.fence > self.newest, "fences only grow"
            self.fences[contender] = self.newest = ours.fence
        else:
            assert ours.fence == known, "a ticket keeps its fence"

    def _both(self) -> Any:
        seen = run(self.engine.inspect(self.name, limit=10, timeout=LIMIT))
        return seen, list(seen.contenders)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            run(self.engine.close())


SLOW = ("etcd", "zookeeper", "postgresql", "mysql")


@pytest.mark.parametrize(
    "engine", ["memory", "sqlite", "redis", "valkey", "etcd", "zookeeper", "postgresql", "mysql"]
)
def test_engine_answers_as_the_model(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    urls = {"memory": f"memory://{uuid4().hex}", "sqlite": f"sqlite:///{tmp_path}/locks.db"}
    url = urls[engine] if engine in urls else request.getfixturevalue(f"{engine}_url")
    if engine in ("redis", "valkey"):
        url += "/8"  # a separate database: `names` also lists what other tests have left in theirs
    machine = type("Machine", (EngineAgainstModel,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=effort(8, 100) if engine in SLOW else effort(25, 300),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
