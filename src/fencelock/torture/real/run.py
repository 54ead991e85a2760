"""Runs a torture: starts the stage, lets faults happen, ends the workers, and puts the history together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from fencelock.client import Client
from fencelock.core.errors import EngineError, FencelockError, LockTimeout, Unsupported
from fencelock.engines.contract import Traits
from fencelock.io.clock import now
from fencelock.torture.real.faults import KINDS, Fault
from fencelock.torture.real.history import History, Occurrence, Span, read_journals
from fencelock.torture.real.journal import Journal, Pulse, Reader
from fencelock.torture.real.judge import SLACK
from fencelock.torture.real.own import OwnEngine
from fencelock.torture.real.plan import Plan
from fencelock.torture.real.register import register_at
from fencelock.torture.real.stage import PROGRAM, Stage, Start, start_python

Say = Callable[[str], object]

_LOOK_EVERY = 0.05
"""Seconds between two looks at the workers."""
_WARM = 3
"""How many leases there must be between two faults, so that each fault meets a lock that works."""


class Skipped(NamedTuple):
    """A fault that is not possible here."""

    kind: str
    title: str
    why: str


class Outcome(NamedTuple):
    """A run that is over."""

    history: History
    traits: Traits
    skipped: list[Skipped]
    interrupted: bool


def torture(
    plan: Plan,
    url: str,
    folder: Path,
    *,
    own: OwnEngine | None = None,
    say: Say = lambda text: None,
    program: str = PROGRAM,
    start: Start = start_python,
) -> Outcome:
    """Torture the engine with this URL. Journals go into `folder`. At the end nothing is left running."""
    register = register_at(plan.storage, plan.run)
    with ExitStack() as clean_up, Client(url, label="torture") as client:
        traits = _examine(client, plan)
        clean_up.enter_context(_alone(client, plan))
        register.prepare(plan.names)
        clean_up.callback(register.close)
        clean_up.callback(register.remove)
        journal = folder / "coordinator.journal"
        pulse = Pulse(Journal(journal))
        clean_up.callback(pulse.end)
        run = _Run(plan, client, traits, say)
        with Stage(plan, url, folder, own, program=program, start=start) as stage:
            run.on(stage)
            leftovers = run.end()
        history = History(
            plan=plan,
            fifo=traits.fifo,
            overstay=traits.max_overstay,
            began=run.began,
            ended=now(),
            lives=[(lane.name, life) for lane in stage.lanes for life in lane.lives],
            occurrences=run.occurrences,
            final=register.final(),
            leftovers=leftovers,
        )
        history.stalls += [Span(line["since"], line["at"]) for line in Reader(journal).lines()]
        read_journals(history, stage.lanes)
    return Outcome(history, traits, run.skipped, run.interrupted)


def _examine(client: Client, plan: Plan) -> Traits:
    """Make sure that this engine can be tortured as planned."""
    client.inspect(plan.names[0])  # the traits of a lock service are known after the first contact
    traits = client.traits
    if not traits.cross_process:
        raise Unsupported(
            "the locks of this engine exist in one process only: torture needs several"
        )
    if not traits.leases_expire:
        raise Unsupported(
            "session locks never expire, so a holder that is stopped keeps its lock for ever: "
            "there is nothing to torture. Use the engine with leases, postgresql:// or mysql://"
        )
    if plan.primitive in ("semaphore", "rwlock") and not traits.supports_sharing:
        raise Unsupported(f"this engine has no {plan.primitive}: it has the mutex only")
    return traits


@contextmanager
def _alone(client: Client, plan: Plan) -> Iterator[None]:
    """Refuse to run beside another torture with the same prefix."""
    try:
        # Not a longer ttl than that of the locks: a node of a Redlock that forgot waits for the longest one.
        lock = client.lock(f"{plan.prefix}:running", ttl=plan.ttl)
        lease = lock.acquire(timeout=0.5)
    except LockTimeout as error:
        who = f" ({error.holder.owner})" if error.holder else ""
        raise FencelockError(
            f"another torture runs here with the prefix {plan.prefix!r}{who}: wait for its end, or choose "
            "another --prefix"
        ) from error
    try:
        yield
    finally:
        # A fault may have taken the engine away for a while: then the lease is lost, or expires by itself.
        with suppress(FencelockError):
            lease.release()


class _Run:
    """The faults of a run, one after the other."""

    def __init__(self, plan: Plan, client: Client, traits: Traits, say: Say) -> None:
        self.plan = plan
        self.began = now()
        self.occurrences: list[Occurrence] = []
        self.skipped: list[Skipped] = []
        self.interrupted = False
        self._client = client
        self._say = say
        self._stop = threading.Event()
        self._patience = 2 * plan.ttl + traits.max_overstay + SLACK
        """Seconds after which the run goes on, although what it waits for has not come: see the judge."""

    def on(self, stage: Stage) -> None:
        """Run, until the time is over or the user presses Ctrl-C."""
        self._stage = stage
        possible = self._possible()
        with self._ctrl_c():
            self._until(self._all_had_a_turn, 60.0)
            self.began = now()
            end = self.began + self.plan.seconds
            while now() < end and not self._stop.is_set():
                if not possible:
                    self._pause(_LOOK_EVERY)
                    continue
                order = stage.random.sample(possible, len(possible))
                for kind in order:
                    if now() < end and not self._stop.is_set():
                        self._happen(kind(stage))
            self._say("all faults are healed; each process needs one more turn")
            self._await_turns()

    def end(self) -> list[str]:
        """Let the workers end, and return what is left of them at the engine."""
        stage = self._stage
        stage.dismiss()
        deadline = now() + 60.0 + 20 * self.plan.ttl
        while not stage.all_ended() and now() < deadline:
            self._pause(_LOOK_EVERY)
        return self._leftovers()

    def _possible(self) -> list[type[Fault]]:
        chosen = [kind for name, kind in KINDS.items() if name in (self.plan.faults or KINDS)]
        possible = []
        for kind in chosen:
            if why := kind.why_not(self._stage):
                self.skipped.append(Skipped(kind.kind, kind.title, why))
            else:
                possible.append(kind)
        if self.plan.faults and not possible:
            reasons = "; ".join(f"{each.kind}: {each.why}" for each in self.skipped)
            raise Unsupported(f"none of these faults is possible here ({reasons})")
        return possible

    # --- one fault

    def _happen(self, fault: Fault) -> None:
        random, ttl = self._stage.random, self.plan.ttl
        self._until(self._warm(), self._patience)
        began = now()
        harm = fault.begin()
        self._say(f"{fault.title}: {harm.target}")
        try:
            self._pause(random.uniform(*fault.lasts) * ttl)
        finally:
            fault.heal()
            self.occurrences.append(
                Occurrence(
                    kind=fault.kind,
                    title=fault.title,
                    target=harm.target,
                    lanes=harm.lanes,
                    span=Span(began, now()),
                    of_engine=fault.of_engine,
                    suspends=fault.suspends,
                    detail=harm.detail,
                )
            )
        self._pause(random.uniform(0.05, 0.5) * ttl)

    def _warm(self) -> Callable[[], bool]:
        """Whether locks were taken since this call."""
        before = self._grants()
        return lambda: self._grants() >= before + _WARM

    def _await_turns(self) -> None:
        """Wait until each process has had a turn after the last fault."""
        before = {lane.name: (lane.life, lane.life.grants) for lane in self._stage.lanes}

        def all_had_one_more() -> bool:
            self._stage.look()
            return all(lane.life.grants > before[lane.name][1] for lane in self._stage.lanes)

        self._until(all_had_one_more, self._patience)

    def _all_had_a_turn(self) -> bool:
        self._stage.look()
        return all(lane.life.grants for lane in self._stage.lanes)

    def _grants(self) -> int:
        self._stage.look()
        return sum(life.grants for lane in self._stage.lanes for life in lane.lives)

    # --- waiting

    def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        limit = now() + timeout
        while not condition() and now() < limit and not self._stop.is_set():
            self._pause(_LOOK_EVERY)

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    @contextmanager
    def _ctrl_c(self) -> Iterator[None]:
        """Ctrl-C ends the faults. Then everything is healed, judged and cleaned up as at any other end."""

        def stop(signum: int, frame: FrameType | None) -> Any:
            self.interrupted = True
            self._stop.set()

        if threading.current_thread() is not threading.main_thread():
            yield  # a test
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._stop.clear()

    # --- what is left

    def _leftovers(self) -> list[str]:
        """What stays at the engine after all workers have ended, for longer than any ticket may live."""
        limit = now() + 2 * self.plan.ttl + self._patience + 30.0
        left: Sequence[str] = ["nobody could ask"]
        while left and now() < limit:
            try:
                left = [each for name in self.plan.names if (each := self._left(name))]
            except EngineError as error:
                left = [f"the engine does not answer: {error}"]
            if left:
                self._pause(4 * _LOOK_EVERY)
        return list(left)

    def _left(self, name: str) -> str:
        seen = self._client.inspect(name)
        if not seen.contenders:
            return ""
        who = ", ".join(f"{each.owner.label} (fence {each.fence})" for each in seen.contenders)
        return f"{name}: {who} stayed in the queue after all processes had ended"
