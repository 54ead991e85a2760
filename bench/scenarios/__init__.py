"""The scenarios, in the order in which they run."""

from bench.scenarios import redis_pair, redis_hand_off, fan_out, sqlite, leases  # noqa: F401, I001
from bench.scenarios import redlock, etcd_pair, zookeeper, postgres, mysql, guards  # noqa: F401
from bench.scenarios import primitives, start_up  # noqa: F401
