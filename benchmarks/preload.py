"""Imports what takes long, once: worker processes are forked from the one that has done it."""

import importlib
from contextlib import suppress

import benchmarks.scenarios  # noqa: F401 - its adapters, and Holdfast with all engines

for _package in [
    "aetcd",
    "aioredlock",
    "etcd3gw",
    "filelock",
    "holdfast.engines.etcd.engine",
    "holdfast.engines.mysql.engine",
    "holdfast.engines.postgresql.engine",
    "holdfast.engines.redis.engine",
    "holdfast.engines.sqlite.engine",
    "holdfast.engines.zookeeper.engine",
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
