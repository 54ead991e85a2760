"""Bugs that are planted in real workers on real engines: torture must find each of them.

The workers are programs of their own in `planted/`. They change the library from outside.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.real.tortured import tortured

ATTEMPTS = 8
"""How often the bug may go unnoticed; each attempt takes some seconds, and mostly the first is enough."""


@pytest.mark.parametrize(
    ("program", "primitive", "fault", "promises"),
    [
        # Not a lock with a guard: that takes the lock again, above the newest fence that the storage knows.
        ("falling_fence", "election", "stop", {"fences_grow"}),
        ("early_guard", "lock", "late-write", {"no_lost_update", "no_stale_write"}),
        ("lonely_waiter", "lock", "stop", {"order"}),
        ("careless_release", "lock", "stop", {"exclusion"}),
    ],
)
def test_a_planted_bug_is_found(
    redis_url: str, tmp_path: Path, program: str, primitive: str, fault: str, promises: set[str]
) -> None:
    found: set[str] = set()
    for attempt in range(ATTEMPTS):
        judgements = tortured(
            redis_url,
            tmp_path / str(attempt),
            faults=[fault],
            primitive=primitive,
            program=f"tests.torture.real.planted.{program}",
        ).judgements
        found |= {each.promise.id for each in judgements if each.verdict == "broken"}
        if found & promises:
            return
    pytest.fail(f"not found in {ATTEMPTS} runs; broken instead: {found or 'nothing'}")
