"""The command: run scenarios, print tables as they are ready."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import benchmarks.scenarios  # noqa: F401 - registers them
from benchmarks.report import HEADER, as_json, machine, notes, rows
from benchmarks.rounds import Table
from benchmarks.setting import SCENARIOS, Setting


def main() -> None:
    arguments = _arguments()
    # As for Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found: dict[str, list[Table]] = {}
    with Setting(quick=arguments.quick) as setting:
        facts = machine(setting.redis.info("server")["redis_version"])
        _say(_headline(facts), "", HEADER)
        for name in arguments.only or SCENARIOS:
            found[name] = []
            for table in SCENARIOS[name](setting):
                found[name].append(table)
                _say(*rows(table))
    _say("", *(note for tables in found.values() for table in tables for note in notes(table)))
    if arguments.json:
        arguments.json.write_text(as_json(facts, found) + "\n", "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./bench",
        description="Measures Holdfast beside its rivals. A ratio above 1 means: Holdfast is ahead.",
        epilog="scenarios: " + ", ".join(SCENARIOS),
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(SCENARIOS),
        metavar="SCENARIO",
        help="may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all samples there, too")
    return parser.parse_args()


def _headline(facts: dict[str, object]) -> str:
    packages = facts["packages"]
    assert isinstance(packages, dict)
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return (
        f"{facts['cores']} cores, {facts['system']}, Python {facts['python']}, "
        f"redis-server {facts['redis-server']}; {versions}; load before: {facts['load before']}"
    )


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
