"""The benchmark for users: it measures, it says what the figures mean, and it leaves nothing behind."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

import fencelock
from fencelock.cli.bench.expect import expectations, rough, short_duration, shortest_ttl, warnings
from fencelock.cli.bench.figures import (
    Figure,
    Turn,
    durations,
    hand_offs,
    overlaps,
    turns_of,
    waiting,
)
from fencelock.cli.bench.worker import Samples
from tests.cli.conftest import Cli, Started, gone
from tests.cli.terminals import on_a_terminal
from tests.effort import only_in_soaks
from tests.servers import RedisFactory
from tests.waiting import eventually

KEYS = ["look", "pair", "hand-off", "turns-2", "turns-8", "processes", "tasks", "renewals"]
OURS = "fencelock-bench-*"
SECRET = "geheim"


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [pytest.param("redlock", marks=only_in_soaks), "postgresql+advisory"]
)
def test_engines_that_are_different(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One without a queue, and one whose locks are connections."""
    url = request.getfixturevalue(f"{scheme.partition('+')[0]}_url")
    with ExitStack() as running:
        cli = Cli(url.replace("postgresql:", f"{scheme}:"), tmp_path, running)
        figures_of(cli)


@pytest.mark.parametrize(
    "url", ["redis"], indirect=True
)  # the file is measured on a terminal, below
def test_for_programs(cli: Cli, client: fencelock.Client) -> None:
    figures_of(cli)
    assert client.names(OURS) == []


def figures_of(cli: Cli) -> None:
    """A run that is too short for figures to be trusted, but not for them to be there."""
    ended = cli("bench", "--seconds", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    measured = {each["key"]: each for each in found["figures"]}
    # On a machine that stalls, it may be that none of two processes ever had to wait for the other.
    assert {*measured, "hand-off"} == set(KEYS)
    for figure in measured.values():
        assert figure["total"] > 0 or figure["key"].startswith("turns")
        assert 0 <= figure["p50"] <= figure["p99"]
    assert found["engine"].partition(":")[0] == cli.url.partition(":")[0]
    assert (found["shortest_ttl"] is None) == (found["traits"]["heartbeat"] is not None)
    assert all("please report" not in line for line in found["warnings"])
    assert all(line.startswith("fencelock: measuring ") for line in ended.stderr.splitlines())
    planned = cli("plan", "--rate", "9", "--held", "1ms", "--from", "-", input=ended.stdout)
    assert found["engine"] in planned.stdout, planned.stderr


@pytest.mark.slow
def test_on_a_terminal(sqlite_cli: Cli) -> None:
    shown = on_a_terminal(sqlite_cli, "bench", "--seconds", "1")
    assert "━" in shown  # the bar
    assert "acquire and release a free name" in shown
    assert "What to expect" in shown


def start_bench(cli: Cli, client: fencelock.Client) -> Started:
    """One that is in the middle of it: a lock is held."""
    started = cli.start("bench", "--seconds", "16")
    eventually(lambda: client.names(OURS), "the benchmark's first lock")
    assert started.family()
    return started


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(
    redis_server: RedisFactory, tmp_path: Path, signum: signal.Signals
) -> None:
    url = f"redis://:{SECRET}@{redis_server(requirepass=SECRET).address}"
    with ExitStack() as running, fencelock.Client(url) as client:
        started = start_bench(Cli(url, tmp_path, running), client)
        family = started.family()
        assert not [word for each in family for word in each.cmdline() if SECRET in word]
        started.signal(signum)
        killed = signum == signal.SIGKILL
        assert started.wait() == (-signum if killed else 128 + signum)
        assert killed or gone(family)
        eventually(lambda: gone(family), "the end of its workers")
        assert client.names(OURS) == []
        assert "Traceback" not in started.errors()


# --- from samples to figures


def test_what_all_workers_did_together() -> None:
    workers = [Samples([0.0, 1.0], [1.0, 1.5], [], each=10), Samples([0.5], [2.0], [], each=10)]
    figure = durations("x", "what", workers)
    assert figure == Figure("x", "what", total=30, p50=1.0, p99=1.5, per_second=15.0)


def test_turns() -> None:
    ada = Samples(began=[0.0, 1.2], ended=[0.1, 2.5], released=[1.0, 3.0])
    bob = Samples(began=[0.5, 3.5], ended=[1.1, 3.6], released=[2.0, 4.0])
    turns = turns_of([ada, bob])
    assert [turn.worker for turn in turns] == [0, 1, 0, 1]
    assert overlaps(turns) == 0
    assert waiting("x", "what", turns).total == 3
    passed = hand_offs("x", "what", turns)
    assert passed is not None
    assert passed.total == 2  # bob was not there yet when ada left for the last time
    assert [passed.p50, passed.p99] == pytest.approx([0.5, 0.5])


def test_an_overlap_is_seen() -> None:
    assert overlaps([Turn(1.0, 2.0, 0.0, worker=0), Turn(1.9, 3.0, 0.0, worker=1)]) == 1


# --- what they mean

CORRECT = fencelock.Traits(
    "correctness", fencing="a counter", clock="its own", condition="all is well"
)


def figures(pair: float = 0.0002, slow: float = 0.001, look: float = 0.0001) -> dict[str, Figure]:
    found = {key: Figure(key, key, 1000, 0.001, 0.01, 1234.0) for key in KEYS}
    return found | {
        "pair": Figure("pair", "", 1000, pair, slow, 1000.0),
        "look": Figure("look", "", 1000, look, look, 1000.0),
    }


def test_an_engine_without_faults() -> None:
    lines = expectations(CORRECT, figures())
    assert warnings(CORRECT, figures(), 0) == []
    for text in (
        "A free lock costs 200 µs",
        "one name changes hands about 1,200 times a second",
        "in order of arrival",
        "The shortest sensible ttl is 1 s; the default is 30 s.",
        "about 6,200 leases of 30 s",
        "Promise: correctness, as long as all is well.",
        "Fences: a counter.",
    ):
        assert any(text in line for line in lines), text


def test_an_engine_whose_locks_are_connections() -> None:
    sessions = CORRECT._replace(heartbeat=10.0)
    lines = expectations(sessions, figures(slow=100.0))
    assert any("There is no ttl" in line for line in lines)
    assert not any("sensible ttl" in line or "default ttl" in line for line in lines)


@pytest.mark.parametrize(
    ("traits", "measured", "count", "warning"),
    [
        (CORRECT._replace(guarantee="efficiency"), figures(), 0, "for efficiency locks"),
        (CORRECT, figures(look=0.02), 0, "far away, 20.0 ms"),
        (CORRECT, figures(slow=0.02), 0, "one lock in a hundred takes 20.0 ms, 100 times"),
        (CORRECT, figures(pair=1.0, slow=1.1), 0, "Even the default ttl"),
        (CORRECT, figures(), 3, "3 times a process had the lock while another held it"),
    ],
)
def test_warnings(
    traits: fencelock.Traits, measured: dict[str, Figure], count: int, warning: str
) -> None:
    (line,) = warnings(traits, measured, count)
    assert warning in line


def test_the_ttl_grows_with_the_slowest_answers() -> None:
    assert shortest_ttl(figures(slow=0.2)) == 6.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 µs"),
        (8.5e-5, "85.0 µs"),
        (0.00123, "1.23 ms"),
        (0.1234, "123 ms"),
        (3.4, "3.40 s"),
    ],
)
def test_short_times(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, ""), (0.25, "0.2"), (14.2, "14"), (7273.0, "7,300"), (151e3, "150,000")],
)
def test_rough_numbers(number: float | None, text: str) -> None:
    assert rough(number) == text
