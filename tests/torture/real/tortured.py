"""A short torture, for tests: its processes are forked, so that they start quickly."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import IO, Any, NamedTuple

from fencelock.torture.real.judge import Judgement, judge
from fencelock.torture.real.own import OwnEngine
from fencelock.torture.real.plan import Plan
from fencelock.torture.real.run import Outcome, torture
from fencelock.torture.real.stage import PROGRAM
from tests.spawning import Spawned


class Tortured(NamedTuple):
    outcome: Outcome
    judgements: list[Judgement]

    def verdicts(self) -> dict[str, str]:
        """The verdict of each promise, and why if it is not "held"."""
        return {
            each.promise.id: each.verdict
            if each.verdict == "held"
            else f"{each.verdict}: {each.detail}"
            for each in self.judgements
        }


def start_forked(program: str, stdin: IO[str]) -> Spawned:
    return Spawned(program, stdin=stdin)


def tortured(
    url: str,
    folder: Path,
    *,
    own: OwnEngine | None = None,
    program: str = PROGRAM,
    seconds: float = 5.0,
    **options: Any,
) -> Tortured:
    """Torture an engine for some seconds, with numbers in a file, and judge it."""
    journals = folder / "journals"
    journals.mkdir(parents=True)
    plan = Plan(
        run=secrets.token_hex(4),
        prefix=f"torture-{secrets.token_hex(4)}",  # other tests use this server at the same time
        storage=f"sqlite:///{folder}/numbers.db",
        seed=secrets.randbits(32),
        seconds=seconds,
        ttl=options.pop("ttl", 1.0),
        processes=options.pop("processes", 6),
        **options,
    )
    outcome = torture(plan, url, journals, own=own, program=program, start=start_forked)
    return Tortured(outcome, judge(outcome.history))
