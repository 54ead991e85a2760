"""tooz, on each engine that both tooz and Fencelock have. No fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.adapters.contract import Keeper, Turns
from fencelock.core.url import Url


class Tooz(Turns):
    """One lock object for all turns. On PostgreSQL and MariaDB it connects again for each acquire."""

    label = "tooz"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        from tooz import coordination

        self._coordinator: Any = coordination.get_coordinator(
            _translated(url, self.ttl), b"bench-%d" % seat
        )
        self._coordinator.start()
        self._lock = self._coordinator.get_lock(name.encode())

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()

    def close(self) -> None:
        self._coordinator.stop()


def _translated(url: str, ttl: float) -> str:
    """The URL of tooz for a URL of ours. Of several servers it uses the first, except on ZooKeeper."""
    scheme, _, rest = url.partition("://")
    if scheme == "redis":
        return f"{url}?lock_timeout={ttl:g}"
    if scheme == "etcd":
        host, port = Url.parse(url).hosts[0]
        return f"etcd3+http://{host}:{port}?api_version=v3&lock_timeout={ttl:g}"
    if scheme == "sqlite":
        return f"file://{rest}.tooz"
    return url


class ToozKeeper(Keeper):
    """One thread that renews one lock after the other."""

    label = "tooz"

    def __init__(self, url: str, ttl: int) -> None:
        from tooz import coordination

        self._coordinator: Any = coordination.get_coordinator(_translated(url, ttl), b"keeper")
        self._coordinator.start(start_heart=True)
        self._locks: list[Any] = []

    def hold(self, names: Sequence[str]) -> None:
        self._locks = [self._coordinator.get_lock(name.encode()) for name in names]
        for lock in self._locks:
            assert lock.acquire()

    def lost(self) -> int:
        return sum(not lock.is_still_owner() for lock in self._locks)
