"""The warden: a small process between `fencelock run` and the command it runs.

It starts the command, passes signals on to it, and stops it *before* the lease ends: by its own
clock, from the deadlines it was told. It is a process of its own because the one that renews the
lease can be killed or stopped, and the command must not go on unprotected then. If the warden
itself is killed, the kernel kills the command (on Linux), and the wrapper what the command started.

The two talk in lines of JSON. To the warden: start (with changes to the environment, grace and margin),
deadline, lost, signal, resume. From it: failed or started, stopping, suspended, ended.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
from types import FrameType
from typing import Any, NoReturn

from fencelock.cli.prctl import die_with_parent
from fencelock.cli.terminal import TOUCHED, Terminal
from fencelock.io.clock import now

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that are meant for the command when `fencelock run` gets them."""

_LOOK = 1.0
"""Seconds after which to look at the clock at the latest: timers stand still while a machine sleeps."""

_LOOK_STOPPING = 0.02
"""The same while the command is being stopped: nobody tells when the last of a group has ended."""


def fork_warden(command: list[str]) -> tuple[int, socket.socket]:
    """Start a warden; its pid and the channel to it. Call it while there is only one thread."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    code = 1
    try:
        ours.close()
        Warden(theirs, command).serve()
        code = 0
    finally:
        os._exit(code)


class Warden:
    """What the warden's process does from its first moment to its last."""

    def __init__(self, channel: socket.socket, command: list[str]) -> None:
        self._channel = channel
        self._command = command
        self._grace = 0.0
        self._margin = 0.0
        self._deadline = math.inf
        self._kill_at: float | None = None  # set while the command is being stopped
        self._group = 0
        self._code: int | None = None
        self._received = b""
        self._wrapper_gone = False
        self._failed = False
        self._terminal = Terminal(lender=os.getpgrp())
        # Out of the wrapper's group: what is sent to that group must not end the warden.
        os.setpgid(0, 0)
        self._wake = self._mute()

    def _mute(self) -> int:
        """Take no notice of signals except to wake up; a descriptor that then becomes readable."""
        for each in (*FORWARDED, signal.SIGTSTP, signal.SIGCHLD):
            # A handler instead of SIG_IGN, because that would be inherited by the command. What was
            # ignored before, as by nohup, stays so.
            if signal.getsignal(each) != signal.SIG_IGN or each == signal.SIGCHLD:
                signal.signal(each, _noticed)
        readable, writable = os.pipe()
        os.set_blocking(readable, False)
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        return readable

    def serve(self) -> None:
        """Serve one command from its start to its end."""
        while not self._done():
            channel = [] if self._wrapper_gone else [self._channel.fileno()]
            readable, _, _ = select.select([self._wake, *channel], [], [], self._patience())
            if self._wake in readable:
                _drain(self._wake)
            if self._channel.fileno() in readable:
                self._listen()
            self._look_after()
            self._enforce()
        self._terminal.take_back(self._group)
        if self._code is not None:
            self._report(ended=self._code, stopped=self._kill_at is not None)

    def _done(self) -> bool:
        if not self._group:
            return self._wrapper_gone or self._failed
        if self._code is None:
            return False
        # One that was told to stop may leave others of its group behind: they have to stop as well.
        return self._kill_at is None or not _alive(self._group)

    def _patience(self) -> float:
        if self._kill_at is not None:
            return _LOOK_STOPPING
        return min(_LOOK, max(0.0, self._stop_at() - now()))

    def _stop_at(self) -> float:
        return self._deadline - self._margin - self._grace

    # --- what the wrapper says

    def _listen(self) -> None:
        try:
            data = self._channel.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._wrapper_gone = True
            self._stop("fencelock itself was killed")
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._obey(**json.loads(line))

    def _obey(
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

    def _report(self, **message: Any) -> None:
        with contextlib.suppress(OSError):  # the wrapper is gone: we'll hear of it from the channel
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    # --- the command

    def _start(self, changes: dict[str, str | None]) -> None:
        changed = {**os.environ, **changes}
        environment = {key: value for key, value in changed.items() if value is not None}
        warden = os.getpid()
        failure, report = os.pipe()  # closed by a successful exec: then there is nothing to read
        child = os.fork()
        if child == 0:
            _become(self._command, environment, warden, report)
        os.close(report)
        # Here and in the child: whoever comes first, it is done before anything relies on it.
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        with os.fdopen(failure) as pipe:
            error = pipe.read()
        if error:
            os.waitpid(child, 0)
            self._failed = True
            self._report(failed=int(error))
        else:
            self._group = child
            self._report(started=child)

    def _look_after(self) -> None:
        """Learn whether the command has ended or was stopped."""
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
            return  # it was continued, for it shall end
        if by in TOUCHED:
            self._terminal.asked()
            if self._terminal.lend(self._group):
                _send(self._group, signal.SIGCONT)
                return
        # As a job of a shell: the wrapper stops too, so that the shell takes over. Nobody renews
        # the lease then, and when it is about to end, the command is stopped for good.
        self._terminal.take_back(self._group)
        self._report(suspended=True)

    def _resume(self) -> None:
        if self._code is None:
            self._terminal.lend(self._group)
            _send(self._group, signal.SIGCONT)

    # --- its end

    def _stop(self, reason: str) -> None:
        """Ask the command to end now, and see to it that it has ended in time."""
        if self._kill_at is not None or not self._group or self._code is not None:
            return
        self._kill_at = min(now() + self._grace, self._deadline - self._margin)
        self._report(stopping=reason)
        _send(self._group, signal.SIGTERM)
        _send(self._group, signal.SIGCONT)  # one that is stopped would not hear it

    def _enforce(self) -> None:
        if now() >= self._stop_at():
            self._stop("the lease could not be renewed and is about to end")
        if self._kill_at is not None and now() >= self._kill_at:
            _send(self._group, signal.SIGKILL)


def _become(command: list[str], environment: dict[str, str], warden: int, report: int) -> NoReturn:
    """Turn this process, just forked, into the command; the error's number if that fails."""
    try:
        os.setpgid(0, 0)
        die_with_parent(warden)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, programs don't
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def _noticed(signum: int, frame: FrameType | None) -> None:
    pass


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def _send(group: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a zombie
        os.killpg(group, signum)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
