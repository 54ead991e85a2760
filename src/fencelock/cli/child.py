"""The command as the wrapper sees it: through the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading

from fencelock.cli import exits
from fencelock.cli.channel import Channel
from fencelock.cli.messages import say
from fencelock.cli.terminal import Terminal


class Child:
    """Tells the supervisor what to do with the command, and learns how the command ends."""

    def __init__(self, supervisor: int, channel: Channel) -> None:
        self._supervisor = supervisor
        self._channel = channel
        self._deadline = 0.0
        self._group = 0
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[tuple[int, bool]] = self._loop.create_future()
        # A job that a shell can stop and continue. Without a terminal no shell does that. A signal that
        # was ignored when we were started stays ignored.
        self._is_job = bool(Terminal(os.getpgrp())) and (
            signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        )

    def start(
        self, environment: dict[str, str | None], deadline: float, grace: float, margin: float
    ) -> None:
        """Start the command under a lease that is valid until the deadline.

        `environment` is added to our own; None removes a variable. When the lease is lost, the command
        gets `grace` seconds to end, and it must be dead `margin` seconds before the deadline.
        """
        self._loop.add_reader(self._channel.fd, self._receive)
        self._forward_ctrl_z()
        self._channel.send(start=environment, deadline=deadline, grace=grace, margin=margin)

    def lease_ends(self, deadline: float) -> None:
        """Report the lease's new deadline, on the clock of `fencelock.io.clock`."""
        if deadline > self._deadline:
            self._deadline = deadline
            self._channel.send(deadline=deadline)

    def lease_lost(self) -> None:
        """Report that the lease is lost, whatever its deadline was."""
        self._channel.send(lost=True)

    def signal(self, signum: int) -> None:
        """Send a signal to the command's process group."""
        self._channel.send(signal=signum)

    async def end(self) -> tuple[int, bool]:
        """Wait for the end of the command; `OSError` if it could not be executed.

        Returns the exit code, and whether the supervisor stopped the command because of its lease.
        """
        return await self._end

    def close(self) -> None:
        """End the supervisor, after the command or without one."""
        self._loop.remove_reader(self._channel.fd)
        self._channel.close()
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored: the kernel has reaped it
            os.waitpid(self._supervisor, 0)

    def _receive(self) -> None:
        messages = self._channel.receive()
        for message in messages or ():
            self._handle(**message)
        if messages is None and not self._end.done():
            say("the command's supervisor was killed: killing the command")
            if self._group:
                with contextlib.suppress(OSError):
                    os.killpg(self._group, signal.SIGKILL)
            self._end.set_result((exits.SIGNALLED + signal.SIGKILL, True))
        if self._end.done():
            self._loop.remove_reader(self._channel.fd)

    def _handle(
        self,
        failed: int | None = None,
        started: int | None = None,
        stopping: str | None = None,
        suspended: bool = False,
        ended: int | None = None,
        stopped: bool = False,
    ) -> None:
        if started is not None:
            self._group = started
        if failed is not None:
            self._end.set_exception(OSError(failed, os.strerror(failed)))
        if ended is not None:
            self._end.set_result((ended, stopped))
        if stopping is not None:
            say(f"{stopping}: stopping the command")
        if suspended:
            _suspend_like_a_job()
            self._forward_ctrl_z()
            self._channel.send(resume=True)

    def _forward_ctrl_z(self) -> None:
        """On Ctrl-Z, suspend the command first. We follow when the supervisor says that it is suspended."""
        if self._is_job:
            self._loop.add_signal_handler(signal.SIGTSTP, self.signal, signal.SIGTSTP)


def _suspend_like_a_job() -> None:
    """Suspend this process and its group, as Ctrl-Z would. Returns when the shell continues it."""
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.killpg(0, signal.SIGTSTP)  # the other processes of the group: a pipeline is one job
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    # To this very thread, so that it stops right here. If no shell can continue us (an orphaned
    # group), the kernel ignores it, and we go on.
    signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
