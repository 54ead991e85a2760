"""ZooKeeper, one server and three: what a pair costs, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.adapters.limits.zookeeper_baton import ZooKeeperBaton
from benchmarks.adapters.limits.zookeeper_pair import BareNode
from benchmarks.adapters.ours import Fencelock
from benchmarks.adapters.rivals.kazoo import KazooLock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario
from benchmarks.turns import Pace

PAIR = (Fencelock, KazooLock, Tooz, BareNode)
PAIR_GOALS = {KazooLock.label: 1.3, Tooz.label: 1.3, BareNode.label: 0.87}
HAND_OFF = (Fencelock, KazooLock, Tooz, ZooKeeperBaton)
HAND_OFF_GOALS = {KazooLock.label: 1.5, Tooz.label: 1.5}


@scenario("zookeeper-pair")
def zookeeper_pair(setting: Setting) -> Iterator[Table]:
    yield _pair(setting, "ZooKeeper pair, sync", setting.zookeeper.url, PAIR_GOALS)
    if setting.quick:
        return
    # All on one node: a leader answers sooner than a follower.
    for node in ("leader", "follower"):
        url = f"zookeeper://{getattr(setting.zookeepers, node)().address}"
        yield _pair(setting, f"ZooKeeper of three pair, sync, at a {node}", url)


@scenario("zookeeper-hand-off")
def zookeeper_hand_off(setting: Setting) -> Iterator[Table]:
    seconds, rounds = setting.seconds(2, 0.7), setting.rounds(5, 2)
    with Crew(32) as crew:
        for pace, size in setting.contests(seconds):
            contest = Contest("ZooKeeper", setting.zookeeper.url, HAND_OFF, size, pace)
            chart = "" if pace.hold else "zookeeper-hand-off"
            yield measure(contest, crew, rounds, HAND_OFF_GOALS, chart=chart)
        if setting.quick:
            return
        for hold in (0.0, 0.001):
            pace = Pace(seconds, hold)
            contest = Contest("ZooKeeper of three", setting.zookeepers.url, HAND_OFF, 8, pace)
            yield measure(contest, crew, rounds)


def _pair(
    setting: Setting, title: str, url: str, goals: Mapping[str, float] | None = None
) -> Table:
    notes: list[str] = []
    rounds, pairs = setting.rounds(25, 8), setting.rounds(100, 50)
    samples = measure_pairs(PAIR, url, notes, rounds=rounds, pairs=pairs)
    return Table(title, "µs", "lower", samples, goals or {}, notes)
