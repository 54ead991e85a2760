"""The wrapped command as the holder of the lease sees it: by way of the warden."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fencelock.cli import exits
from fencelock.cli.terminal import Terminal


class End(NamedTuple):
    """How the command ended."""

    code: int
    stopped: bool
    """It did not end by itself: it was stopped because of its lease."""


class NotStarted(Exception):
    """The command could not be executed."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


class Child:
    """Has the command started, tells about its lease, and hears what becomes of it."""

    def __init__(self, warden: int, channel: socket.socket, say: Callable[[str], None]) -> None:
        self._warden = warden
        self._channel = channel
        self._say = say
        self._received = b""
        self._deadline = 0.0
        self._group = 0
        self._end: asyncio.Future[End] | None = None
        # A job that a shell can stop and continue. Without a terminal there is nobody to do that,
        # and what was ignored when we were started is not ours to handle.
        self._is_job = bool(Terminal(os.getpgrp())) and (
            signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        )

    def start(
        self, environment: dict[str, str | None], deadline: float, grace: float, margin: float
    ) -> None:
        """Have the command started under a lease that is good until the deadline.

        `environment` is added to our own; None takes a variable out of it. The command gets `grace`
        seconds to end, and `margin` seconds before the end of its lease it must be dead.
        """
        loop = asyncio.get_running_loop()
        self._end = loop.create_future()
        loop.add_reader(self._channel, self._listen)
        self._pass_stops_on()
        self._tell(start=environment, deadline=deadline, grace=grace, margin=margin)

    def lease_ends(self, deadline: float) -> None:
        """Until when the lease is good now, on the clock of `fencelock.io.clock`."""
        if deadline > self._deadline:
            self._deadline = deadline
            self._tell(deadline=deadline)

    def lease_lost(self) -> None:
        """The lease is no longer ours, whatever its deadline."""
        self._tell(lost=True)

    def signal(self, signum: int) -> None:
        """Send a signal to the command and all that belongs to it."""
        self._tell(signal=signum)

    async def end(self) -> End:
        """Wait for the end of the command; `NotStarted` if there was no beginning."""
        assert self._end is not None, "start() comes first"
        return await self._end

    def close(self) -> None:
        """Let the warden go: it has nothing to do, or has done it."""
        if self._end is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()
        with contextlib.suppress(ChildProcessError):  # whoever started us ignores SIGCHLD
            os.waitpid(self._warden, 0)

    def _listen(self) -> None:
        try:
            data = self._channel.recv(65536)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._heard(**json.loads(line))
        assert self._end is not None
        if not data and not self._end.done():
            # Its last words are missing: someone killed it.
            self._say("the command's warden was killed: killing the command")
            if self._group:
                with contextlib.suppress(OSError):
                    os.killpg(self._group, signal.SIGKILL)
            self._end.set_result(End(exits.SIGNALLED + signal.SIGKILL, stopped=True))
        if self._end.done():
            asyncio.get_running_loop().remove_reader(self._channel)

    def _heard(
        self,
        failed: int | None = None,
        started: int | None = None,
        stopping: str | None = None,
        suspended: bool = False,
        ended: int | None = None,
        stopped: bool = False,
    ) -> None:
        assert self._end is not None
        if started is not None:
            self._group = started
        if failed is not None:
            self._end.set_exception(NotStarted(failed))
        if ended is not None:
            self._end.set_result(End(ended, stopped))
        if stopping is not None:
            self._say(f"{stopping}: stopping the command")
        if suspended:
            _stop_like_a_job()
            self._pass_stops_on()
            self._tell(resume=True)

    def _pass_stops_on(self) -> None:
        """On Ctrl-Z, stop the command first; we follow when the warden says that it has stopped."""
        if self._is_job:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTSTP, self.signal, signal.SIGTSTP)

    def _tell(self, **message: Any) -> None:
        with contextlib.suppress(OSError):  # the warden has ended: its last report says how
            self._channel.sendall(json.dumps(message).encode() + b"\n")


def _stop_like_a_job() -> None:
    """Stop this process and its group, as Ctrl-Z would; returns when the shell continues it."""
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.killpg(0, signal.SIGTSTP)  # the others: a pipeline is one job
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    # To this very thread, so that it stops right here. If there is no shell to continue us (an
    # orphaned group), the kernel ignores it, and we just go on.
    signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
