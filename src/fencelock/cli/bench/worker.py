"""One worker of the benchmark, a process of its own, so that it shares no interpreter with others.

It reads its job from stdin, says that it is ready, begins when it is told to, and answers with what it
has measured when it holds nothing any more. If its stdin is closed, it stops and tidies up.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fencelock.cli.bench.job import Job, Samples
from fencelock.client import AsyncClient, Client
from fencelock.core.errors import FencelockError, LeaseLost, LockTimeout
from fencelock.io.blocking import run
from fencelock.io.clock import now
from fencelock.primitives.lease import Lease
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

_REST = 0.0003
"""Seconds between two turns that hold the lock for a while, so that the others are waiting by then."""

_PATIENCE = 2.0
"""Seconds after which one who waits looks whether it is over."""


class Watch:
    """When to begin, and when it is over: after its time, or when nobody wants to know any more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._alone = False

    def begin(self) -> None:
        """Wait for the others."""
        _tell(ready=True)
        self._alone = not os.read(0, 1)
        self._end = now() + self._seconds
        threading.Thread(target=self._listen, daemon=True).start()

    def over(self, done: int, part: float = 1.0) -> bool:
        """Whether all the time has passed, or a part of it. But never before something was done: else
        a machine that stalls would have nothing to tell."""
        late = now() >= self._end - (1 - part) * self._seconds
        return self._alone or (late and done > 0)

    def _listen(self) -> None:
        self._alone = not os.read(0, 1)  # not sys.stdin: its lock must be free when Python ends


def looks(job: Job, watch: Watch) -> Samples:
    """Ask who holds a free name: a request that changes nothing."""
    with Client(job.url) as client:
        client.inspect(job.name, limit=0)
        return _repeat(watch, lambda: client.inspect(job.name, limit=0))


def pairs(job: Job, watch: Watch) -> Samples:
    """Acquire and release, with nobody else there."""
    with Client(job.url, ttl=job.ttl) as client:
        lock = client.lock(f"{job.name} {os.getpid()}")  # one for each worker

        def pair() -> None:
            lock.acquire().release()

        pair()
        return _repeat(watch, pair)


def _repeat(watch: Watch, do: Callable[[], object]) -> Samples:
    samples = Samples([], [], [])
    watch.begin()
    while not watch.over(len(samples.ended)):
        samples.began.append(now())
        do()
        samples.ended.append(now())
    return samples


def turns(job: Job, watch: Watch) -> Samples:
    """Take turns with the other workers on one name."""
    samples = Samples([], [], [])
    with Client(job.url, ttl=job.ttl) as client:
        lock = client.lock(job.name, timeout=_PATIENCE)
        client.inspect(job.name, limit=0)
        watch.begin()
        while not watch.over(len(samples.ended)):
            at = now()
            try:
                lease = lock.acquire()
            except LockTimeout:
                continue
            mine = now()
            if job.held:
                time.sleep(job.held)
            done = now()
            try:
                lease.release()
            except LeaseLost:  # this machine stalled: no turn like the others
                continue
            samples.began.append(at)
            samples.ended.append(mine)
            samples.released.append(done)
            if job.held:
                time.sleep(_REST)
    return samples


def tasks(job: Job, watch: Watch) -> Samples:
    """Acquire and release in many tasks of one event loop, each with a name of its own."""
    import asyncio  # the other roles need none of it, and start sooner without

    return asyncio.run(_tasks(job, watch, asyncio.gather))


async def _tasks(job: Job, watch: Watch, gather: Callable[..., Awaitable[Any]]) -> Samples:
    samples = Samples([], [], [])

    async def pairs_of(number: int) -> None:
        lock = client.lock(f"{job.name} {number}")
        while not watch.over(len(samples.ended)):
            at = now()
            await (await lock.acquire()).release()
            samples.began.append(at)
            samples.ended.append(now())

    async with AsyncClient(job.url, ttl=job.ttl) as client:
        await (await client.lock(job.name).acquire()).release()
        watch.begin()
        await gather(*map(pairs_of, range(job.width)))
    return samples


def renewals(job: Job, watch: Watch) -> Samples:
    """Hold many leases, and renew them as the keeper does: all that are due in one request."""
    leases: list[Lease] = []
    with Client(job.url, ttl=job.ttl) as client:
        client.inspect(job.name, limit=0)
        watch.begin()
        try:
            while len(leases) < job.width and not watch.over(len(leases), 1 / 2):
                leases.append(client.lock(f"{job.name} {len(leases)}").acquire())
            tickets = [lease._claim.ticket for lease in leases]
            samples = Samples([], [], [], each=len(leases))
            while not watch.over(len(samples.ended)):
                samples.began.append(now())
                run(client._context.engine.renew(tickets, timeout=REQUEST_TIMEOUT))
                samples.ended.append(now())
        finally:
            for lease in leases:
                lease.release()
    return samples


ROLES: dict[str, Callable[[Job, Watch], Samples]] = {
    each.__name__: each for each in (looks, pairs, turns, tasks, renewals)
}


def main() -> None:
    """Do one job."""
    # Ctrl-C reaches everyone at this terminal; it is the one who started us that decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    job = Job(**json.loads(sys.stdin.readline()))
    try:
        samples = ROLES[job.role](job, Watch(job.seconds))
    except FencelockError as error:
        _tell(error=str(error))
    else:
        _tell(**samples._asdict())


def _tell(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
