"""The scripts on real servers against the reference node: random requests must be answered alike."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from fencelock.core.ticket import Departure
from fencelock.engines.redlock.protocol import Answer, Vote
from fencelock.engines.redlock.scripts import INSPECT, READMIT
from fencelock.torture.redlock.node import Node
from tests.effort import effort
from tests.engines.redlock.calling import Caller, OpenCaller

NAMES = st.sampled_from(("x", "y"))
IDS = st.sampled_from(("a.1", "a.2", "b", "c"))
"""Of bids. The first two are of one ticket."""
TTLS = st.sampled_from((300_000, 600_000))
FENCES = st.one_of(st.integers(0, 40), st.sampled_from((1_790_000_000_000_000, 2**53 - 10**9)))
DEPARTURES = st.sampled_from(Departure)
SELDOM = st.integers(0, 4).map(lambda drawn: drawn == 4)
"""A node that has just forgotten everything answers in one way only: there would be little to see."""
DAY = 24 * 3_600_000

AGE = """
    local facts = {cmsgpack.unpack(redis.call('GET', KEYS[1]))}
    facts[8] = facts[8] - ARGV[1]
    redis.call('SET', KEYS[1], cmsgpack.pack(unpack(facts)))"""
"""Makes a node's mark older by so many ms."""


class ScriptsAgainstNode(RuleBasedStateMachine):
    """Three tickets, one with two bids, do anything to two names, on a server and on the reference."""

    url: ClassVar[str]

    @initialize()
    def start(self) -> None:
        self.caller, self.node = Caller(self.url), Node()
        self.now = 1_000
        self.readmit(0)

    @rule(name=NAMES, id=IDS, ttl=TTLS, hint=FENCES, waited=st.sampled_from((None, 0)))
    def grant(self, name: str, id: str, ttl: int, hint: int, waited: int | None) -> None:
        ours = self.caller.grant(name, id, ttl, hint, waited=waited)
        self.agree(ours, self.node.grant(name, id, ttl, hint, self.now))
        self.same_time(name)

    @rule(name=NAMES, id=IDS, fence=FENCES)
    def raise_to(self, name: str, id: str, fence: int) -> None:
        ours = self.caller.raise_to(name, id, fence)
        self.agree(ours, self.node.raise_to(name, id, fence, self.now))

    @rule(name=NAMES, id=IDS, ttl=TTLS, off=st.integers(0, 1))
    def renew(self, name: str, id: str, ttl: int, off: int) -> None:
        fence = self.node.names[name].fence + off if name in self.node.names else 1
        ours = self.caller.renew(name, id, ttl, fence)
        assert ours == self.node.renew(name, id, ttl, fence, self.now)
        self.same_time(name)

    @rule(name=NAMES, id=IDS, ttl=TTLS, off=st.integers(0, 1))
    def take_over(self, name: str, id: str, ttl: int, off: int) -> None:
        assert self.caller.find(name, id) == self.node.find(name, id, self.now)
        fence = self.node.names[name].fence + off if name in self.node.names else 1
        ours = self.caller.take_over(name, id, ttl, fence)
        assert ours == self.node.take_over(name, id, ttl, fence, self.now)
        self.same_time(name)

    @rule(name=NAMES, id=IDS, fence=FENCES, departure=DEPARTURES)
    def release(self, name: str, id: str, fence: int, departure: Departure) -> None:
        ours = self.caller.release(name, id, fence, departure)
        assert ours == self.node.release(name, id, fence, departure, self.now)

    @rule(name=NAMES, ttl=TTLS, hint=FENCES, departure=st.none() | DEPARTURES)
    def come_and_go(self, name: str, ttl: int, hint: int, departure: Departure | None) -> None:
        """As most do: without this few would find a lock free."""
        id = uuid4().hex
        self.grant(name, id, ttl, hint, None)
        if departure is None:
            self.expire(name)
        else:
            fence = self.node.names[name].fence if name in self.node.names else 0
            self.release(name, id, fence, departure)

    @rule(name=NAMES)
    def expire(self, name: str) -> None:
        self.caller.redis.delete(self.caller.keys(name)[0])
        if name in self.node.names:
            self.node.expire(name)

    @rule(floor=FENCES)
    def readmit(self, floor: int) -> None:
        since = self.node.look(self.now).since
        assert self.caller.readmit(floor) == self.node.readmit(since, floor, self.now)

    @rule(happens=SELDOM)
    def forget_everything(self, happens: bool) -> None:
        if happens:
            self.caller.forget()
            self.node.forget(Node())

    @rule(happens=SELDOM)
    def restart_with_its_memory(self, happens: bool) -> None:
        """It can't know whether it has forgotten something."""
        if happens:
            self.caller.run = f"run-{uuid4().hex}"
            self.node.forget(self.node)

    @rule()
    def look(self) -> None:
        ours, theirs = self.caller.look(), self.node.look(self.now)
        assert ours._replace(since=0, age=0.0) == theirs._replace(since=0, age=0.0)

    def agree(self, ours: Answer, theirs: Answer) -> None:
        assert ours._replace(recheck=0.0) == theirs._replace(recheck=0.0)
        assert abs(ours.recheck - theirs.recheck) < 100

    def same_time(self, name: str) -> None:
        trace = self.node.names.get(name)
        if trace is not None and trace.holder:
            assert abs(self.caller.time_left(name) - (trace.expires - self.now)) < 100_000

    def teardown(self) -> None:
        if hasattr(self, "caller"):
            self.caller.forget()
            self.caller.close()


