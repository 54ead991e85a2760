"""Many processes add one to a guarded number, again and again, while holders are stopped past their ttl.

What was acknowledged must be there in the end, no more and no less:

    python -m tests.guards.soak --seconds 60 --storage postgresql --lock redis
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from fencelock import Client, EngineError
from tests.child import Child
from tests.guards.stores import STORES
from tests.servers import RedisServer
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlServer, make_template
from tests.servers_postgresql import PostgresqlServer
from tests.servers_zookeeper import Ensemble

TTL = 0.5
STOP = (1.5 * TTL, 3 * TTL)
PATIENCE = 10.0
"""Without a stale write the soak proves nothing: it may run this many times longer to see one."""


class Outcome(NamedTuple):
    """The sums over all processes."""

    final: int
    acknowledged: int
    refused: int
    lost: int
    stops: int
    errors: list[str]

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} increments acknowledged, the number is {self.final}; "
            f"{self.stops} stops, {self.refused} stale writes refused, {self.lost} leases lost"
        )


def soak(url: str, storage: str, where: str, seconds: float, processes: int = 16) -> Outcome:
    """Run for so many seconds, or until a stale write was refused."""
    store = STORES[storage](where, f"soak_{uuid4().hex}")
    store.set_up(0)
    with tempfile.TemporaryDirectory() as journal:
        words = (url, storage, where, store.name, str(TTL), journal)
        crew = [Child(*words, program="tests.guards.adder") for _ in range(processes)]
        try:
            stops = _disturb(url, store.name, crew, Path(journal), seconds)
            for process in crew:
                process.hang_up()
            reports = [process.receive() for process in crew]
        finally:
            for process in crew:
                process.close()
    return Outcome(
        store.read(),
        sum(report["acknowledged"] for report in reports),
        sum(report["refused"] for report in reports),
        sum(report["lost"] for report in reports),
        stops,
        [error for report in reports for error in report["errors"]],
    )


def _disturb(url: str, name: str, crew: list[Child], refusals: Path, seconds: float) -> int:
    """Stop the holder and some others for longer than the ttl, let them go on, and so forth."""
    stops = 0
    started = time.monotonic()
    with Client(url) as client:
        while (spent := time.monotonic() - started) < seconds * PATIENCE:
            if spent >= seconds and any(refusals.iterdir()):
                break
            victims = {process.pid for process in random.sample(crew, 2)} | _holder(client, name)
            for pid in victims:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(random.uniform(*STOP))
            for pid in victims:
                os.kill(pid, signal.SIGCONT)
            stops += len(victims)
            time.sleep(random.uniform(0, TTL))
    return stops


def _holder(client: Client, name: str) -> set[int]:
    try:
        return {contender.owner.pid for contender in client.inspect(name, limit=0).holders}
    except EngineError:  # a process was stopped while it held the lock on the file
        return set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--storage", choices=sorted(STORES), default="sqlite")
    parser.add_argument("--lock", default="sqlite", help="an engine, or a URL")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        where = _where(given.storage, Path(name), running)
        if given.storage in ("etcd", "zookeeper"):
            url = where  # the lock and the storage are in one cluster
        else:
            url = given.lock if "://" in given.lock else _url(given.lock, Path(name), running)
        outcome = soak(url, given.storage, where, given.seconds, given.processes)
    print(outcome)
    print(*outcome.errors, sep="\n")
    good = outcome.final == outcome.acknowledged and outcome.refused and not outcome.errors
    sys.exit(0 if good else 1)


def _where(storage: str, folder: Path, running: ExitStack) -> str:
    if storage == "file":
        return str(folder)
    if storage in ("sqlite", "column"):
        return str(folder / "numbers.db")
    return _url(storage, folder / "storage", running)


def _url(engine: str, folder: Path, running: ExitStack) -> str:
    if engine == "sqlite":
        return f"sqlite:///{folder}/locks.db"
    if engine == "redis":
        return running.enter_context(RedisServer(folder / engine)).url
    if engine == "postgresql":
        return running.enter_context(PostgresqlServer(folder / engine)).url
    if engine == "etcd":
        return running.enter_context(EtcdCluster(folder / engine)).url
    if engine == "zookeeper":
        return running.enter_context(Ensemble(folder / engine)).url
    if engine == "mysql":
        (folder / "template").mkdir(parents=True)
        template = make_template(folder / "template")
        return running.enter_context(MysqlServer(folder / engine, template)).url
    raise SystemExit(f"no engine {engine!r}")


if __name__ == "__main__":
    main()
