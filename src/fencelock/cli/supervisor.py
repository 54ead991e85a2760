"""The supervisor: a small process between `fencelock run` (the wrapper) and the command that it runs.

It starts the command, passes signals on to it, and stops it *before* the lease ends. It does that by its own
clock, from the deadlines that the wrapper has told it. It is a process of its own because the wrapper, which
renews the lease, can be killed or stopped, and then the command must not go on unprotected. If the supervisor
itself is killed, the kernel kills the command (on Linux), and the wrapper kills what the command started.

Messages to the supervisor: start (with changes to the environment, grace and margin), deadline, lost, signal,
resume. Messages from it: failed or started, stopping, suspended, ended.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
from typing import NoReturn

from fencelock.cli.channel import Channel
from fencelock.cli.terminal import TERMINAL_STOPS, Terminal
from fencelock.io.clock import now
from fencelock.io.helper_process import die_with_parent

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that `fencelock run` passes on to the command."""

_LOOK_EVERY = 1.0
"""Longest time between two looks at the clock, in seconds: timers stand still while a machine sleeps."""

_LOOK_EVERY_STOPPING = 0.02
"""The same while the command is being stopped: no event tells when the last process of a group has ended."""


def fork_supervisor(command: list[str]) -> tuple[int, Channel]:
    """Start a supervisor. Returns its pid and a channel to it. Call this while there is only one thread."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, Channel(ours.detach())
    code = 1
    try:
        ours.close()
        Supervisor(Channel(theirs.detach()), command).serve()
        code = 0
    finally:
        os._exit(code)


class Supervisor:
    """The whole work of the supervisor's process."""

    def __init__(self, channel: Channel, command: list[str]) -> None:
        self._channel = channel
        self._command = command
        self._grace = 0.0
        self._margin = 0.0
        self._deadline = math.inf
        self._kill_at: float | None = None  # set while the command is being stopped
        self._group = 0
        self._code: int | None = None
        self._wrapper_gone = False
        self._failed = False
        self._terminal = Terminal(lender=os.getpgrp())
        # Out of the wrapper's group: a signal to that group must not end the supervisor.
        os.setpgid(0, 0)
        self._wake = self._watch_signals()

    def _watch_signals(self) -> int:
        """Let signals only wake us up. Returns the descriptor that becomes readable then."""
        for each in (*FORWARDED, signal.SIGTSTP, signal.SIGCHLD):
            # A handler instead of SIG_IGN, because the command would inherit that. A signal that was
            # ignored before, as by nohup, stays ignored.
            if signal.getsignal(each) != signal.SIG_IGN or each == signal.SIGCHLD:
                signal.signal(each, lambda signum, frame: None)
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        return readable

    def serve(self) -> None:
        """Supervise one command from its start to its end."""
        while not self._done():
            channel = [] if self._wrapper_gone else [self._channel.fd]
            readable, _, _ = select.select([self._wake, *channel], [], [], self._wait_at_most())
            if self._wake in readable:
                os.read(self._wake, 4096)
            if self._channel.fd in readable:
                self._receive()
            self._check_command()
            self._enforce()
        self._terminal.take_back(self._group)
        if self._code is not None:
            self._channel.send(ended=self._code, stopped=self._kill_at is not None)

    def _done(self) -> bool:
        if not self._group:
            return self._wrapper_gone or self._failed
        if self._code is None:
            return False
        # A command that was told to stop may leave processes of its group behind: they must stop as well.
        return self._kill_at is None or not _send(self._group, 0)

    def _wait_at_most(self) -> float:
        if self._kill_at is not None:
            return _LOOK_EVERY_STOPPING
        return min(_LOOK_EVERY, max(0.0, self._stop_at() - now()))

    def _stop_at(self) -> float:
        return self._deadline - self._margin - self._grace

    # --- messages from the wrapper

    def _receive(self) -> None:
        messages = self._channel.receive()
        if messages is None:
            self._wrapper_gone = True
            self._stop("fencelock itself was killed")
        for message in messages or ():
            self._handle(**message)

    def _handle(
        self,
        start: dict[str, str | None] | None = None,
        deadline: float | None = None,
        grace: float = 0.0,
        margin: float = 0.0,
        lost: bool = False,
        signal: int | None = None,
        resume: bool = False,
    ) -> None:
        if deadline is not None:
            self._deadline = deadline
        if start is not None:
            self._grace, self._margin = grace, margin
            self._start(start)
        if lost:
            self._stop("the lease is lost")
        if signal is not None and self._group and self._code is None:
            _send(self._group, signal)
        if resume:
            self._resume()

    # --- the command

    def _start(self, changes: dict[str, str | None]) -> None:
        changed = {**os.environ, **changes}
        environment = {key: value for key, value in changed.items() if value is not None}
        supervisor = os.getpid()
        failure, report = os.pipe()  # a successful exec closes it, and we read nothing
        child = os.fork()
        if child == 0:
            _become(self._command, environment, supervisor, report)
        os.close(report)
        # Both here and in the child: it must be done before either relies on it.
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        with os.fdopen(failure) as pipe:
            error = pipe.read()
        if error:
            os.waitpid(child, 0)
            self._failed = True
            self._channel.send(failed=int(error))
        else:
            self._group = child
            self._channel.send(started=child)

    def _check_command(self) -> None:
        """Notice that the command has ended or was suspended."""
        if not self._group or self._code is not None:
            return
        flags = os.WNOHANG | (os.WUNTRACED if self._terminal else 0)
        pid, status = os.waitpid(self._group, flags)
        if not pid:
            return
        if os.WIFSTOPPED(status):
            self._suspended(os.WSTOPSIG(status))
        elif os.WIFSIGNALED(status):
            self._code = 128 + os.WTERMSIG(status)
        else:
            self._code = os.WEXITSTATUS(status)

    def _suspended(self, by: int) -> None:
        if self._kill_at is not None:
            return  # we have continued it, so that it can end
        if by in TERMINAL_STOPS and self._terminal.lend(self._group, wanted=True):
            _send(self._group, signal.SIGCONT)
            return
        # Like a job of a shell: the wrapper suspends itself too, so that the shell takes over. Nobody
        # renews the lease then, and before it ends, the command is stopped for good.
        self._terminal.take_back(self._group)
        self._channel.send(suspended=True)

    def _resume(self) -> None:
        if self._code is None:
            self._terminal.lend(self._group)
            _send(self._group, signal.SIGCONT)

    # --- stopping it

    def _stop(self, reason: str) -> None:
        """Ask the command to end now. `_enforce` kills it if it has not ended in time."""
        if self._kill_at is not None or not self._group or self._code is not None:
            return
        self._kill_at = min(now() + self._grace, self._deadline - self._margin)
        self._channel.send(stopping=reason)
        _send(self._group, signal.SIGTERM)
        _send(self._group, signal.SIGCONT)  # a suspended process would not see SIGTERM

    def _enforce(self) -> None:
        if now() >= self._stop_at():
            self._stop("the lease could not be renewed and is about to end")
        if self._kill_at is not None and now() >= self._kill_at:
            _send(self._group, signal.SIGKILL)


def _become(
    command: list[str], environment: dict[str, str], supervisor: int, report: int
) -> NoReturn:
    """Turn this process, just forked, into the command. If that fails, report the error number."""
    try:
        os.setpgid(0, 0)
        die_with_parent(supervisor)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, other programs don't
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def _send(group: int, signum: int) -> bool:
    """Send a signal to a group. Returns whether the group is there: signal 0 does only that."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):  # macOS refuses for a zombie
        return False
    return True
