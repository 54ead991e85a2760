"""Three replicas behind HAProxy are killed, stopped and drained in turn, while processes count under a lock.

What was acknowledged must be there in the end, no more and no less, and nobody waits longer than `BOUND`:

    python -m tests.service.soak --seconds 120 --engine redis
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tests.child import Child
from tests.guards.stores import STORES
from tests.servers import RedisServer
from tests.servers_proxies import Haproxy
from tests.servers_service import Replica

TTL = 5.0
STOPPED = 7.0
"""Seconds for which a replica is stopped: longer than the ttl."""

BOUND = 20.0
"""The longest wait, in seconds. HAProxy takes out a stopped replica within 4 s. A holder may have lost its
lease by then, so the next one waits for the ttl. What a stopped replica does late may cost another ttl. The
rest is for the crew's own work, and for a busy machine."""


class Outcome(NamedTuple):
    """The sums over all processes."""

    final: int
    acknowledged: int
    refused: int
    lost: int
    failed: int
    longest: float
    harmed: dict[str, int]
    errors: list[str]

    @property
    def good(self) -> bool:
        counted = self.final == self.acknowledged > 0
        return counted and self.longest <= BOUND and not self.errors

    def __str__(self) -> str:
        harmed = ", ".join(f"{count} {how}" for how, count in self.harmed.items())
        return (
            f"{self.acknowledged} increments acknowledged, the number is {self.final}; replicas: {harmed}; "
            f"longest wait {self.longest:.1f} s (bound {BOUND:g}); {self.failed} requests failed, "
            f"{self.lost} leases lost, {self.refused} stale writes refused"
        )


def soak(engine_url: str, folder: Path, seconds: float, processes: int = 8) -> Outcome:
    """Run for about so many seconds."""
    name = f"soak_{uuid4().hex}"  # others may use the engine, too
    where = str(folder / "numbers.db")
    store = STORES["sqlite"](where, name)
    store.set_up(0)
    with ExitStack() as running:
        replicas = [
            running.enter_context(Replica(folder / f"replica-{number}", engine_url))
            for number in range(3)
        ]
        ports = [replica.port for replica in replicas]
        balancer = running.enter_context(Haproxy(folder / "haproxy", ports))
        crew = [
            Child(balancer.url, where, name, str(TTL), program="tests.service.adder")
            for _ in range(processes)
        ]
        try:
            harmed = _disturb(replicas, seconds)
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
        sum(report["failed"] for report in reports),
        max(report["longest"] for report in reports),
        harmed,
        [error for report in reports for error in report["errors"]],
    )


def _disturb(replicas: list[Replica], seconds: float) -> dict[str, int]:
    """Harm one replica after the other, in every way at least once. Returns how often."""
    ways: dict[str, Callable[[Replica], None]] = {
        "killed": _kill,
        "stopped": _stop,
        "drained": _drain,
    }
    harmed = dict.fromkeys(ways, 0)
    started = time.monotonic()
    # Three replicas and three ways: each replica meets each way after nine turns.
    for turn, replica in enumerate(cycle(replicas)):
        if time.monotonic() - started > seconds and all(harmed.values()):
            return harmed
        how = list(ways)[(turn + turn // 3) % 3]
        ways[how](replica)
        harmed[how] += 1
        time.sleep(2.0)  # the balancer has to notice that it is back
    raise AssertionError("unreachable")


def _kill(replica: Replica) -> None:
    replica.kill()
    time.sleep(1.0)
    replica.start()


def _stop(replica: Replica) -> None:
    replica.freeze()
    time.sleep(STOPPED)
    replica.thaw()


def _drain(replica: Replica) -> None:
    replica.stop()
    replica.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--engine", choices=["redis", "sqlite"], default="redis")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        url = f"sqlite:///{folder}/locks.db"
        if given.engine == "redis":
            url = running.enter_context(RedisServer(folder / "redis")).url
        outcome = soak(url, folder, given.seconds, given.processes)
    print(outcome)
    print(*outcome.errors, sep="\n")
    sys.exit(0 if outcome.good else 1)


if __name__ == "__main__":
    main()
