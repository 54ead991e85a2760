"""Runs items, each for its share of the time, and reports the results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.freezer import best_freezer, stalls
from tests.soak.items import HANGS_SECONDS, Item

ROOT = Path(__file__).parents[2]
LOGS = ROOT / ".venv" / "soak"
GRACE_SECONDS = HANGS_SECONDS + 300.0
"""Extra time of an item before it counts as hanging, in seconds: servers have to start and stop."""
WORTHWHILE_SECONDS = 5.0
"""Shortest run of an item, in seconds. With less time left, the item does not run again."""


@dataclass
class Row:
    """The results of an item so far."""

    item: Item
    runs: int = 0
    seconds: float = 0.0
    stalls: list[float] = field(default_factory=list)
    failures: list[tuple[str, str, Path]] = field(default_factory=list)
    """Each failure: what failed, the command that repeats it, and the file with its output."""


class Runner:
    def __init__(self, *, stalling: bool = False, seed: int | None = None) -> None:
        self._stalling = stalling
        self._seed = random.randrange(2**31) if seed is None else seed
        self._logs: Path | None = None

    def run(self, items: Sequence[Item], seconds: float) -> list[Row]:
        """Run the items one after the other, each for its share of the time and at least once."""
        whole = sum(item.weight for item in items)
        rows = []
        for item in items:
            rows.append(self._repeat(item, seconds * item.weight / whole))
            say(f"{item.title}: {rows[-1].runs} runs, {len(rows[-1].failures)} failures")
        return rows

    def _repeat(self, item: Item, seconds: float) -> Row:
        row, begun = Row(item), time.monotonic()
        left = seconds
        while not row.runs or left >= WORTHWHILE_SECONDS:
            before = row.runs
            self._once(row, max(left, WORTHWHILE_SECONDS))
            self._seed += 1_000_000  # enough room for a range of seeds
            row.seconds = time.monotonic() - begun
            left = seconds - row.seconds
            if row.runs == before:
                break
        return row

    def _once(self, row: Row, seconds: float) -> None:
        item, seed = row.item, self._seed
        with tempfile.NamedTemporaryFile("w+", prefix="soak-", suffix=".log") as log:
            status = self._execute(row, item.command(seconds, seed), seconds, log.fileno())
            output = Path(log.name).read_text(errors="replace")
        if status is None:
            found = [(f"hung for {GRACE_SECONDS:.0f} s", item.repeated(seconds, seed))]
            row.runs += 1
        else:
            runs, found = item.result(output, status, seconds, seed)
            row.runs += runs
            if not runs and not found:
                found = [("nothing was run", item.repeated(seconds, seed))]
        if found:
            path = self._keep(output)
            row.failures += [(what, again, path) for what, again in found]

    def _execute(self, row: Row, command: list[str], seconds: float, log: int) -> int | None:
        """Run the command to its end, and return its status. Returns None if it hung and was killed."""
        with ExitStack() as cleanup:
            freezer = best_freezer() if self._stalling else None
            if freezer:
                cleanup.callback(freezer.close)
            environment = os.environ if self._stalling else {**os.environ, "FENCELOCK_SOAK": "1"}
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=(lambda: freezer.adopt(os.getpid())) if freezer else None,
            )
            cleanup.callback(_end, process)
            if freezer:
                cleanup.enter_context(stalls(freezer, process.pid, self._seed, row.stalls))
            try:
                return process.wait(seconds + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                return None

    def _keep(self, output: str) -> Path:
        if self._logs is None:
            LOGS.mkdir(exist_ok=True)
            self._logs = Path(tempfile.mkdtemp(dir=LOGS))
        path = self._logs / f"{len(list(self._logs.iterdir()))}.log"
        path.write_text(output)
        return path


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # its own process group; its servers die with it
        process.wait()


def table(rows: Iterable[Row]) -> str:
    """One line per item, then each failure with the command that repeats it."""
    rows = list(rows)
    width = max(len(row.item.title) for row in rows)
    lines = [f"{'what':<{width}}  {'runs':>7}  {'failures':>8}  {'seconds':>7}"]
    for row in rows:
        stalled = f"  {len(row.stalls)} stalls" if row.stalls else ""
        lines.append(
            f"{row.item.title:<{width}}  {row.runs:>7}  {len(row.failures):>8}"
            f"  {row.seconds:>7.0f}{stalled}"
        )
    for row in rows:
        for what, again, log in row.failures:
            lines += [
                "",
                f"FAILED {row.item.title}: {what}",
                f"  repeat: {again}",
                f"  output: {log}",
            ]
    return "\n".join(lines)


def say(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)
