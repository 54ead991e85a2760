"""A herd: five hundred threads or tasks in ten processes want one lock at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.adapters.contract import AnyTurns
from benchmarks.adapters.limits.redis_token import Token
from benchmarks.adapters.limits.zookeeper_baton import ZooKeeperBaton
from benchmarks.adapters.ours import AsyncFencelock, Fencelock
from benchmarks.adapters.rivals.aetcd import Aetcd
from benchmarks.adapters.rivals.kazoo import KazooLock
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock
from benchmarks.adapters.rivals.redis_py_asyncio import AsyncRedisPyLock
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario
from benchmarks.turns import Pace
from tests.servers import RedisServer

WAITERS = 500
EACH = 50

REDIS = (Fencelock, AsyncFencelock, PythonRedisLock, RedisPyLock, AsyncRedisPyLock, Token)
ETCD = (Fencelock, AsyncFencelock, Aetcd)
ZOOKEEPER = (Fencelock, AsyncFencelock, KazooLock, ZooKeeperBaton)


@scenario("redis-herd")
def redis_herd(setting: Setting) -> Iterator[Table]:
    contest = _herd("Redis", setting.redis.url, REDIS, setting.seconds(4, 2))
    yield _measured(setting, contest, {Token.label: 0.9}, setting.unless_quick(setting.redis))


@scenario("etcd-herd")
def etcd_herd(setting: Setting) -> Iterator[Table]:
    for where, url, goals in setting.etcd_of_each_size({Aetcd.label: 6.0}):
        yield _measured(setting, _herd(where, url, ETCD, setting.seconds(8, 3)), goals)


@scenario("zookeeper-herd")
def zookeeper_herd(setting: Setting) -> Iterator[Table]:
    seconds = setting.seconds(8, 3)
    contest = _herd("ZooKeeper", setting.zookeeper.url, ZOOKEEPER, seconds)
    yield _measured(setting, contest, {KazooLock.label: 2.0})
    if not setting.quick:
        contest = _herd("ZooKeeper of three", setting.zookeepers.url, ZOOKEEPER, seconds)
        yield _measured(setting, contest, {})


def _herd(where: str, url: str, adapters: Sequence[type[AnyTurns]], seconds: float) -> Contest:
    return Contest(where, url, adapters, WAITERS, Pace(seconds, hold=0.001, grace=1), EACH)


def _measured(
    setting: Setting,
    contest: Contest,
    goals: Mapping[str, float],
    counted: RedisServer | None = None,
) -> Table:
    with Crew(WAITERS // EACH) as crew:
        return measure(contest, crew, setting.rounds(3, 1), goals, counted=counted)
