"""Holding a lock while a command runs: what `fencelock run` does once it knows what is asked."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable
from dataclasses import dataclass

from fencelock.cli import exits
from fencelock.cli.child import Child, NotStarted
from fencelock.cli.messages import say, say_warnings
from fencelock.cli.options import must_be_shared, refused
from fencelock.cli.warden import FORWARDED, fork_warden
from fencelock.client import AsyncClient
from fencelock.core.errors import EngineError, LeaseLost, LockTimeout
from fencelock.io.clock import now
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.once import Once


@dataclass(frozen=True)
class Job:
    """What was asked for on the command line."""

    url: str | None
    name: str
    command: list[str]
    timeout: float | None
    ttl: float | None
    grace: float | None
    label: str
    conflict: int
    quiet: bool
    period: float | None = None
    """Not if it has run within so many seconds."""

    def grace_within(self, ttl: float) -> float:
        """How long the command gets to end when its lease is lost, in seconds."""
        if self.grace is None:
            return min(10.0, ttl / 6)
        if not 0 <= self.grace < ttl / 2:  # also refuses nan
            raise ValueError(
                "--grace must be zero or more and less than half the ttl, so less than "
                f"{ttl / 2:g} s here, not {self.grace:g}: the command has to end before its lease does"
            )
        return self.grace


def carry_out(job: Job) -> int:
    """Get the lock, run the command, give the lock back; the exit code."""
    say_warnings()
    # First of all, while there is only one thread: a fork copies no others.
    warden, channel = fork_warden(job.command)
    return asyncio.run(_carry_out(job, Child(warden, channel, say)))


async def _carry_out(job: Job, child: Child) -> int:
    signals = _Signals()
    try:
        with refused():
            client = AsyncClient(job.url, ttl=job.ttl, label=job.label)
            job.grace_within(client.traits.default_ttl if job.ttl is None else job.ttl)
            lock = client.lock(job.name)
            must_be_shared(client.traits)
            once = None if job.period is None else Once(lock, _nothing, keep=job.period)
        try:
            return await _wait_and_run(job, lock, child, signals, once)
        finally:
            await client.close()
    finally:
        child.close()


def _nothing() -> None:
    """What is to be done once is done by a command."""


async def _wait_and_run(
    job: Job, lock: AsyncLock, child: Child, signals: _Signals, once: Once | None
) -> int:
    if once is not None and await _has_run(job, once):
        return 0
    waiting = asyncio.create_task(lock.acquire(job.timeout))
    # Once: a second signal must not cut short the first one's tidying up.
    signals.deliver_to(lambda _: waiting.cancelling() or waiting.cancel())
    try:
        lease = await waiting
    except LockTimeout as error:
        if not job.quiet:
            say(str(error))
        return job.conflict if once is None else 0
    except asyncio.CancelledError:
        if signals.first is None:
            raise
        return exits.SIGNALLED + signals.first
    if once is not None and await _has_run(job, once):  # it has ended in the meantime
        await _release(lease)
        return 0
    return await _run(job, lease, child, signals, once)


async def _has_run(job: Job, once: Once) -> bool:
    if await once.known() is None:
        return False
    if not job.quiet:
        say(f"{job.name!r} has run within the last {job.period:g} s: nothing to do")
    return True


async def _run(
    job: Job, lease: AsyncLease, child: Child, signals: _Signals, once: Once | None
) -> int:
    if signals.first is not None:  # it came in the very moment in which we got the lock
        await _release(lease)
        return exits.SIGNALLED + signals.first
    if lease.abandoned:
        say(
            f"warning: the previous holder of {job.name!r} did not release it: "
            "its work may be half done"
        )
    began = now()
    ends = began + lease.remaining()
    margin = min(1.0, lease.ttl / 20)
    with refused():  # without --ttl, it may be shorter than the default
        grace = job.grace_within(lease.ttl)
    child.start(_environment(lease), ends, grace, margin)
    signals.deliver_to(child.signal)
    news = asyncio.create_task(_pass_on(lease, child))
    try:
        code, stopped = await child.end()
    except NotStarted as error:
        say(f"cannot run {job.command[0]!r}: {error}")
        await _release(lease)
        return exits.NOT_FOUND if error.errno == errno.ENOENT else exits.NOT_EXECUTABLE
    finally:
        news.cancel()
    if once is not None and code == 0 and not stopped:
        try:
            await once.done(lease, began)
        except LeaseLost:
            pass  # it will be said when it is released
        except EngineError as error:
            say(f"{job.name!r} ran, but that could not be noted down, so it may run again: {error}")
    lost = await _release(lease, known=stopped)
    if stopped or (lost and code == 0):
        return exits.LOST
    return code  # an error of the command itself says more than the loss that followed it


async def _pass_on(lease: AsyncLease, child: Child) -> None:
    """Tell the command's warden about every renewal, and about the loss of the lease."""
    while not await lease.lost.wait(min(1.0, lease.ttl / 20)):
        child.lease_ends(now() + lease.remaining())
    child.lease_lost()


async def _release(lease: AsyncLease, *, known: bool = False) -> bool:
    """Give the lock back; True if it was no longer ours, which may be known already."""
    try:
        await lease.release()
    except LeaseLost as error:
        if not known:
            say(str(error))
        return True
    except EngineError as error:
        say(f"could not release {lease.name!r}, it will end with its ttl: {error}")
    return False


def _environment(lease: AsyncLease) -> dict[str, str | None]:
    """What the command learns of its lease. Never the id: whoever knows that can release the lock."""
    return {
        "FENCELOCK_NAME": lease.name,
        "FENCELOCK_FENCE": str(lease.fence),
        "FENCELOCK_OWNER": str(lease.owner),
        # None removes it: in a command run by a command, the outer one's must not show through.
        "FENCELOCK_ABANDONED": "1" if lease.abandoned else None,
    }


class _Signals:
    """Catches the signals that are meant for the command."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._deliver: Callable[[int], object] | None = None
        loop = asyncio.get_running_loop()
        for signum in FORWARDED:
            # What whoever started us had ignored, as nohup does, stays so, for the command too.
            if signal.getsignal(signum) != signal.SIG_IGN:
                loop.add_signal_handler(signum, self._caught, signum)

    def deliver_to(self, deliver: Callable[[int], object]) -> None:
        """Who gets them from now on."""
        self._deliver = deliver

    def _caught(self, signum: int) -> None:
        self.first = self.first or signum
        if self._deliver is not None:
            self._deliver(signum)
