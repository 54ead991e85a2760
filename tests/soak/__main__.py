"""The command: `./soak` calls it."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.soak.items import ENGINES, items, stalled
from tests.soak.runner import Runner, say, table


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    # As for Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = (
        stalled(arguments.engine, arguments.tests) if arguments.stall else items(arguments.engine)
    )
    say(f"{len(chosen)} items in {arguments.minutes:g} minutes")
    rows = Runner(stalling=arguments.stall, seed=arguments.seed).run(chosen, 60 * arguments.minutes)
    print(table(rows))
    return 1 if any(row.failures for row in rows) else 0


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./soak",
        description="Runs for long what ./test runs briefly; CONTRIBUTING.md says more.",
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="for all of it (default: 30)")
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        choices=ENGINES,
        help="only what is about it; may be repeated",
    )
    parser.add_argument(
        "--stall", action="store_true", help="the suite itself, frozen now and then for up to 1.6 s"
    )
    parser.add_argument("--seed", type=int, help="as a failure has said, to repeat it")
    parser.add_argument("tests", nargs="*", help="with --stall: only these tests, again and again")
    arguments = parser.parse_args(words)
    if arguments.tests and not arguments.stall:
        parser.error("tests can be chosen with --stall only; pytest runs them without")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
