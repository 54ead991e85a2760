"""The file of `fencelock run --metrics`, for the textfile collector of Prometheus's node_exporter.

It says what the last run was like. Its counters go on from run to run: they are what the old file says, and
what this run adds. docs/decisions/0018-a-file-per-cron-job.md says why.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from time import sleep, time
from typing import get_args

from fencelock.cli.exits import Ending, Outcome
from fencelock.cli.messages import say
from fencelock.io.clock import now
from fencelock.observe import families
from fencelock.observe.cells import Counted, Labels
from fencelock.observe.families import Family
from fencelock.observe.tally import Tally


def _gauge(name: str, help: str, *labels: str) -> Family:
    return Family(f"fencelock_run_{name}", "gauge", help, labels)


START = _gauge("start_timestamp_seconds", "When the last run began.")
END = _gauge("end_timestamp_seconds", "When the last run ended.")
LAST_SUCCESS = _gauge(
    "last_success_timestamp_seconds",
    "When a run last ended with success on this machine. 0: never yet.",
)
DURATION = _gauge("duration_seconds", "How long the last run took, with its wait for the lock.")
WAIT = _gauge("wait_seconds", "How long the last run waited for the lock.")
HELD = _gauge("held_seconds", "How long the last run held the lock.")
EXIT_CODE = _gauge("exit_code", "The exit code of the last run.")
OUTCOME = _gauge(
    "outcome", "How the last run ended: 1 for its outcome, 0 for the others.", "outcome"
)
RUNS = Family("fencelock_runs_total", "counter", "Runs, by how they ended.", ("outcome",))

ADDED_UP = (families.LEASES_LOST, families.ABANDONED, families.PAUSES, families.PAUSED)
"""The counters of events that make sense for a program with one lease."""

LONGEST_FILE = 1_000_000
"""The longest old file that is read, in bytes. Ours has about 5,000."""

PATIENCE = 1.0
"""How many seconds a run waits for another one that writes in the same folder."""


class Report:
    """Watches one run, and writes the file at its end."""

    def __init__(self, path: Path) -> None:
        self.tally = Tally()
        """The observer that counts what happens to the lock."""
        self._path = path
        self._began_at, self._began = time(), now()

    def write(self, ending: Ending) -> None:
        """Replace the file. A run is what it was without a file, so a failure is only said."""
        ended_at, duration = time(), now() - self._began
        counted = {each.family: each for each in self.tally.counted()}
        figures: dict[Family, float] = {
            START: self._began_at,
            END: ended_at,
            DURATION: duration,
            WAIT: _sum(counted[families.ACQUIRE_WAIT]),
            HELD: _sum(counted[families.LEASE_HELD]),
            EXIT_CODE: ending.code,
        }
        outcomes: dict[Labels, float] = {
            (each,): float(each == ending.outcome) for each in get_args(Outcome)
        }
        numbers: dict[Family, dict[Labels, float]] = {
            **{family: {(): value} for family, value in figures.items()},
            **dict.fromkeys((OUTCOME, RUNS), outcomes),
            **{family: counted[family].numbers for family in ADDED_UP},
        }
        group = self._path.stem
        success = _series(LAST_SUCCESS, (), group)
        try:
            with _alone_in(self._path.parent):
                old = _read(self._path, success)
                succeeded_at = ended_at if ending.outcome == "success" else old.get(success, 0.0)
                numbers[LAST_SUCCESS] = {(): succeeded_at}
                _replace(self._path, "".join(_lines(numbers, group, old)))
        except OSError as error:
            say(f"could not write the metrics to {str(self._path)!r}: {error.strerror or error}")


def _sum(counted: Counted) -> float:
    """The sum of all values in a histogram."""
    return sum(each.sum for each in counted.distributions.values())


def _lines(
    numbers: dict[Family, dict[Labels, float]], group: str, old: dict[str, float]
) -> Iterator[str]:
    """The lines of the file. Counters go on from their old values."""
    for family, values in numbers.items():
        if values:
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
        for labels, value in values.items():
            series = _series(family, labels, group)
            before = old.get(series, 0.0) if family.type == "counter" else 0.0
            yield f"{series} {before + value!r}\n"


def _series(family: Family, labels: Labels, group: str) -> str:
    """A metric with its labels, as it stands in the file. All have a group: it tells the files apart."""
    pairs = {**dict(zip(family.labels, labels, strict=True)), "group": group}
    shown = [f'{label}="{_escaped(text)}"' for label, text in pairs.items()]
    return f"{family.name}{{{','.join(shown)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _read(path: Path, needed: str) -> dict[str, float]:
    """The values in the old file, by series. If `needed` is not there, the file is not ours."""
    values = {}
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE)
        for line in content.decode().splitlines():
            if not line.startswith("#"):
                series, _, number = line.rpartition(" ")
                values[series] = float(number)
        if needed not in values or not all(
            isfinite(each) and each >= 0 for each in values.values()
        ):
            raise ValueError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        say(
            f"warning: the old {str(path)!r} can't be read, or `fencelock run` did not write it: the last "
            "success and the counters in the new one start from 0"
        )
        return {}
    return values


def _replace(path: Path, text: str) -> None:
    """Write a file so that its readers see the old one or the new one, and nothing else."""
    # Its name does not end in .prom, so the collector does not read it.
    temporary = path.with_name(f".fencelock-{secrets.token_hex(8)}.tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(file, "w", encoding="utf-8") as writing:
            writing.write(text)
            writing.flush()
            os.fsync(file)  # else a crash of the machine may leave an empty file
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs from replacing a file in this folder, so that no success and no count is forgotten.

    A run that is stopped in the middle of this must not stop others, so they go on after some time.
    """
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:  # it may still be possible to write a file there
        yield
        return
    try:
        patience_ends = now() + PATIENCE
        while not _locked(opened) and now() < patience_ends:
            sleep(0.01)
        yield
    finally:
        os.close(opened)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
