"""The command line: `python -m benchmarks.planning measured` or `scale`. Both print tables as Markdown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.planning.measured import measured
from benchmarks.planning.scale import scale


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planning",
        description="Compares the model of `fencelock plan` with what really happens.",
    )
    what = parser.add_subparsers(dest="what", required=True)
    real = what.add_parser("measured", help="real processes on a real Redis and on SQLite")
    real.add_argument(
        "--seconds",
        type=float,
        default=100.0,
        help="of a run in which the lock is in use for half of the time",
    )
    real.add_argument("--engine", action="append", choices=("redis", "sqlite"))
    large = what.add_parser("scale", help="a simulation of many clients on many names")
    large.add_argument("--clients", type=int, default=1_000_000)
    large.add_argument("--into", type=Path, metavar="FOLDER", help="also draw the chart there")
    chosen = parser.parse_args()
    if chosen.what == "measured":
        lines = measured(chosen.engine or ["redis", "sqlite"], chosen.seconds)
    else:
        lines = scale(chosen.clients, chosen.into)
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
