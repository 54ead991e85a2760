"""ZooKeeper, three servers: what a pair costs, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.limits.zookeeper_baton import ZooKeeperBaton
from benchmarks.adapters.limits.zookeeper_pair import BareNode
from benchmarks.adapters.ours import Holdfast
from benchmarks.adapters.rivals.kazoo import KazooLock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

PAIR = (Holdfast, KazooLock, Tooz, BareNode)
HAND_OFF = (Holdfast, KazooLock, Tooz, ZooKeeperBaton)


@scenario("zookeeper-pair")
def zookeeper_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(100, 40)
    # All on one node: a leader answers sooner than a follower.
    for node in ("leader", "follower"):
        notes: list[str] = []
        url = f"zookeeper://{getattr(setting.zookeeper, node)().address}"
        samples = measure_pairs(PAIR, url, notes, rounds=rounds, pairs=pairs)
        goals = {KazooLock.label: 1.3, Tooz.label: 1.3, BareNode.label: 0.87}
        yield Table(f"ZooKeeper pair, sync, at a {node}", "µs", "lower", samples, goals, notes)


@scenario("zookeeper-hand-off")
def zookeeper_hand_off(setting: Setting) -> Iterator[Table]:
    goals = {KazooLock.label: 1.5, Tooz.label: 1.5}
    with Crew(32) as crew:
        for pace, size in setting.contests(setting.seconds(2, 0.7)):
            contest = Contest("ZooKeeper", setting.zookeeper.url, HAND_OFF, size, pace)
            chart = "" if pace.hold else "zookeeper-hand-off"
            yield measure(contest, crew, setting.rounds(5, 2), goals, chart=chart)
