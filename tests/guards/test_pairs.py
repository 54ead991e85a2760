"""Each guard has a sync and an async class with the same methods: they are written once."""

import inspect

import pytest

from fencelock import guards
from fencelock.guards import etcd, zookeeper

PAIRS = [
    (guards.SqlGuard, guards.AsyncSqlGuard),
    (guards.ColumnGuard, guards.AsyncColumnGuard),
    (guards.RedisGuard, guards.AsyncRedisGuard),
    (guards.FencedFile, guards.AsyncFencedFile),
    (etcd.EtcdGuard, etcd.AsyncEtcdGuard),
    (zookeeper.ZooKeeperGuard, zookeeper.AsyncZooKeeperGuard),
]


def methods(cls: type) -> dict[str, tuple[str, str | None]]:
    return {
        name: (str(inspect.signature(method)), inspect.getdoc(method))
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("plain", "waits"), PAIRS, ids=lambda cls: cls.__name__)
def test_both_classes_have_the_same_methods(plain: type, waits: type) -> None:
    assert methods(plain) == methods(waits)
    for name in methods(plain).keys() - {"schema"}:  # schema asks no database
        assert not inspect.iscoroutinefunction(getattr(plain, name))
        assert inspect.iscoroutinefunction(getattr(waits, name))
