"""The table of docs/torture.md: each engine with each fault, for a minute each.

    python -m tests.torture.real.table --seconds 60 --jobs 4

prints it as Markdown when all is done. Its status is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from fencelock.torture.real.faults import KINDS
from fencelock.torture.real.own import ENGINES

HEAD = [
    *("engine", "fault", "times", "acknowledged", "stored", "refused", "lost without a guard"),
    *("longest time without progress", "verdict"),
]


class Cell(NamedTuple):
    engine: str
    fault: str
    status: int
    verdict: dict[str, Any]
    said: str

    def row(self) -> list[str]:
        if not self.verdict:
            return [self.engine, self.fault, self.why()]
        facts = self.verdict
        times = sum(each["times"] for each in facts["faults"].values())
        figures = [
            times,
            *(facts[key] for key in ("acknowledged", "stored", "refused", "bare_lost")),
        ]
        idle = f"{facts['longest_idle']:.1f} s"
        return [self.engine, self.fault, *map(str, figures), idle, facts["verdict"]]

    def why(self) -> str:
        """Why a fault is not possible: the part of the message that says it."""
        return self.said.strip().rpartition("(")[2].partition(": ")[2].rstrip(")")


def tortured(engine: str, fault: str, seconds: float) -> Cell:
    if fault == "stop":
        seconds *= (
            2  # only a holder that does not look at its lease, and is stopped for long, is refused
        )
    words = ["--self", engine, "--faults", fault, "--seconds", f"{seconds:g}", "--json"]
    command = [sys.executable, "-m", "fencelock", "torture", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    verdict = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    cell = Cell(engine, fault, done.returncode, verdict, done.stderr)
    print(" ".join(cell.row()), file=sys.stderr, flush=True)
    if verdict.get("verdict") == "broken":
        print(verdict, file=sys.stderr, flush=True)
    return cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--fault", choices=KINDS, action="append")
    given = parser.parse_args()
    faults = given.fault or [kind for kind in KINDS if kind != "command"]
    with ThreadPoolExecutor(given.jobs) as pool:
        cells = list(
            pool.map(
                lambda pair: tortured(pair[0], pair[1], given.seconds),
                [(engine, fault) for engine in given.engine or ENGINES for fault in faults],
            )
        )
    print(f"| {' | '.join(HEAD)} |\n|---|---|{'--:|' * (len(HEAD) - 3)}---|")
    impossible: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.verdict:
            print(f"| {' | '.join(cell.row())} |")
        else:
            impossible.setdefault((cell.engine, cell.why()), []).append(cell.fault)
    print()
    for (engine, why), kinds in impossible.items():
        print(
            f"- Not possible with {engine}, because {why}: {', '.join(f'`{kind}`' for kind in kinds)}."
        )
    return 1 if any(cell.verdict.get("verdict") == "broken" for cell in cells) else 0


if __name__ == "__main__":
    sys.exit(main())
