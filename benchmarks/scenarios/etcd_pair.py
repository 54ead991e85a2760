"""etcd, three servers, nobody else wants the lock: what does an acquire and a release cost?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.etcd_rivals import Aetcd, Etcd3gw, Tooz
from benchmarks.adapters.ours import AsyncHoldfast, Holdfast
from benchmarks.adapters.raw_etcd import AsyncBareTxns, BareTxns
from benchmarks.rounds import Table
from benchmarks.scenarios.redis_pair import measure_async_pairs, measure_pairs
from benchmarks.setting import Setting, scenario

SYNC = (Holdfast, BareTxns, Etcd3gw, Tooz)
ASYNC = (AsyncHoldfast, AsyncBareTxns, Aetcd)
GOALS = {BareTxns.label: 0.87, Etcd3gw.label: 1.0, Tooz.label: 1.0, Aetcd.label: 1.0}


@scenario("etcd-pair")
def etcd_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(40, 20)
    url = setting.etcd.url
    sync = measure_pairs(SYNC, url, rounds=rounds, pairs=pairs)
    yield Table("etcd pair, sync", "µs", "lower", sync, GOALS)
    asynchronous = measure_async_pairs(ASYNC, url, rounds, pairs)
    yield Table("etcd pair, asyncio", "µs", "lower", asynchronous, GOALS)
