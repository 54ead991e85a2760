"""What is in etcd, by its own tools and counters."""

from __future__ import annotations

import base64
import re
import time
from collections import Counter

from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import marker_lease
from fencelock.engines.etcd.values import Record
from tests.proxy import ReplyCounter
from tests.servers_etcd import EtcdCluster


def keys(cluster: EtcdCluster, prefix: str = "fencelock/") -> list[str]:
    """The keys that begin like this."""
    found = cluster.ctl("get", prefix, "--prefix", "--keys-only")
    return [base64.b64decode(kv["key"]).decode() for kv in found.get("kvs", [])]


def of(cluster: EtcdCluster, name: str) -> list[str]:
    """All keys of a name: its tickets, its marker, and the pointers of the tickets."""
    mine = Keys.of(name)
    return [
        key for part in (mine.everything, mine.pointers) for key in keys(cluster, part.decode())
    ]


def tickets(cluster: EtcdCluster, name: str) -> dict[str, str]:
    """The keys of a name's tickets, by their id, in the order of the queue."""
    found = cluster.ctl("get", Keys.of(name).queue.decode(), "--prefix", "--sort-by=CREATE")
    return {
        Record.unpack(base64.b64decode(kv["value"])).id: base64.b64decode(kv["key"]).decode()
        for kv in found.get("kvs", [])
    }


def leases(cluster: EtcdCluster) -> set[int]:
    """All leases but those that clients share for their markers."""
    found = cluster.ctl("lease", "list")
    today = int(time.time() // 86_400)
    shared = {marker_lease(day) for day in (today - 1, today)}
    return {lease["id"] for lease in found.get("leases") or []} - shared


def lease_of(cluster: EtcdCluster, key: str) -> int:
    """The lease on which a key lives."""
    (kv,) = cluster.ctl("get", key)["kvs"]
    return int(kv["lease"])


def watchers(cluster: EtcdCluster) -> float:
    return cluster.total("etcd_debugging_mvcc_watcher_total")


def calls(cluster: EtcdCluster) -> Counter[str]:
    """How often each method was called since the servers started."""
    count: Counter[str] = Counter()
    for member in cluster.members:
        for name, value in member.metrics().items():
            found = re.match(r'grpc_server_started_total\{grpc_method="(\w+)"', name)
            if found:
                count[found[1]] += int(value)
    return count


def grpc_replies() -> ReplyCounter:
    """Count the answers in a stream of HTTP/2 frames: each ends with a HEADERS frame that says so."""
    buffer = bytearray()

    def count(piece: bytes) -> int:
        buffer.extend(piece)
        ended = 0
        while len(buffer) >= 9:
            size = 9 + int.from_bytes(buffer[:3], "big")
            if len(buffer) < size:
                break
            kind, flags = buffer[3], buffer[4]
            ended += kind == 1 and bool(flags & 1)
            del buffer[:size]
        return ended

    return count
