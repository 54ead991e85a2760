"""`fencelock run`: what the command gets, what the caller gets back."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

import fencelock
from tests.cli.conftest import WAITS, Cli, nothing_left, waiting

SECRET = re.compile(r"[0-9a-f]{32}")  # what an id looks like


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_commands(
    cli: Cli, client: fencelock.Client, name: str, code: int
) -> None:
    ended = cli("run", name, "--", "sh", "-c", f"exit {code}")
    assert (ended.returncode, ended.stderr) == (code, "")
    assert nothing_left(client, name)


def test_a_command_that_ended_by_a_signal(sqlite_cli: Cli) -> None:
    assert sqlite_cli("run", "x", "--", "sh", "-c", "kill -KILL $$").returncode == 128 + 9


def test_stdin_stdout_and_stderr_are_the_commands(cli: Cli, name: str) -> None:
    ended = cli("run", name, "--", "sh", "-c", "cat; echo oops >&2", input="hello\n")
    assert (ended.stdout, ended.stderr) == ("hello\n", "oops\n")


def test_there_is_no_shell_between(sqlite_cli: Cli) -> None:
    ended = sqlite_cli("run", "x", "--", "printf", "<%s>", "$HOME", "a  b", "*", "-n", "--")
    assert ended.stdout == "<$HOME><a  b><*><-n><-->"


def test_the_environment(cli: Cli, client: fencelock.Client, name: str) -> None:
    ended = cli("run", name, "--label", "nightly", "--", "env", FENCELOCK_ABANDONED="1")
    seen = dict(line.split("=", 1) for line in ended.stdout.splitlines())
    assert int(seen["FENCELOCK_FENCE"]) == client.inspect(name).fence > 0
    assert seen["FENCELOCK_NAME"] == name
    assert re.fullmatch(r"nightly \(pid \d+ on \S+\)", seen["FENCELOCK_OWNER"])
    assert "FENCELOCK_ABANDONED" not in seen, "the variable of an outer command shows through"
    assert not [value for key, value in seen.items() if "FENCELOCK" in key and SECRET.search(value)]


def test_an_abandoned_lock(cli: Cli, client: fencelock.Client, name: str) -> None:
    _ = client.lock(name).acquire()
    assert client.break_lock(name)
    ended = cli("run", name, "--", "sh", "-c", "echo $FENCELOCK_ABANDONED")
    assert ended.stdout == "1\n"
    assert ended.stderr == (
        f"fencelock: warning: the previous holder of {name!r} did not release it: "
        "its work may be half done\n"
    )
    assert cli("run", name, "--", "sh", "-c", "echo $FENCELOCK_ABANDONED").stdout == "\n"


def test_one_after_the_other(cli: Cli, client: fencelock.Client, name: str) -> None:
    first = cli.start("run", name, "--", *WAITS)
    assert first.line() == "started"
    second = cli.start("run", name, "--", "sh", "-c", "echo $FENCELOCK_FENCE")
    waiting(client, name, 1)
    fence = client.inspect(name).holders[0].fence
    first.hang_up()
    assert first.wait() == 1  # read at the end of its input
    assert int(second.line()) > fence
    assert second.wait() == 0
    assert nothing_left(client, name)


def test_not_free(cli: Cli, client: fencelock.Client, name: str) -> None:
    with client.lock(name) as lease:
        ended = cli("run", name, "-n", "--", "echo", "ran")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"fencelock: {name!r} is not free: held by the test (pid ")
        assert f"fence {lease.fence}" in ended.stderr

        ended = cli("run", name, "--nonblock", "-q", "-E", "0", "--", "echo", "ran")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert client.inspect(name).waiting == 0


def test_not_free_in_time(cli: Cli, client: fencelock.Client, name: str) -> None:
    with client.lock(name):
        ended = cli("run", name, "-w", "0.3", "-E", "42", "--", "echo", "ran")
        assert (ended.returncode, ended.stdout) == (42, "")
        assert ended.stderr.startswith(f"fencelock: could not get {name!r} within 0.3 s: held by ")
        assert client.inspect(name).waiting == 0


def test_not_found_and_not_executable(
    cli: Cli, client: fencelock.Client, name: str, tmp_path: Path
) -> None:
    ended = cli("run", name, "--", "no-such-command")
    assert ended.returncode == 127
    assert ended.stderr == "fencelock: cannot run 'no-such-command': No such file or directory\n"

    script = tmp_path / "script"
    script.write_text("exit 0")
    ended = cli("run", name, "--", str(script))
    assert ended.returncode == 126
    assert ended.stderr == f"fencelock: cannot run {str(script)!r}: Permission denied\n"

    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    ended = cli("run", name, "--", str(script))
    assert ended.returncode == 126
    assert ended.stderr == f"fencelock: cannot run {str(script)!r}: Exec format error\n"
    assert nothing_left(client, name)


def test_who_it_is_in_listings(cli: Cli, client: fencelock.Client, name: str) -> None:
    started = cli.start("run", name, "--", *WAITS)
    assert started.line() == "started"
    owner = client.inspect(name).holders[0].owner
    assert (owner.label, owner.pid) == ("sh", started.pid)


@pytest.mark.parametrize("place", ["before", "after", "environment", "both"])
def test_where_the_url_is_given(sqlite_cli: Cli, tmp_path: Path, place: str) -> None:
    path = tmp_path / "chosen.db"
    url, wrong = f"sqlite:///{path}", "redis://:wrong@127.0.0.1:1"
    command = ("x", "--", "true")
    if place == "before":
        ended = sqlite_cli("--url", url, "run", *command, FENCELOCK_URL=wrong)
    elif place == "after":
        ended = sqlite_cli("run", "--url", url, *command, FENCELOCK_URL=wrong)
    elif place == "both":
        ended = sqlite_cli("--url", wrong, "run", "--url", url, *command)
    else:
        ended = sqlite_cli("run", *command, FENCELOCK_URL=url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert path.exists()


def test_the_default_is_a_file_in_the_state_folder(sqlite_cli: Cli, tmp_path: Path) -> None:
    assert sqlite_cli("run", "x", "--", "true", FENCELOCK_URL="").returncode == 0
    assert (tmp_path / "fencelock" / "locks.db").exists()


def test_once_per_period(sqlite_cli: Cli) -> None:
    failing = sqlite_cli("run", "x", "--once-per", "1h", "--", "false")
    assert failing.returncode == 1
    first = sqlite_cli("run", "x", "--once-per", "1h", "--", "echo", "ran")
    assert (first.returncode, first.stdout, first.stderr) == (0, "ran\n", "")
    again = sqlite_cli("run", "x", "--once-per", "1h", "--", "echo", "ran")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == "fencelock: 'x' has run within the last 3600 s: nothing to do\n"
    assert sqlite_cli("run", "x", "-q", "--once-per", "1h", "--", "echo").stderr == ""
    with fencelock.Client(sqlite_cli.url) as client:
        assert nothing_left(client, "x")


def test_once_per_period_does_not_wait(sqlite_cli: Cli) -> None:
    with fencelock.Client(sqlite_cli.url) as client, client.lock("x"):
        busy = sqlite_cli("run", "x", "--once-per", "15m", "--", "echo", "ran")
    assert (busy.returncode, busy.stdout) == (0, "")
    assert "is not free" in busy.stderr
    for wrong in ("x", "1y", "-1h", "0", "nan", "inf"):
        refused = sqlite_cli("run", "x", f"--once-per={wrong}", "--", "true")
        assert refused.returncode == 64, wrong
        assert "--once-per" in refused.stderr
    assert sqlite_cli("run", "x", "-n", "--once-per", "1h", "--", "true").returncode == 64
