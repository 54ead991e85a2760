"""Many names at once: all SETs in one write, all deletes in another."""

from __future__ import annotations

from benchmarks.adapters.contract import TTL_SECONDS
from benchmarks.adapters.limits.redis_wire import COMPARE_AND_DELETE, RawConnection, pack


class RawBatches:
    """Not a lock for tasks: they could do nothing between the two writes."""

    label = "limit: raw socket, two batches"

    def __init__(self, url: str, names: list[str]) -> None:
        self._connection = RawConnection(url)
        sha = self._connection.load(COMPARE_AND_DELETE)
        self._count = len(names)
        ttl_ms = TTL_SECONDS * 1000
        self._sets = b"".join(pack("SET", name, "me", "NX", "PX", ttl_ms) for name in names)
        self._deletes = b"".join(pack("EVALSHA", sha, 1, name, "me") for name in names)

    def run(self) -> None:
        self._connection.ask(self._sets, 5 * self._count)
        self._connection.ask(self._deletes, 4 * self._count)

    def close(self) -> None:
        self._connection.close()
