"""Every schedule within small bounds; for each broken variant the shortest way to its harm.

The larger bounds: `python -m fencelock.torture.redlock.explore`. To see what a broken variant does:
`python -m tests.torture.redlock.counterexamples`.
"""

from __future__ import annotations

import pytest

from fencelock.torture.redlock.explore import Explorer, main
from tests.torture.redlock.counterexamples import BROKEN, find


@pytest.mark.parametrize(
    ("again", "losses", "hints"),
    [
        (0, 0, (0,)),
        pytest.param(1, 0, (0,), marks=pytest.mark.slow),
    ],
)
def test_no_schedule_breaks_the_protocol(again: int, losses: int, hints: tuple[int, ...]) -> None:
    found = Explorer((1, 1), again, losses, hints).run()
    assert found.complete
    assert not found.violation, str(found)
    assert found.states > 3_000


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_variant_is_shown_to_do_harm(broken: type[Explorer]) -> None:
    found = find(broken)
    assert "was given" in found.violation
    assert "wins with fence" in found.trail[-1]
    assert found.trail[-1] in str(found)


def test_bounds_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bids", "1", "1"]) == 0
    assert "no violation" in capsys.readouterr().out
