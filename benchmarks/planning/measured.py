"""Real processes on real engines: how long they wait, and what the model says.

Callers come at random moments, as the model assumes, and spread over processes. Each has a thread of its own,
so none has to wait for an earlier one before it can join the queue.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from random import Random
from typing import NamedTuple

from benchmarks.crew import Crew
from benchmarks.setting import Setting
from fencelock.cli.bench.steps import Bench
from fencelock.cli.plan.speed import speed_of
from fencelock.client import Client
from fencelock.planning.held import Exponential, Fixed, Held
from fencelock.planning.model import EngineSpeed, Model
from fencelock.planning.names import Names
from fencelock.planning.queue import replay

BUSY = (0.2, 0.5, 0.8)
HELD_SECONDS = 0.02
PROCESSES = 4
_THREADS = 100
"""Callers that one process can have waiting. More than ever wait, if the queue has an end."""

_PATIENCE_SECONDS = 60.0

HEADER = """\
| engine | held | in use | hand-off of the run | mean: measured | plan | own figures | p99: measured \
| plan | own figures |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"""

_numbers = count()


class Caller(NamedTuple):
    """When it comes, in seconds from the start, and for how long it holds the lock."""

    came: float
    held: float


class Turn(NamedTuple):
    """What happened to one caller, on the clock that all processes share."""

    came: float
    got: float
    released: float

    @property
    def wait(self) -> float:
        return self.got - self.came


class Waits(NamedTuple):
    """A mean and a p99, in seconds."""

    mean: float
    p99: float


def measured(engines: Sequence[str], seconds: float) -> Iterator[str]:
    """The table, line by line. First it measures each engine, as `fencelock plan --url` does."""
    with Setting(quick=True) as setting, Crew(PROCESSES) as crew:
        yield HEADER
        notes: list[str] = []
        for engine in engines:
            url = setting.redis.url if engine == "redis" else setting.sqlite_url
            with Client(url) as client:
                figures = Bench(client, url, max(8.0, seconds / 2), lambda *_: None).run()
            speed = speed_of(figures)
            notes.append(
                f"{engine}: pair {speed.pair * 1e6:.0f} µs, hand-off {speed.hand_off * 1e6:.0f} µs"
            )
            for held in (Exponential(HELD_SECONDS), Fixed(HELD_SECONDS)):
                for busy in BUSY:  # longer if busier, because chance plays a larger part there
                    yield _row(engine, crew, url, speed, held, busy, 2 * busy * seconds)
        cores, load = os.cpu_count(), os.getloadavg()[2]
        yield ""
        yield f"{'; '.join(notes)}. {cores} cores, load average {load:.1f} at the end."


def _row(
    engine: str,
    crew: Crew,
    url: str,
    speed: EngineSpeed,
    held: Held,
    busy: float,
    seconds: float,
) -> str:
    per_second = busy / (held.mean + speed.hand_off)
    plan = Model(Names(1), held, speed._replace(pairs_per_second=math.inf)).at(per_second)
    turns = run(crew, url, callers_of(per_second, held, seconds, Random(next(_numbers))))
    real, own = waits([turn.wait for turn in turns]), waits(replayed(turns))
    cells = (
        engine,
        f"{held.mean * 1e3:g} ms, {'fixed' if isinstance(held, Fixed) else 'random'}",
        f"{busy:.0%}",
        f"{hand_off(turns) * 1e3:.2f} ms",
        *_compared(real.mean, plan.mean_wait, own.mean),
        *_compared(real.p99, plan.p99_wait, own.p99),
    )
    return f"| {' | '.join(cells)} |"


def _compared(real: float, *others: float) -> Iterator[str]:
    yield f"{real * 1e3:.1f} ms"
    yield from (f"{other * 1e3:.1f} ms ({other / real - 1:+.0%})" for other in others)


def callers_of(per_second: float, held: Held, seconds: float, random: Random) -> list[Caller]:
    """Callers that come at random moments (Poisson)."""
    found: list[Caller] = []
    moment = random.expovariate(per_second)
    while moment < seconds or not found:
        found.append(Caller(moment, held.draw(random)))
        moment += random.expovariate(per_second)
    return found


def replayed(turns: Sequence[Turn]) -> list[float]:
    """What the model says about exactly these callers, with the hand-off and the times held of this run.

    So neither chance nor a wrong figure of the engine is in it: what differs is the model's own error.
    """
    passing = hand_off(turns)
    entry = _mean(
        after.wait
        for before, after in pairwise(_in_order(turns))
        if after.came > before.released + passing
    )
    callers = ((turn.came, turn.released - turn.got + passing) for turn in sorted(turns))
    return [entry + wait for wait in replay(callers)]


def hand_off(turns: Sequence[Turn]) -> float:
    """The mean time from a release until the next caller has it, if that caller waited already."""
    return _mean(
        after.got - before.released
        for before, after in pairwise(_in_order(turns))
        if after.came < before.released
    )


def _in_order(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.got)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.fmean(found) if found else 0.0


def waits(found: Sequence[float]) -> Waits:
    return Waits(statistics.fmean(found), sorted(found)[int(0.99 * len(found))])


def run(crew: Crew, url: str, callers: Sequence[Caller]) -> list[Turn]:
    """Let the processes play these callers."""
    name = f"planning-{next(_numbers)}"
    start = time.monotonic() + 0.5  # all threads have started by then
    for place in range(PROCESSES):
        crew.begin(place, play, url, name, start, callers[place::PROCESSES])
    patience = callers[-1].came + _PATIENCE_SECONDS
    return [turn for place in range(PROCESSES) for turn in crew.answer(place, patience)]


def play(url: str, name: str, start: float, callers: Sequence[Caller]) -> list[Turn]:
    """Play some callers in this process."""
    with Client(url, ttl=30.0) as client, ThreadPoolExecutor(_THREADS) as threads:
        lock = client.lock(name)

        def call(came: float, held: float) -> Turn:
            lease = lock.acquire()
            got = time.monotonic()
            time.sleep(held)
            released = time.monotonic()
            lease.release()
            return Turn(came, got, released)

        client.inspect(name, limit=0)  # opens a connection, which is not measured
        found = []
        for caller in callers:
            time.sleep(max(0.0, start + caller.came - time.monotonic()))
            found.append(threads.submit(call, time.monotonic(), caller.held))
        return [each.result() for each in found]
