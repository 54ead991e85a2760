"""Imports what takes long, once: worker processes are forked from the one that has done it."""

import importlib
from contextlib import suppress

import benchmarks.scenarios  # noqa: F401 - its adapters, and Fencelock with all engines

for _package in [
    "aetcd",
    "aioredlock",
    "etcd3gw",
    "filelock",
    "fencelock.engines.etcd.engine",
    "fencelock.engines.mysql.engine",
    "fencelock.engines.postgresql.engine",
    "fencelock.engines.redis.engine",
    "fencelock.engines.sqlite.engine",
    "fencelock.engines.zookeeper.engine",
    "kazoo.client",
    "pals",
    "portalocker",
    "redis",
    "redis.asyncio",
    "redis_lock",
    "sherlock",
    "tooz.coordination",
]:
    with suppress(ImportError):  # left out where it is used
        importlib.import_module(_package)
