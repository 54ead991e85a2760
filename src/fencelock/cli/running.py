"""What `fencelock run` does: hold a lock while a command runs."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock.cli import exits
from fencelock.cli.channel import Channel
from fencelock.cli.child import Child
from fencelock.cli.exits import Ending
from fencelock.cli.messages import say, say_warnings
from fencelock.cli.options import require_cross_process, usage_errors
from fencelock.cli.run import RunOptions
from fencelock.cli.supervisor import FORWARDED, fork_supervisor
from fencelock.client import AsyncClient
from fencelock.core.errors import EngineError, LeaseLost, LockTimeout
from fencelock.io.clock import now
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.once import Once

if TYPE_CHECKING:
    from fencelock.cli.textfile import Report


def run_under_lock(options: RunOptions) -> int:
    """Acquire the lock, run the command, release the lock. Returns the exit code."""
    say_warnings()
    # First of all, while there is only one thread: a fork copies no other threads.
    supervisor, channel = fork_supervisor(options.command)
    return asyncio.run(_open_and_run(options, supervisor, channel))


async def _open_and_run(options: RunOptions, supervisor: int, channel: Channel) -> int:
    child = Child(supervisor, channel)
    signals = _Signals()
    report = _report_of(options)
    try:
        ending = await _with_client(options, child, signals, report)
    except BaseException as error:
        ending = Ending(exits.code_of(error), "error")
        raise
    finally:
        child.close()
        # Last of all, because a slow disk must not keep the lock. And here, where a signal is caught and
        # can't cut the writing short.
        if report is not None:
            report.write(ending)
    return ending.code


def _report_of(options: RunOptions) -> Report | None:
    if options.metrics is None:
        return None
    from fencelock.cli.textfile import Report  # most runs don't need it

    return Report(options.metrics)


async def _with_client(
    options: RunOptions, child: Child, signals: _Signals, report: Report | None
) -> Ending:
    with usage_errors():
        client = AsyncClient(
            options.url,
            ttl=options.ttl,
            label=options.label,
            observers=() if report is None else [report.tally],
        )
        options.grace_within(client.traits.default_ttl if options.ttl is None else options.ttl)
        lock = client.lock(options.name)
        require_cross_process(client.traits)
        once = None if options.period is None else Once(lock, _nothing, keep=options.period)
    try:
        return await _wait_and_run(options, lock, child, signals, once)
    finally:
        await client.close()


def _nothing() -> None:
    """`Once` wants a function. Here a command does the work."""


async def _wait_and_run(
    options: RunOptions, lock: AsyncLock, child: Child, signals: _Signals, once: Once | None
) -> Ending:
    if once is not None and await _has_run(options, once):
        return Ending(0, "skipped")
    waiting = asyncio.create_task(lock.acquire(options.timeout))
    # Only once: a second signal must not cut short the clean-up after the first one.
    signals.deliver_to(lambda _: waiting.cancelling() or waiting.cancel())
    try:
        lease = await waiting
    except LockTimeout as error:
        if not options.quiet:
            say(str(error))
        if once is not None:
            return Ending(0, "skipped")
        return Ending(options.conflict, "timeout" if options.timeout else "refused")
    except asyncio.CancelledError:
        if signals.first is None:
            raise
        return Ending(exits.SIGNALLED + signals.first, "cancelled")
    if once is not None and await _has_run(options, once):  # by another process, in the meantime
        await _release(lease)
        return Ending(0, "skipped")
    return await _run(options, lease, child, signals, once)


async def _has_run(options: RunOptions, once: Once) -> bool:
    if await once.known() is None:
        return False
    if not options.quiet:
        say(f"{options.name!r} has run within the last {options.period:g} s: nothing to do")
    return True


async def _run(
    options: RunOptions, lease: AsyncLease, child: Child, signals: _Signals, once: Once | None
) -> Ending:
    if signals.first is not None:  # a signal came at the moment when we got the lock
        await _release(lease)
        return Ending(exits.SIGNALLED + signals.first, "cancelled")
    if lease.abandoned:
        say(
            f"warning: the previous holder of {options.name!r} did not release it: "
            "its work may be half done"
        )
    began = now()
    ends = began + lease.remaining()
    margin = min(1.0, lease.ttl / 20)
    with usage_errors():  # without --ttl, the engine may have chosen a shorter ttl than the default
        grace = options.grace_within(lease.ttl)
    child.start(_environment(lease), ends, grace, margin)
    signals.deliver_to(child.signal)
    reporting = asyncio.create_task(_report(lease, child))
    try:
        code, stopped = await child.end()
    except OSError as error:
        say(f"cannot run {options.command[0]!r}: {error.strerror}")
        await _release(lease)
        code = exits.NOT_FOUND if error.errno == errno.ENOENT else exits.NOT_EXECUTABLE
        return Ending(code, "not started")
    finally:
        reporting.cancel()
    if once is not None and code == 0 and not stopped:
        try:
            await once.done(lease, began)
        except LeaseLost:
            pass  # the release below says so
        except EngineError as error:
            say(f"{options.name!r} ran, but that could not be stored, so it may run again: {error}")
    lost = await _release(lease, known=stopped)
    if stopped or (lost and code == 0):
        return Ending(exits.LOST, "lost")
    # The command's own error says more than the loss that followed.
    return Ending(code, "failed" if code else "success")


async def _report(lease: AsyncLease, child: Child) -> None:
    """Tell the supervisor about every renewal, and about the loss of the lease."""
    while not await lease.lost.wait(min(1.0, lease.ttl / 20)):
        child.lease_ends(now() + lease.remaining())
    child.lease_lost()


async def _release(lease: AsyncLease, *, known: bool = False) -> bool:
    """Release the lock. Returns whether the lease was lost; `known` if the user was told already."""
    try:
        await lease.release()
    except LeaseLost as error:
        if not known:
            say(str(error))
        return True
    except EngineError as error:
        say(f"could not release {lease.name!r}, it stays locked until its ttl has passed: {error}")
    return False


def _environment(lease: AsyncLease) -> dict[str, str | None]:
    """What the command learns about its lease. Never the id: a process that knows it can release the lock."""
    return {
        "FENCELOCK_NAME": lease.name,
        "FENCELOCK_FENCE": str(lease.fence),
        "FENCELOCK_OWNER": str(lease.owner),
        # None removes it: a command inside another command must not see the outer one's value.
        "FENCELOCK_ABANDONED": "1" if lease.abandoned else None,
    }


class _Signals:
    """Catches the signals that are passed on to the command."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._deliver: Callable[[int], object] | None = None
        loop = asyncio.get_running_loop()
        for signum in FORWARDED:
            # A signal that was ignored when we were started, as by nohup, stays ignored.
            if signal.getsignal(signum) != signal.SIG_IGN:
                loop.add_signal_handler(signum, self._caught, signum)

    def deliver_to(self, deliver: Callable[[int], object]) -> None:
        """Call `deliver` with each signal from now on."""
        self._deliver = deliver

    def _caught(self, signum: int) -> None:
        self.first = self.first or signum
        if self._deliver is not None:
            self._deliver(signum)
