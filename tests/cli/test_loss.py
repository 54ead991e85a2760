"""The command is stopped before its lease ends, whatever takes the lease away."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

import fencelock
from fencelock.io.clock import now
from tests.cli import subject
from tests.cli.conftest import WAITS, Cli, gone, nothing_left
from tests.cli.test_signals import ROLES, start_subject
from tests.servers import RedisFactory
from tests.waiting import eventually

TERMINATED = ["child SIGTERM", "parent SIGTERM"]


@pytest.mark.parametrize("deaf", [(), ("child",), ROLES])
def test_the_lock_is_broken(
    cli: Cli, client: fencelock.Client, name: str, tmp_path: Path, deaf: Sequence[str]
) -> None:
    started = start_subject(cli, name, tmp_path, "--ttl", "3", "--grace", "1.4", deaf=deaf)
    family = started.family()
    broken_at = now()
    assert client.break_lock(name)
    assert sorted([started.line(), started.line()]) == TERMINATED
    if deaf:  # SIGKILL follows, but not before the grace has passed
        eventually(lambda: gone(family), "the command's end")
        assert subject.last_beat(tmp_path) > broken_at + 0.9
    assert started.wait() == 119
    assert gone(family)
    errors = started.errors()
    assert "the lease is lost: stopping the command" in errors
    assert "Traceback" not in errors
    assert nothing_left(client, name)


@pytest.mark.parametrize(("code", "expected"), [(0, 119), (5, 5)])
def test_the_command_ends_after_the_lock_was_broken(
    cli: Cli, client: fencelock.Client, name: str, code: int, expected: int
) -> None:
    """It was not protected to its end: that is no success. But its own error says more."""
    started = cli.start("run", name, "--", "sh", "-c", f"echo started; read _; exit {code}")
    assert started.line() == "started"
    assert client.break_lock(name)
    started.hang_up()
    assert started.wait() == expected
    assert f"the lease on {name!r}" in started.errors()


@pytest.mark.slow
def test_redis_freezes(
    sqlite_cli: Cli, redis_server: RedisFactory, name: str, tmp_path: Path
) -> None:
    server = redis_server()
    sqlite_cli.environment["FENCELOCK_URL"] = server.url
    started = start_subject(sqlite_cli, name, tmp_path, "--ttl", "6", "--grace", "1.5", deaf=ROLES)
    family = started.family()
    server.freeze()
    frozen_at = now()
    assert sorted([started.line(), started.line()]) == TERMINATED
    eventually(lambda: gone(family[1:]), "the command's end")
    assert subject.last_beat(tmp_path) < frozen_at + 6
    server.thaw()
    assert started.wait() == 119
    assert "the lease could not be renewed and is about to end" in started.errors()
    with fencelock.Client(server.url) as client:
        assert nothing_left(client, name)


@pytest.mark.slow
def test_the_file_is_locked_by_someone_else(sqlite_cli: Cli, tmp_path: Path) -> None:
    started = start_subject(sqlite_cli, "x", tmp_path, "--ttl", "6", "--grace", "1.5", deaf=ROLES)
    family = started.family()
    other = apsw.Connection(sqlite_cli.url.removeprefix("sqlite:///"))
    other.set_busy_timeout(10_000)
    other.execute("BEGIN IMMEDIATE")
    locked_at = now()
    assert sorted([started.line(), started.line()]) == TERMINATED
    eventually(lambda: gone(family[1:]), "the command's end")
    assert subject.last_beat(tmp_path) < locked_at + 6
    other.execute("ROLLBACK")
    assert started.wait() == 119
    assert "the lease could not be renewed and is about to end" in started.errors()


@pytest.mark.slow
def test_the_engine_comes_back_in_time(
    sqlite_cli: Cli, redis_server: RedisFactory, name: str, tmp_path: Path
) -> None:
    server = redis_server()
    sqlite_cli.environment["FENCELOCK_URL"] = server.url
    started = start_subject(sqlite_cli, name, tmp_path, "--ttl", "9", "--grace", "0.1")
    server.freeze()
    frozen_at = now()
    assert started.process.stderr is not None
    assert "could not renew" in started.process.stderr.readline()
    server.thaw()
    eventually(lambda: subject.last_beat(tmp_path) > frozen_at + 9, "a second lease")
    started.signal(signal.SIGTERM)
    assert started.wait() == 3


def test_the_engine_is_gone_when_the_command_ends(
    sqlite_cli: Cli, redis_server: RedisFactory, name: str
) -> None:
    """The work was protected to its end: the lease is good for some time yet."""
    server = redis_server()
    sqlite_cli.environment["FENCELOCK_URL"] = server.url
    started = sqlite_cli.start("run", name, "--", *WAITS)
    assert started.line() == "started"
    server.kill()
    started.hang_up()
    assert started.wait() == 1
    assert (
        f"could not release {name!r}, it stays locked until its ttl has passed: "
        in started.errors()
    )
