"""What a soak runs. Each item is a command with a seed, and knows how to read the command's output."""

from __future__ import annotations

import re
import shlex
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

ENGINES = ("sqlite", "redis", "redlock", "etcd", "zookeeper", "postgresql", "mysql", "http")
HANGS_SECONDS = 600
"""Time after which a test counts as hanging, in seconds. With many examples a test takes minutes."""

PYTEST = (sys.executable, "-m", "pytest", "-q", "-o", f"faulthandler_timeout={HANGS_SECONDS}")


class Result(NamedTuple):
    """The outcome of one run of an item."""

    runs: int
    failures: list[tuple[str, str]]
    """Each failure: what failed, and the command that repeats it."""


@dataclass(frozen=True)
class Item(ABC):
    title: str
    engine: str | None = None
    """None: not about one engine."""
    weight: float = 1.0
    """Its share of the time, relative to the other items."""

    @abstractmethod
    def command(self, seconds: float, seed: int) -> list[str]:
        """Return the command for a run of about this many seconds. A new seed makes a new run."""

    @abstractmethod
    def result(self, output: str, status: int, seconds: float, seed: int) -> Result:
        """Read the output of a run."""

    def repeated(self, seconds: float, seed: int) -> str:
        """Return the command line that repeats the run."""
        return shown("env", "FENCELOCK_SOAK=1", *self.command(seconds, seed))


@dataclass(frozen=True)
class Soak(Item):
    """A separate program that takes `--seconds`. It has no seed: a seed can't repeat how processes run."""

    module: str = ""
    options: tuple[str, ...] = ()

    def command(self, seconds: float, seed: int) -> list[str]:
        return [sys.executable, "-m", self.module, "--seconds", f"{seconds:.0f}", *self.options]

    def result(self, output: str, status: int, seconds: float, seed: int) -> Result:
        if status == 0:
            return Result(1, [])
        return Result(1, [(last_line(output), self.repeated(seconds, seed))])


@dataclass(frozen=True)
class Simulation(Item):
    """Simulated schedules with new seeds."""

    module: str = ""
    per_second: int = 20
    """How many schedules to ask for per second: fewer than it can do, so that it ends nearly in time."""

    def command(self, seconds: float, seed: int) -> list[str]:
        last = seed + max(1, int(seconds * self.per_second)) - 1
        return [sys.executable, "-m", self.module, "--seeds", f"{seed}-{last}"]

    def result(self, output: str, status: int, seconds: float, seed: int) -> Result:
        done = re.search(r"^(\d+) schedules\b", output, re.MULTILINE)
        seeds = dict.fromkeys(re.findall(r"^seed (\d+):", output, re.MULTILINE))
        failures = [
            (f"seed {one}", shown(sys.executable, "-m", self.module, "--seed", one, "--trace"))
            for one in seeds
        ]
        if status != 0 and not failures:
            failures = [(last_line(output), self.repeated(seconds, seed))]
        return Result(int(done[1]) if done else 0, failures)


@dataclass(frozen=True)
class Torture(Item):
    """`fencelock torture --self`: every fault that is possible with an engine."""

    def command(self, seconds: float, seed: int) -> list[str]:
        words = ["--self", str(self.engine), "--seconds", f"{seconds:.0f}", "--seed", str(seed)]
        return [sys.executable, "-m", "fencelock", "torture", *words]

    def result(self, output: str, status: int, seconds: float, seed: int) -> Result:
        if status in (HELD, NOT_EXERCISED):
            return Result(1, [])
        return Result(1, [(output.partition("\n")[0], self.repeated(seconds, seed))])


@dataclass(frozen=True)
class Suite(Item):
    """Tests of the suite, in a random order, for as long as there is time."""

    paths: tuple[str, ...] = ()
    keyword: str = ""
    workers: int = 4
    hypothesis: bool = field(default=False)

    def command(self, seconds: float, seed: int) -> list[str]:
        words = [
            *PYTEST,
            "-p",
            "tests.soak.plugin",
            f"--soak-seconds={seconds:.0f}",
            f"--soak-seed={seed}",
        ]
        words += ["-n", str(self.workers), *self._seeded(seed)]
        return [*words, *(("-k", self.keyword) if self.keyword else ()), *self.paths]

    def _seeded(self, seed: int) -> list[str]:
        return [f"--hypothesis-seed={seed}"] if self.hypothesis else []

    def result(self, output: str, status: int, seconds: float, seed: int) -> Result:
        failed = dict.fromkeys(FAILED.findall(output))
        failures = [(name, self._repeated_test(name, seed)) for name in failed]
        if status not in (0, NOTHING_RUN) and not failures:
            failures = [(last_line(output), self.repeated(seconds, seed))]
        return Result(
            sum(map(int, re.findall(r"(\d+) (?:passed|failed)", last_line(output)))), failures
        )

    def _repeated_test(self, name: str, seed: int) -> str:
        return shown("env", "FENCELOCK_SOAK=1", *PYTEST, *self._seeded(seed), name)


FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)*(?:\[.*?\](?= - |$))?)", re.MULTILINE)
"""The name of a test in pytest's summary. The text in its brackets may contain anything."""

HELD, NOT_EXERCISED = 0, 2
"""The status of a torture that found nothing broken."""

NOTHING_RUN = 5
"""Pytest's status if it ran no test, because there was no time left."""


@dataclass(frozen=True)
class StalledSuite(Suite):
    """The suite as in `./test`, but all processes are frozen now and then."""

    engines: tuple[str, ...] = ()

    def repeated(self, seconds: float, seed: int) -> str:
        return self._again(seconds, seed, *self.paths)

    def _repeated_test(self, name: str, seed: int) -> str:
        return self._again(120, seed, name)

    def _again(self, seconds: float, seed: int, *paths: str) -> str:
        minutes = f"{seconds / 60:.1f}"
        chosen = [word for engine in self.engines for word in ("--engine", engine)]
        return shown(
            "./soak", "--stall", "--minutes", minutes, *chosen, "--seed", str(seed), "--", *paths
        )


def shown(*words: str) -> str:
    return shlex.join(words)


def last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


# --- the items

HARM = (
    "tests/test_outages.py",
    "tests/test_crowds.py",
    "tests/test_company.py",
    "tests/test_lost_replies.py",
    "tests/conformance/test_loss.py",
    "tests/conformance/test_healing.py",
    "tests/conformance/test_cancellation.py",
    "tests/primitives/test_interruptions.py",
    "tests/engines",
    "tests/doctor",
)
"""Tests that stop, kill and cut holders, servers and connections, or that have many contenders."""

PROPERTIES = (
    "tests/core",
    "tests/test_model.py",
    "tests/engines/sqlite/test_operations.py",
    "tests/engines/redlock/test_protocol.py",
    "tests/engines/redlock/test_scripts.py",
    "tests/engines/zookeeper/test_nodes.py",
    "tests/service/rest/test_openapi.py",
)


def items(engines: list[str]) -> list[Item]:
    """All items, or only the items of some engines."""
    everything = [*_soaks(), *_faults(), *_rest()]
    if not engines:
        return everything
    return [item for item in everything if item.engine in engines]


def _soaks() -> list[Item]:
    guarded = (("sqlite", "sqlite"), ("postgresql", "redis"), ("mysql", "etcd"), ("etcd", "etcd"))
    found: list[Item] = [
        Soak(
            f"{engine}: eight processes, servers die", engine, module=f"tests.engines.{engine}.soak"
        )
        for engine in ("etcd", "zookeeper", "redlock")
    ]
    found += [
        Soak(
            f"{storage}: guarded, holders on {lock} stop",
            storage,
            module="tests.guards.soak",
            options=("--storage", storage, "--lock", lock),
        )
        for storage, lock in guarded
    ]
    found += [
        Soak(
            f"service on {engine}: replicas are killed, stopped and drained",
            engine,
            module="tests.service.soak",
            options=("--engine", engine),
        )
        for engine in ("redis", "sqlite")
    ]
    found += [Torture(f"torture of {engine}", engine) for engine in ENGINES if engine != "http"]
    return found


def _faults() -> list[Item]:
    return [
        Suite(f"{engine}: faults and crowds", engine, 2.0, paths=HARM, keyword=engine)
        for engine in ENGINES
    ]


def _rest() -> list[Item]:
    return [
        Suite("http: all of conformance", "http", 2.0, ("tests/conformance",), "http+"),
        Suite("an engine of another package", paths=("tests/test_thirdparty.py",), weight=0.5),
        Suite("the command line", paths=("tests/cli", "tests/test_examples.py")),
        Suite("properties", paths=PROPERTIES, hypothesis=True, weight=2.0),
        Simulation("simulation", module="fencelock.torture.simulate"),
        Simulation("simulation of bounded leases", module="fencelock.torture.bounded"),
        Simulation("simulation of replicas", "http", module="fencelock.torture.replicas"),
        Simulation(
            "simulation of Redlock",
            "redlock",
            module="fencelock.torture.redlock.simulate",
            per_second=100,
        ),
    ]


def stalled(engines: list[str], paths: list[str]) -> list[Item]:
    """The suite itself, or some of its tests, with stalls."""
    return [
        StalledSuite(
            "the suite, stalled",
            paths=tuple(paths or ["tests"]),
            keyword=" or ".join(engines),
            workers=6,
            engines=tuple(engines),
        )
    ]
