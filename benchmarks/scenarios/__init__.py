"""The scenarios, in the order in which they run."""

from benchmarks.scenarios import redis_pair, redis_hand_off, fan_out, sqlite, leases  # noqa: F401, I001
from benchmarks.scenarios import redlock, etcd_pair, zookeeper, postgres, mysql, guards  # noqa: F401
from benchmarks.scenarios import primitives, start_up  # noqa: F401
