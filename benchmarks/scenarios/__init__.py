"""The scenarios, in the order in which they run."""

from benchmarks.scenarios import redis_pair, redis_hand_off, herd, fan_out, leases  # noqa: F401, I001
from benchmarks.scenarios import growth, killed, counts, redlock, etcd, zookeeper  # noqa: F401
from benchmarks.scenarios import postgresql, mysql, sqlite, guards, primitives, rates  # noqa: F401
from benchmarks.scenarios import service, start_up, writers, engines  # noqa: F401