# The scripts are the same, so the second server needs no more than a look at what it makes of them.
@pytest.mark.parametrize(
    ("server", "examples"),
    [("redis", effort(60, 400)), ("valkey", effort(15, 100))],
    ids=["redis", "valkey"],
)
def test_the_scripts_answer_as_the_reference(
    server: str, examples: int, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{server}_url")
    machine = type("Machine", (ScriptsAgainstNode,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def caller(redis_url: str, open_caller: OpenCaller) -> Caller:
    caller = open_caller(redis_url)
    assert caller.readmit()
    return caller


def test_a_late_request_with_a_shorter_ttl_takes_no_time_away(caller: Caller) -> None:
    fence = caller.grant("x", "a", 600_000).fence
    caller.grant("x", "a", 1_000)
    assert caller.renew("x", "a", 1_000, fence)
    assert caller.time_left("x") > 500_000


def test_a_lock_ends_with_its_ttl_and_the_fence_stays(caller: Caller) -> None:
    caller.grant("x", "a", 600_000)
    lock, trace, _ = caller.keys("x")
    assert 0 < caller.time_left("x") <= 600_000
    assert DAY < caller.redis.pttl(trace) <= DAY + 600_000
    assert caller.redis.pttl(caller.prefix) == -1
    caller.redis.delete(lock)
    assert caller.grant("x", "b").fence == 2


def test_a_trace_outlives_every_renewal(caller: Caller) -> None:
    fence = caller.grant("x", "a", 1_000).fence
    assert caller.renew("x", "a", 9_000_000, fence)
    trace = caller.keys("x")[1]
    assert caller.redis.pttl(trace) > DAY + 8_000_000
    assert caller.renew("x", "a", 1_000, fence)
    assert caller.redis.pttl(trace) > DAY + 8_000_000


@pytest.mark.parametrize("hours", [13, 25, -1])
def test_a_forgotten_name_starts_above_all_its_fences(caller: Caller, hours: int) -> None:
    """A mark that old, or set before the clock was set back, may be older than what was forgotten."""
    caller.grant("x", "a", hint=5_000)
    caller.redis.eval(AGE, 1, caller.prefix, hours * 3_600_000)
    caller.redis.delete(*caller.keys("x"))
    assert caller.grant("x", "b").fence > 5_000


def test_a_new_name_need_not_be_above_the_fences_of_others(caller: Caller) -> None:
    caller.grant("x", "a", hint=5_000)
    caller.redis.eval(AGE, 1, caller.prefix, 11 * 3_600_000)
    assert caller.grant("y", "b", hint=6_000).fence == 6_000


def test_the_first_waiter_that_listens_is_woken(caller: Caller) -> None:
    with caller.redis.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe("here")
        assert ears.get_message(timeout=30) is None  # it is subscribed
        caller.grant("x", "a.1")
        for id, channel, minutes in (("b.1", "here", 1), ("c.1", "here", 2), ("d.1", "gone", 3)):
            refused = caller.grant("x", id, channel=channel, waited=minutes * 60_000)
            assert refused.vote is Vote.REFUSED
        *_, waiting, listed, _, _, _, _ = caller.call(INSPECT, "x", "", 9)
        assert waiting == 2, "one that does not listen any more is not counted"
        assert listed[::2] == ["here c host 1 ", "here b host 1 "]
        assert not caller.release("x", "e.1", 0)
        assert caller.release("x", "a.1", 1)
        assert not caller.release("x", "a.1", 1)
        message = ears.get_message(timeout=30)
        assert message is not None
        assert message["data"] == "c"
        assert ears.get_message(timeout=0.1) is None, "b is not woken, and nobody is twice"


def test_a_blank_node_does_not_vote(redis_url: str, open_caller: OpenCaller) -> None:
    caller = open_caller(redis_url)
    assert caller.grant("x", "a").vote is Vote.BLANK
    assert caller.raise_to("x", "a", 5).vote is Vote.BLANK
    assert caller.renew("x", "a", 1_000, 5) is None
    assert not caller.look().intact
    assert caller.readmit(41)
    assert caller.grant("x", "a").fence == 42


def test_a_process_that_was_not_readmitted_is_blank_though_it_has_its_data(caller: Caller) -> None:
    fence = caller.grant("x", "a").fence
    caller.run = "run-2"
    assert caller.grant("x", "a").vote is Vote.BLANK
    assert caller.renew("x", "a", 1_000, fence) is None
    assert caller.release("x", "a", fence), "to give something back needs no vote"


def test_a_lock_from_before_the_loss_does_not_count_as_held(caller: Caller) -> None:
    """A snapshot may bring back a lock that was released since, under a fence that was passed since."""
    fence = caller.grant("x", "a").fence
    caller.run = "run-2"
    assert caller.readmit(100)
    assert caller.renew("x", "a", 1_000, fence) is False
    assert caller.raise_to("x", "a", fence).vote is Vote.REFUSED
    assert caller.grant("x", "a").fence == 101


def test_a_readmission_for_an_earlier_loss_is_not_heeded(caller: Caller) -> None:
    assert not caller.call(READMIT, None, caller.look().since, 7), "it is intact: its floor stays"
    caller.forget()
    since = caller.look().since
    assert not caller.call(READMIT, None, since - 1, 7)
    assert not caller.look().intact
    assert caller.call(READMIT, None, since, 7)


def test_big_fences_stay_exact(caller: Caller) -> None:
    hint = 1_790_000_000_000_001
    assert caller.grant("x", "a", hint=hint).fence == hint
    caller.release("x", "a", hint)
    after = caller.grant("x", "b")
    assert (after.fence, after.clean) == (hint + 1, hint)
