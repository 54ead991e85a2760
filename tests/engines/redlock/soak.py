"""Eight processes hand a lock around while nodes are killed, frozen and emptied, one or two at a time.

    $ python -m tests.engines.redlock.soak --seconds 60

The store checks fences, as in the soak of etcd. Here two may hold the lock at a time for once, if a node's
clock jumps; but nothing jumps, so no two turns may overlap. No update may be lost, and fences only grow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from itertools import cycle
from pathlib import Path

import fencelock
from tests.engines.etcd.soak import Report, Store, report_of, stop, work, work_async
from tests.engines.redlock.node_state import holders
from tests.servers import RedisServer
from tests.servers_redlock import RedlockSet
from tests.spawning import Spawned
from tests.waiting import eventually

WORKERS = 8
TTL = 1.5
"""Short, for a node that forgot does not vote for so long."""

AWAY_SECONDS = 1.0


def kill(some: list[RedisServer]) -> None:
    for node in some:
        node.kill()
    time.sleep(AWAY_SECONDS)
    for node in some:
        node.start()  # with nothing: it keeps no data


def freeze(some: list[RedisServer]) -> None:
    for node in some:
        node.freeze()
    time.sleep(AWAY_SECONDS)
    for node in some:
        node.thaw()


def wipe(some: list[RedisServer]) -> None:
    for node in some:
        node.execute("FLUSHALL")


HARMS: tuple[tuple[str, Callable[[list[RedisServer]], None], int], ...] = (
    ("freeze of one", freeze, 1),
    ("kill -9 of one", kill, 1),
    ("freeze of two", freeze, 2),
    ("wipe of one", wipe, 1),
    ("kill -9 of two", kill, 2),
    ("wipe of two", wipe, 2),
)


def soak(nodes: RedlockSet, folder: Path, seconds: float, workers: int = WORKERS) -> Report:
    """Do harm for so long, and tell what came of it."""
    store = Store(folder)
    store.prepare()
    periods: list[tuple[str, float, float]] = []
    with ExitStack() as running:
        for number in range(workers):
            face = ("sync", "async")[number % 2]
            words = ("--worker", face, nodes.url, str(folder))
            process = Spawned("tests.engines.redlock.soak", *words)
            running.callback(stop, process)
        client = running.enter_context(fencelock.Client(nodes.url, ttl=TTL))
        eventually(lambda: store.value() >= workers, "the first turns")
        end = time.monotonic() + seconds
        for what, harm, count in cycle(HARMS):
            if time.monotonic() >= end:
                break
            began = time.monotonic()
            harm(random.sample(nodes.nodes, count))
            eventually(lambda: _all_vote(client, nodes), "all nodes to vote again")
            periods.append((what, began, time.monotonic()))
        turns = store.value()
        eventually(lambda: store.value() >= turns + workers, "turns after all harm")
        (folder / "stop").touch()
    with closing(store):
        return report_of(store, periods)


def _all_vote(client: fencelock.Client, nodes: RedlockSet) -> bool:
    with suppress(fencelock.QuorumLost), client.lock("all vote") as lease:
        return holders(nodes.nodes, "all vote") == [lease.id] * len(nodes.nodes)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--worker", nargs=3, metavar=("FACE", "URL", "FOLDER"), help="internal")
    arguments = parser.parse_args()
    if arguments.worker:
        face, url, folder = arguments.worker
        if face == "sync":
            work(url, Path(folder), TTL)
        else:
            asyncio.run(work_async(url, Path(folder), TTL))
        return
    with tempfile.TemporaryDirectory() as place, RedlockSet(Path(place) / "nodes") as nodes:
        report = soak(nodes, Path(place), arguments.seconds)
    print(json.dumps(report._asdict(), indent=2))
    report.check()


if __name__ == "__main__":
    main()
