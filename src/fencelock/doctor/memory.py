"""What to check at the memory engine."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, whole_setup


@whole_setup(
    "processes",
    why="Other processes have a memory of their own, and so locks of their own.",
    mend="use sqlite:// for the processes of one machine",
)
def processes(setup: Setup) -> Finding:
    return advice("only this process sees these locks")


RULES = (processes, common.hand_over)
