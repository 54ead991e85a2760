"""The command line of `./soak`."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.soak.items import ENGINES, items, stalled
from tests.soak.runner import Runner, say, table


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    # As with Ctrl-C: stop everything that was started.
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
        description="Runs for long what ./test runs briefly. CONTRIBUTING.md says more.",
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="total time (default: 30)")
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        choices=ENGINES,
        help="run only the items of this engine; may be repeated",
    )
    parser.add_argument(
        "--stall",
        action="store_true",
        help="run the suite itself, frozen now and then for up to 1.6 s",
    )
    parser.add_argument("--seed", type=int, help="the seed of a failure, to repeat it")
    parser.add_argument("tests", nargs="*", help="with --stall: only these tests, again and again")
    arguments = parser.parse_args(words)
    if arguments.tests and not arguments.stall:
        parser.error("tests can be chosen only with --stall; without it, use pytest")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
