"""The faults of a torture run. Each is a small object: it begins, and it is healed."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from fencelock.core.errors import FencelockError
from fencelock.torture.real.addresses import why_no_proxy
from fencelock.torture.real.stage import Lane, Stage
from fencelock.torture.real.wire import Mode

_COMMAND_TIMEOUT = 120.0
"""Seconds that a command of the user may take."""


class Harm(NamedTuple):
    """What a fault has done."""

    target: str
    """Whom it has hit, for people."""
    lanes: tuple[str, ...] = ()
    """The lanes that it has hit; none: the engine, and so all of them."""
    detail: str = ""


class Fault(ABC):
    """One kind of fault."""

    kind: ClassVar[str]
    title: ClassVar[str]
    of_engine: ClassVar[bool] = False
    """Whether it takes the engine away: until it is healed, nobody can be expected to get a lock."""
    lasts: ClassVar[tuple[float, float]] = (0.3, 2.5)
    """The shortest and the longest time until it is healed, in ttls."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @classmethod
    def why_not(cls, stage: Stage) -> str:
        """Why it is not possible here; empty if it is."""
        return ""

    @property
    def suspends(self) -> frozenset[str]:
        """The promises that this engine does not make while this fault lasts, and shortly after it."""
        return frozenset()

    @abstractmethod
    def begin(self) -> Harm: ...

    @abstractmethod
    def heal(self) -> None: ...


# --- the processes


class _OfLane(Fault):
    """A fault of one worker."""

    lane: Lane

    def begin(self) -> Harm:
        self.lane = self.stage.choose()
        self.hit()
        return Harm(self.lane.life.worker, (self.lane.name,))

    @abstractmethod
    def hit(self) -> None: ...


class Stop(_OfLane):
    kind = "stop"
    title = "a process is stopped"
    lasts = (0.3, 3.5)

    def hit(self) -> None:
        self.stage.stop(self.lane.life)

    def heal(self) -> None:
        self.stage.go_on(self.lane.life)


class Kill(_OfLane):
    kind = "kill"
    title = "a process is killed"

    def hit(self) -> None:
        self.stage.kill(self.lane.life)

    def heal(self) -> None:
        self.stage.fill(self.lane)


class LateWrite(_OfLane):
    kind = "late-write"
    title = "a write to the storage arrives late"

    @classmethod
    def why_not(cls, stage: Stage) -> str:
        return "holders of a semaphore write nothing" if stage.plan.primitive == "semaphore" else ""

    def hit(self) -> None:
        seconds = self.stage.random.uniform(0.2, 1.5) * self.stage.plan.ttl
        self.stage.order(self.lane.life, late=seconds)

    def heal(self) -> None:
        """The network delivers it by itself."""


# --- the network between one worker and the servers


class _OfNetwork(_OfLane):
    lasts = (0.2, 2.0)

    @classmethod
    def why_not(cls, stage: Stage) -> str:
        return why_no_proxy(stage.url)

    def begin(self) -> Harm:
        harm = super().begin()
        return harm._replace(target=f"the network of {harm.target}")

    def heal(self) -> None:
        for wire in self.lane.wires:
            wire.heal()


class Cut(_OfNetwork):
    kind = "cut"
    title = "connections are cut and refused"

    def hit(self) -> None:
        for wire in self.lane.wires:
            wire.refuse()


class BlackHole(_OfNetwork):
    kind = "black-hole"
    title = "nothing arrives, in both directions"
    mode: ClassVar[Mode] = Mode.BLACK_HOLE

    def hit(self) -> None:
        for wire in self.lane.wires:
            wire.lose(self.mode)


class RequestsLost(BlackHole):
    kind = "requests-lost"
    title = "requests are lost, replies arrive"
    mode = Mode.DEAF


class RepliesLost(BlackHole):
    kind = "replies-lost"
    title = "requests arrive, replies are lost"
    mode = Mode.MUTE


class Delay(_OfNetwork):
    kind = "delay"
    title = "everything arrives late"

    def hit(self) -> None:
        seconds = self.stage.random.uniform(0.02, 0.4) * self.stage.plan.ttl
        for wire in self.lane.wires:
            wire.delay(seconds)


# --- the servers, if they are ours


class _OfServers(Fault):
    of_engine = True
    lasts = (0.2, 2.0)

    @classmethod
    def why_not(cls, stage: Stage) -> str:
        if stage.own is None:
            return "these servers are not ours: only --self can do it"
        return stage.own.cannot.get(cls.kind, "")

    @property
    def suspends(self) -> frozenset[str]:
        assert self.stage.own is not None
        return self.stage.own.suspends.get(self.kind, frozenset())

    def begin(self) -> Harm:
        assert self.stage.own is not None
        return Harm(self.stage.own.hit(self.kind, self.stage.random))

    def heal(self) -> None:
        assert self.stage.own is not None
        self.stage.own.heal(self.kind)


class KillServer(_OfServers):
    kind = "kill-server"
    title = "a server is killed and started again"


class FreezeServer(_OfServers):
    kind = "freeze-server"
    title = "a server stands still"


class ForgetfulServer(_OfServers):
    kind = "memory-lost"
    title = "a server is killed and starts empty"


class ClockForward(_OfServers):
    kind = "clock-forward"
    title = "the clock of a server is 60 s ahead"
    lasts = (1.0, 3.0)


class ClockBack(_OfServers):
    kind = "clock-back"
    title = "the clock of a server is 60 s behind"
    lasts = (1.0, 3.0)


class ForgetfulServerInThePast(_OfServers):
    kind = "memory-lost-clock-back"
    title = "a server starts empty, its clock 60 s behind"
    lasts = (1.0, 3.0)


class OwnCommand(Fault):
    """The user's words for a fault of a server."""

    kind = "command"
    title = "the command that you gave"
    of_engine = True
    lasts = (0.5, 2.0)

    @classmethod
    def why_not(cls, stage: Stage) -> str:
        return "" if stage.plan.break_with else "no --fault and --heal were given"

    @property
    def suspends(self) -> frozenset[str]:
        return frozenset()

    def begin(self) -> Harm:
        self._run(self.stage.plan.break_with)
        return Harm("the engine", detail=self.stage.plan.break_with)

    def heal(self) -> None:
        self._run(self.stage.plan.heal_with)

    def _run(self, command: str) -> None:
        done = subprocess.run(
            command,
            shell=True,  # it is a line that the user has typed
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT,
        )
        if done.returncode:
            raise FencelockError(
                f"{command!r} ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            )


KINDS: dict[str, type[Fault]] = {
    fault.kind: fault
    for fault in (
        *(Stop, Kill, LateWrite),
        *(Cut, BlackHole, RequestsLost, RepliesLost, Delay),
        *(KillServer, FreezeServer, ForgetfulServer),
        *(ClockForward, ClockBack, ForgetfulServerInThePast, OwnCommand),
    )
}
