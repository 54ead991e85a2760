"""The command line of `./bench`: runs scenarios, and prints each table when it is ready."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import time
from pathlib import Path

import benchmarks.scenarios  # noqa: F401 - registers them
from benchmarks.report.facts import facts, headline
from benchmarks.report.folder import write
from benchmarks.report.results import disagreements
from benchmarks.report.tables import HEADER, notes, rows
from benchmarks.rounds import Table
from benchmarks.setting import SCENARIOS, Missing, Setting


def main() -> int:
    arguments = _arguments()
    if arguments.compare:
        return _compare(*arguments.compare)
    # As with Ctrl-C: stop everything that was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.getLogger().addHandler(logging.NullHandler())  # drop the logs of the libraries
    machine = facts()
    found: dict[str, list[Table]] = {}
    skipped: dict[str, str] = {}
    failed = False
    _say(headline(machine), "", HEADER)
    with Setting(quick=arguments.quick) as setting:
        for name in arguments.only or SCENARIOS:
            start, found[name] = time.monotonic(), []
            try:
                for table in SCENARIOS[name](setting):
                    found[name].append(table)
                    _say(*rows(table))
            except Missing as missing:
                skipped[name] = str(missing)
            except Exception as error:  # the other scenarios still run
                skipped[name] = f"{type(error).__name__}: {error}"
                failed = True
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    _say("", *(f"- {name} was skipped: {reason}" for name, reason in skipped.items()))
    _say(*(note for tables in found.values() for table in tables for note in notes(table)))
    if arguments.report:
        write(arguments.report, machine, found, skipped)
    return 1 if failed else 0


def _compare(one: Path, other: Path) -> int:
    """Print where two runs disagree on who is better."""
    results = [json.loads(path.read_text("utf-8")) for path in (one, other)]
    found = list(disagreements(*results))
    _say(*found, f"{len(found)} disagreements")
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./bench",
        description="Measures Fencelock next to its rivals. A ratio above 1 means that Fencelock is ahead.",
        epilog="scenarios: " + ", ".join(SCENARIOS),
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(SCENARIOS),
        metavar="SCENARIO",
        help="run only this scenario; may be repeated",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="also write report.md, charts and results.json there",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs=2,
        metavar="RESULTS",
        help="measure nothing: print where two results.json disagree on who is better",
    )
    return parser.parse_args()


def _say(*lines: str) -> None:
    if lines:
        print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
