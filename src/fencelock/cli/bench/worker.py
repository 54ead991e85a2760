"""One worker of the benchmark: a process of its own, so that workers share no interpreter.

It reads its job from stdin, reports that it is ready, and begins when it gets another line. When it holds
nothing any more, it answers with what it has measured. If its stdin is closed, it stops and tidies up.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from fencelock.client import AsyncClient, Client
from fencelock.core.errors import FencelockError, LeaseLost, LockTimeout
from fencelock.io.blocking import run
from fencelock.io.clock import now
from fencelock.io.helper_process import leave_ctrl_c_to_parent
from fencelock.primitives.lease import Lease
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

_PAUSE = 0.0003
"""Seconds between two turns that hold the lock for a while: by then the other workers are waiting."""

_WAIT_AT_MOST = 2.0
"""Seconds after which a waiting worker checks whether the measurement is over."""


class Job(NamedTuple):
    """What a worker measures."""

    role: str
    url: str
    """Sent by stdin: other users of the machine can see a password in the arguments of a process."""
    name: str
    seconds: float
    ttl: float | None
    """None for engines without a ttl."""
    width: int = 1
    """How many tasks, or the maximum number of leases."""
    held: float = 0.0
    """How long each turn holds the lock, in seconds."""


class Samples(NamedTuple):
    """What a worker has measured: moments in seconds, on the clock that all processes share."""

    began: list[float]
    ended: list[float]
    released: list[float]
    """For turns: when the worker released the lock. There, `ended` is when it got the lock."""
    each: int = 1
    """How many renewals one sample stands for: they are one request."""


class Timer:
    """Says when to begin, and when it is over: after its time, or when stdin is closed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._stdin_closed = False

    def begin(self) -> None:
        """Report that this worker is ready, and wait until all workers are."""
        _send(ready=True)
        self._stdin_closed = not os.read(0, 1)
        self._end = now() + self._seconds
        threading.Thread(target=self._watch_stdin, daemon=True).start()

    def over(self, done: int, part: float = 1.0) -> bool:
        """Whether all the time, or this part of it, has passed.

        Not before something was measured: on a machine that stalls, the time may pass before that.
        """
        late = now() >= self._end - (1 - part) * self._seconds
        return self._stdin_closed or (late and done > 0)

    def _watch_stdin(self) -> None:
        # Not sys.stdin: its lock must be free when Python ends.
        self._stdin_closed = not os.read(0, 1)


def looks(job: Job, timer: Timer) -> Samples:
    """Ask who holds a free name: a request that changes nothing."""
    with Client(job.url) as client:
        return _repeat(timer, lambda: client.inspect(job.name, limit=0))


def pairs(job: Job, timer: Timer) -> Samples:
    """Acquire and release a name that no other worker uses."""
    with Client(job.url, ttl=job.ttl) as client:
        lock = client.lock(f"{job.name} {os.getpid()}")  # each worker has its own
        return _repeat(timer, lambda: lock.acquire().release())


def _repeat(timer: Timer, do: Callable[[], object]) -> Samples:
    samples = Samples([], [], [])
    do()  # opens the connection, which is not measured
    timer.begin()
    while not timer.over(len(samples.ended)):
        samples.began.append(now())
        do()
        samples.ended.append(now())
    return samples


def turns(job: Job, timer: Timer) -> Samples:
    """Take turns with the other workers on one name."""
    samples = Samples([], [], [])
    with Client(job.url, ttl=job.ttl) as client:
        lock = client.lock(job.name, timeout=_WAIT_AT_MOST)
        client.inspect(job.name, limit=0)
        timer.begin()
        while not timer.over(len(samples.ended)):
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
            except LeaseLost:  # this machine stalled: the turn does not count
                continue
            samples.began.append(at)
            samples.ended.append(mine)
            samples.released.append(done)
            if job.held:
                time.sleep(_PAUSE)
    return samples


def tasks(job: Job, timer: Timer) -> Samples:
    """Acquire and release in many tasks of one event loop, each with a name of its own."""
    import asyncio  # the other roles don't need it, and start sooner without it

    samples = Samples([], [], [])

    async def pairs_of(client: AsyncClient, number: int) -> None:
        lock = client.lock(f"{job.name} {number}")
        while not timer.over(len(samples.ended)):
            at = now()
            await (await lock.acquire()).release()
            samples.began.append(at)
            samples.ended.append(now())

    async def all_tasks() -> None:
        async with AsyncClient(job.url, ttl=job.ttl) as client:
            await (await client.lock(job.name).acquire()).release()
            timer.begin()
            await asyncio.gather(*(pairs_of(client, number) for number in range(job.width)))

    asyncio.run(all_tasks())
    return samples


def renewals(job: Job, timer: Timer) -> Samples:
    """Hold many leases, and renew them as the keeper does: all in one request."""
    leases: list[Lease] = []
    with Client(job.url, ttl=job.ttl) as client:
        client.inspect(job.name, limit=0)
        timer.begin()
        try:
            while len(leases) < job.width and not timer.over(len(leases), 1 / 2):
                leases.append(client.lock(f"{job.name} {len(leases)}").acquire())
            tickets = [lease._claim.ticket for lease in leases]
            samples = Samples([], [], [], each=len(leases))
            while not timer.over(len(samples.ended)):
                samples.began.append(now())
                run(client._context.engine.renew(tickets, timeout=REQUEST_TIMEOUT))
                samples.ended.append(now())
        finally:
            for lease in leases:
                lease.release()
    return samples


ROLES: dict[str, Callable[[Job, Timer], Samples]] = {
    each.__name__: each for each in (looks, pairs, turns, tasks, renewals)
}


def main() -> None:
    """Do one job."""
    leave_ctrl_c_to_parent()
    job = Job(**json.loads(sys.stdin.readline()))
    try:
        samples = ROLES[job.role](job, Timer(job.seconds))
    except FencelockError as error:
        _send(error=str(error))
    else:
        _send(**samples._asdict())


def _send(**message: Any) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
