"""etcd, one node and three: what a pair costs, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.limits.etcd_baton import EtcdBaton
from benchmarks.adapters.limits.etcd_txns import AsyncBareTxns, BareTxns
from benchmarks.adapters.ours import AsyncFencelock, Fencelock
from benchmarks.adapters.rivals.aetcd import Aetcd
from benchmarks.adapters.rivals.etcd3gw import Etcd3gw
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_async_pairs, measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

SYNC = (Fencelock, BareTxns, Etcd3gw, Tooz)
ASYNC = (AsyncFencelock, AsyncBareTxns, Aetcd)
GOALS = {BareTxns.label: 0.88, Etcd3gw.label: 1.7, Tooz.label: 1.7, Aetcd.label: 1.7}
HAND_OFF = (Fencelock, Aetcd, Etcd3gw, Tooz, EtcdBaton)


@scenario("etcd-pair")
def etcd_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(40, 20)
    for where, url, goals in setting.etcd_of_each_size(GOALS):
        notes: list[str] = []
        sync = measure_pairs(SYNC, url, notes, rounds=rounds, pairs=pairs)
        yield Table(f"{where} pair, sync", "µs", "lower", sync, goals, notes)
        notes = []
        asynchronous = measure_async_pairs(ASYNC, url, notes, rounds=rounds, pairs=pairs)
        yield Table(f"{where} pair, asyncio", "µs", "lower", asynchronous, goals, notes)


@scenario("etcd-hand-off")
def etcd_hand_off(setting: Setting) -> Iterator[Table]:
    rounds, seconds = setting.rounds(5, 2), setting.seconds(2, 0.7)
    with Crew(32) as crew:
        for where, url, goals in setting.etcd_of_each_size({Aetcd.label: 5.0}):
            for pace, size in setting.contests(seconds):
                contest = Contest(where, url, HAND_OFF, size, pace)
                chart = "etcd-hand-off" if goals and not pace.hold else ""
                yield measure(contest, crew, rounds, goals, chart=chart)
