"""`fencelock acquire`, `renew` and `release`, as a script uses them."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

import fencelock
from tests.cli.conftest import Cli, nothing_left
from tests.cli.terminals import command_in
from tests.waiting import PATIENCE


def facts(printed: str) -> dict[str, str]:
    """What a shell would have in its environment after `eval`."""
    export, *words = shlex.split(printed)
    assert export == "export"
    return dict(word.split("=", 1) for word in words)


def in_a_shell(cli: Cli, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script], env=cli.environment, capture_output=True, text=True, timeout=PATIENCE
    )


def test_acquire_renew_release(cli: Cli, client: fencelock.Client, name: str) -> None:
    acquired = cli("acquire", name, "--ttl", "5m")
    assert (acquired.returncode, acquired.stderr) == (0, "")
    environment = facts(acquired.stdout)
    (holder,) = client.inspect(name).holders
    assert environment["FENCELOCK_NAME"] == name
    assert environment["FENCELOCK_FENCE"] == str(holder.fence)
    assert environment["FENCELOCK_TTL"] == "300"
    assert environment["FENCELOCK_ABANDONED"] == ""
    assert 290 < holder.expires_in <= 300
    assert holder.owner.label == "fencelock acquire"

    renewed = cli("renew", name, "--ttl", "10m", "--json", **environment)
    assert json.loads(renewed.stdout)["fence"] == holder.fence
    assert environment["FENCELOCK_ID"] not in renewed.stdout
    (holder,) = client.inspect(name).holders
    assert holder.expires_in > 590

    released = cli("release", name, **environment)
    assert (released.returncode, released.stdout, released.stderr) == (0, "", "")
    assert nothing_left(client, name)


def test_what_is_lost_is_not_taken_again(cli: Cli, client: fencelock.Client, name: str) -> None:
    environment = facts(cli("acquire", name, "--ttl", "5m").stdout)
    client.break_lock(name)
    for command in ("renew", "release"):
        ended = cli(command, name, **environment)
        assert (ended.returncode, ended.stdout) == (119, "")
        assert f"there is no such lease on {name!r}" in ended.stderr
        assert environment["FENCELOCK_ID"] not in ended.stderr
    assert nothing_left(client, name)


def test_a_lock_that_is_taken(sqlite_cli: Cli) -> None:
    sqlite_cli("acquire", "x", "--ttl", "5m")
    ended = sqlite_cli("acquire", "x", "--ttl", "5m", "-n")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "'x' is not free: held by fencelock acquire (pid" in ended.stderr
    ended = sqlite_cli("acquire", "x", "--ttl", "5m", "-w", "0.1", "-E", "7", "-q")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")


def test_the_id_in_a_file(sqlite_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text("of an older lease")
    acquired = sqlite_cli("acquire", "x", "--ttl", "5m", "--id-file", str(file))
    assert "FENCELOCK_ID" not in acquired.stdout
    id = file.read_text().strip()
    assert id not in acquired.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("id*")] == ["id"]
    assert sqlite_cli("renew", "x", "--ttl", "5m", "--id-file", str(file)).returncode == 0
    assert sqlite_cli("release", "x", "--id-file", "-", input=f"{id}\n").returncode == 0
    assert sqlite_cli("show", "x", "-q").returncode == 1


def test_a_shell_script_from_beginning_to_end(sqlite_cli: Cli, tmp_path: Path) -> None:
    script = """
        lease=$(fencelock acquire nightly --ttl 5m) || exit
        eval "$lease"
        fencelock show -q nightly && echo "held, fence $FENCELOCK_FENCE"
        fencelock renew nightly && fencelock release nightly
        fencelock show -q nightly || echo free
        fencelock release nightly || echo "ended with $?"
    """
    command_in(sqlite_cli, tmp_path)
    ended = in_a_shell(sqlite_cli, script)
    held, free, late = ended.stdout.splitlines()
    assert held.startswith("held, fence 1")
    assert (free, late) == ("free", "ended with 119")


def test_what_cannot_be_told_is_not_held(sqlite_cli: Cli, tmp_path: Path) -> None:
    """Nobody could release it."""
    command_in(sqlite_cli, tmp_path)
    for stdout in ("> /dev/full", ">&-"):
        ended = in_a_shell(sqlite_cli, f"fencelock acquire x --ttl 5m {stdout}")
        assert ended.returncode == 69
        assert "so it was released" in ended.stderr
    folder = tmp_path / "a folder"
    folder.mkdir()
    ended = sqlite_cli("acquire", "x", "--ttl", "5m", "--id-file", str(folder))
    assert ended.returncode == 64
    assert "can't write" in ended.stderr
    assert sqlite_cli("show", "-q", "x").returncode == 1


def test_what_cannot_be_printed_is_renewed_all_the_same(sqlite_cli: Cli, tmp_path: Path) -> None:
    """The script still has the id, and goes on."""
    command_in(sqlite_cli, tmp_path)
    script = """
    fencelock acquire x --ttl 5m --id-file id > /dev/null
    fencelock renew x --ttl 10m --id-file id --json > /dev/full
    fencelock release x --id-file id && echo released
    """
    ended = in_a_shell(sqlite_cli, f"cd {shlex.quote(str(tmp_path))}\n{script}")
    assert ended.stdout == "released\n"
    assert "the lease is renewed, but can't be printed" in ended.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["acquire", "x"], "Missing option '--ttl'"),
        (["acquire", "x", "--ttl", "5m", "--id-file", "nowhere/id"], "does not exist"),
        (["acquire", "x", "--ttl", "5m", "--id-file", "-"], "give a file"),
        (["renew", "x", "--ttl", "5m"], "there is no id of a lease"),
        (["release", "x"], "$FENCELOCK_ID"),
        (["release", "x", "--id-file", "missing"], "can't read 'missing'"),
    ],
)
def test_what_is_wrong_with_the_command_line(sqlite_cli: Cli, words: list[str], says: str) -> None:
    ended = sqlite_cli(*words)
    assert ended.returncode == 64
    assert says in ended.stderr


def test_what_is_no_id(sqlite_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x93\xff")
    ended = sqlite_cli("release", "x", "--id-file", str(tmp_path / "picture"))
    assert (ended.returncode, "an id has 32 digits" in ended.stderr) == (64, True)
    ended = sqlite_cli("release", "x", FENCELOCK_ID="secret")
    assert ended.returncode == 64
    assert "an id has 32 digits" in ended.stderr
    assert "secret" not in ended.stderr


def test_an_engine_whose_leases_end_with_the_process(sqlite_cli: Cli) -> None:
    url = "postgresql+advisory://localhost/nothing"
    ended = sqlite_cli("acquire", "x", "--ttl", "5m", FENCELOCK_URL=url)
    assert ended.returncode == 69
    assert "fencelock run" in ended.stderr
