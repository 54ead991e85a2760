"""What goes wrong is one line on stderr, with the right exit code and nobody's password."""

from __future__ import annotations

import click
import pytest

from fencelock.cli.main import cli
from tests.cli.conftest import Cli
from tests.servers import HOST, RedisFactory

LONG = "x" * 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "x"], "The command to run is missing: fencelock run NAME -- COMMAND…"),
        (["run", "x", "ls"], "Got unexpected extra argument (ls)"),
        (["run", "--", "ls"], "Missing argument 'NAME'."),
        (["run", "", "--", "ls"], "a lock's name must not be empty"),
        (["run", LONG, "--", "ls"], "must be at most 512 bytes of UTF-8"),
        (["run", "a\nb", "--", "ls"], "must be printable"),
        (["run", "x", "--ttl", "0", "--", "ls"], "ttl must be between"),
        (["run", "x", "--ttl", "nan", "--", "ls"], "ttl must be between"),
        (["run", "x", "--ttl", "inf", "--", "ls"], "ttl must be between"),
        (
            ["run", "x", "--ttl", "soon", "--", "ls"],
            "'soon' is not a duration: give seconds, or for example 200ms",
        ),
        (["run", "x", "-w", "-1", "--", "ls"], "timeout must be zero or more seconds"),
        (["run", "x", "-w", "nan", "--", "ls"], "timeout must be zero or more seconds"),
        (["run", "x", "-n", "-w", "1", "--", "ls"], "-n does not wait"),
        (["run", "x", "--ttl", "10", "--grace", "5", "--", "ls"], "so less than 5 s here, not 5:"),
        (["run", "x", "--grace", "-1", "--", "ls"], "--grace must be zero or more"),
        (["run", "x", "--grace", "nan", "--", "ls"], "--grace must be zero or more"),
        (["run", "x", "-E", "256", "--", "ls"], "256 is not in the range 0<=x<=255"),
        (["run", "x", "--label", "a\tb", "--", "ls"], "a label must be"),
        (["run", "x", "--frob", "--", "ls"], "No such option '--frob'"),
        (["--url", "locks.db", "ls"], "a lock URL must look like scheme://…"),
        (["--url", "memory://", "ls"], "exist in one process only"),
        (["--url", "memory://", "run", "x", "--", "ls"], "exist in one process only"),
        (["show", ""], "a lock's name must not be empty"),
        (["break", "--yes"], "Missing argument 'NAME'."),
        (["show", "x", "--limit", "-1"], "-1 is not in the range"),
        (["bench", "--seconds", "0"], "it must be between 1 and 300 seconds, not 0"),
        (["bench", "redis://a", "--url", "redis://b"], "The engine was given twice"),
        (["bench", "memory://"], "exist in one process only"),
        (["top", "redis://a", "--url", "redis://b"], "The engine was given twice"),
        (["top", "memory://"], "exist in one process only"),
        (["top", "--interval", "0"], "it must be between 0.1 and 3600 seconds, not 0"),
        (["top", "--sort", "size"], "'size' is not one of 'waiting', 'held', 'name'"),
        (["frob"], "No such command 'frob'."),
    ],
)
def test_a_command_line_that_makes_no_sense(
    sqlite_cli: Cli, words: list[str], message: str
) -> None:
    ended = sqlite_cli(*words)
    assert (ended.returncode, ended.stdout) == (64, "")
    assert message in ended.stderr
    assert ended.stderr.startswith("fencelock: ")
    assert ended.stderr.count("\n") == 1


def test_every_duration_may_have_a_unit() -> None:
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in cli.list_commands(context)]
    options = [option for command in commands if command is not None for option in command.params]
    assert len(options) > 50
    plain = {
        option.name for option in options if isinstance(option.type, click.types.FloatParamType)
    }
    assert plain <= {"rate", "zipf", "pairs_per_second"}  # these are no durations


@pytest.mark.parametrize(
    "words",
    [
        ["run", "x", "--", "echo", "ran"],
        ["ls"],
        ["show", "x"],
        ["top"],
        ["break", "x", "-y"],
        ["bench"],
    ],
)
@pytest.mark.parametrize("url", [f"redis://me:geheim@{HOST}:1", "nosuch://me:geheim@x"])
def test_an_engine_that_is_not_there(sqlite_cli: Cli, words: list[str], url: str) -> None:
    ended = sqlite_cli(*words, FENCELOCK_URL=url)
    assert (ended.returncode, ended.stdout) == (69, "")
    assert ended.stderr.startswith("fencelock: ")
    assert ended.stderr.count("\n") == 1
    assert "geheim" not in ended.stderr


@pytest.mark.parametrize("scheme", ["postgresql+advisory", "mysql+getlock"])
def test_a_ttl_that_the_engine_does_not_have(sqlite_cli: Cli, scheme: str) -> None:
    words = ["run", "x", "--ttl", "5", "--", "echo", "ran"]
    ended = sqlite_cli(*words, FENCELOCK_URL=f"{scheme}://me:geheim@{HOST}:1/db")
    assert (ended.returncode, ended.stdout) == (69, "")
    assert "so there is no ttl: leave it out, or use" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_wrong_password_is_not_shown(sqlite_cli: Cli, redis_server: RedisFactory) -> None:
    server = redis_server(requirepass="right")
    ended = sqlite_cli("ls", FENCELOCK_URL=f"redis://:geheim@{server.address}")
    assert (ended.returncode, ended.stdout) == (69, "")
    assert server.address in ended.stderr
    assert "geheim" not in ended.stderr


@pytest.mark.parametrize("command", [None, "run", "ls", "show", "top", "break", "bench", "demo"])
def test_help_shows_an_example(sqlite_cli: Cli, command: str | None) -> None:
    ended = sqlite_cli(*([command] if command else []), "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Examples:\n    fencelock " in ended.stdout


def test_without_a_command_it_says_what_there_is(sqlite_cli: Cli) -> None:
    ended = sqlite_cli()
    assert (ended.returncode, ended.stdout) == (64, "")
    assert "Usage: fencelock" in ended.stderr


def test_the_version(sqlite_cli: Cli) -> None:
    ended = sqlite_cli("--version")
    assert ended.returncode == 0
    assert ended.stdout.startswith("fencelock ")


def test_a_log_of_all_events(cli: Cli) -> None:
    ended = cli("run", "nightly", "--", "true", FENCELOCK_LOG="debug")
    assert ended.returncode == 0
    for words in ("DEBUG fencelock.lease: 'nightly': asked for", "released after", "enter at"):
        assert words in ended.stderr
    assert "fencelock: " not in ended.stderr.replace("lease: ", "")


def test_a_log_with_a_wrong_level(cli: Cli) -> None:
    ended = cli("ls", FENCELOCK_LOG="loud")
    assert ended.returncode == 64
    assert (
        "FENCELOCK_LOG must be debug, info, warning, error or not set, not 'loud'" in ended.stderr
    )
