"""Six web servers miss the cache at the same moment, and all build the same page. A lock saves five builds.

The page is right however often it is built. So this is an *efficiency* lock: if once in a while two servers
build it, a little work is wasted and nothing is wrong. A plain Redis is good enough, and no guard is needed.

A server that has waited looks into the cache again, *under the lock*: the page is there by now.

Run it: python examples/without_locks/efficiency_lock.py [redis://localhost]
"""

import sqlite3
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import fencelock

SERVERS = 6


class Cache:
    """A cache that all servers share, and the count of builds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with closing(self._open()) as pages:
            pages.execute("CREATE TABLE pages (text TEXT)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60, isolation_level=None)

    def page(self) -> str | None:
        with closing(self._open()) as pages:
            found = pages.execute("SELECT text FROM pages").fetchone()
            return str(found[0]) if found else None

    def build(self) -> str:
        time.sleep(0.05)  # the slow work
        with closing(self._open()) as pages:
            pages.execute("INSERT INTO pages VALUES ('all is well')")
        return "all is well"

    def builds(self) -> int:
        with closing(self._open()) as pages:
            (count,) = pages.execute("SELECT count(*) FROM pages").fetchone()
            return int(count)


def serve(cache: Cache, url: str | None, together: Barrier) -> str:
    """One server, with a client of its own: answer one request."""
    page = cache.page()
    together.wait(timeout=30)  # the worst moment: all have missed
    if page is not None:
        return page
    with fencelock.Client(url, purpose="efficiency") as client:
        lock: Any = client.lock("build:front-page", ttl=10) if url else nullcontext()
        with lock:
            return cache.page() or cache.build() if url else cache.build()


def morning(file: Path, url: str | None) -> str:
    cache, together = Cache(file), Barrier(SERVERS)
    with ThreadPoolExecutor(SERVERS) as servers:
        pages = list(servers.map(lambda _: serve(cache, url, together), range(SERVERS)))
    return f"{len(pages)} answers, builds: {cache.builds()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{name}/locks.db"
        print("without a lock:", morning(Path(name) / "one.db", None))
        print("with the lock: ", morning(Path(name) / "two.db", url))
