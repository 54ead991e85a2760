"""Imports the slow modules once. Worker processes are forked from the process that has imported them."""

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
    with suppress(ImportError):  # a scenario leaves it out later
        importlib.import_module(_package)
