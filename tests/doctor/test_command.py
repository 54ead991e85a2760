"""`fencelock doctor`: what it prints, how it ends, and what it never shows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.terminals import Emulator
from tests.servers import HOST, RedisServer
from tests.spawning import run

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
FAULT = {"maxmemory": "1gb", "maxmemory_policy": "allkeys-lru"}
SECRET = "hunter2"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    settings: dict[str, Any] = {**FAULT, "appendonly": "yes", "requirepass": SECRET}
    with RedisServer(tmp_path_factory.mktemp("faulty"), **settings) as server:
        yield server


def doctor(*words: str) -> CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "FENCELOCK_URL"}
    # A busy machine that stalls for a second must not look like a slow server.
    patient = ("--ttl", "600", "--timeout", "10")
    ended = run("fencelock", "doctor", *patient, *words, environment=environment)
    assert SECRET not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def test_the_example_in_the_documentation(faulty: RedisServer) -> None:
    ended = doctor(faulty.url)
    (example,) = re.findall(r"```console\n\$ fencelock doctor redis\S+\n(.*?)```", PAGE, re.DOTALL)
    assert comparable(ended.stdout, f":***@{HOST}:{faulty.port}", faulty.address) == comparable(
        example, "locks.internal", "locks.internal:6379"
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert max(map(len, ended.stdout.splitlines())) <= 80


def comparable(text: str, where: str, address: str) -> str:
    """The text without what differs from run to run."""
    text = (
        re.sub(r"\(of \d+\)", "(of MANY)", text)
        .replace(address, "ADDRESS")
        .replace(where, "WHERE")
        .replace(":***@ADDRESS", "WHERE")
    )
    return re.sub(r"[+-]?\d+(\.\d+)? ?(ms|s)\b|\b0 ms", "TIME", text).replace("+TIME", "TIME")


def test_on_a_terminal_it_fits_and_the_verdict_is_in_view(faulty: RedisServer) -> None:
    with ExitStack() as running:
        cli = Cli(faulty.url, faulty.folder, running)
        with Emulator(cli, "doctor") as terminal:
            terminal.see("→ for efficiency mend: eviction")
            assert any(line.startswith("not safe: two holders") for line in terminal.lines)
            assert "red" in terminal.colours
            assert SECRET not in terminal.picture


def test_what_is_required_decides_the_exit_code(faulty: RedisServer, tmp_path: Path) -> None:
    assert doctor("--require", "efficiency", faulty.url).returncode == 1
    accepted = doctor("--require", "efficiency", "--accept", "eviction", faulty.url)
    assert (accepted.returncode, "efficiency: now" in accepted.stdout) == (0, True)
    assert doctor("--require", "correctness", "--accept", "eviction", faulty.url).returncode == 1
    file = f"sqlite:///{tmp_path}/locks.db"
    assert doctor("--require", "correctness", "--probe", file).returncode == 0
    assert doctor(file).returncode == 0


def test_a_verdict_that_rests_on_a_check_that_could_not_be_made(faulty: RedisServer) -> None:
    blind = faulty.add_user("blind", SECRET, "~*", "&*", "+@all", "-info", "-config")
    ended = doctor("--require", "efficiency", blind)
    assert ended.returncode == 2
    assert "can't tell" in ended.stdout
    assert "Not known: role, eviction" in ended.stdout
    assert doctor("--require", "efficiency", "--accept", "role", "--accept", "eviction", blind)
    assert doctor(blind).returncode == 0, "nothing is known to be bad"


def test_json(faulty: RedisServer) -> None:
    ended = doctor("--json", "--probe", faulty.url)
    found = json.loads(ended.stdout)
    (rows,) = re.findall(r"With `--json`.*?\n\n(.*?)\n\n", PAGE, re.DOTALL)
    documented = {
        key for row in rows.splitlines()[2:] for key in re.findall("`(\\w+)`", row.split("|")[1])
    }
    assert set(found) == documented
    assert (found["verdict"], found["in_the_way"], found["exit_code"]) == (
        "not safe",
        ["eviction"],
        1,
    )
    assert set(found["checks"][0]) == {"id", "status", "detail", "why", "mend", "servers", "leaves"}
    assert set(found["latency"]) == {"p50", "p99", "requests"}
    assert set(found["clocks"][0]) == {"where", "offset", "uncertainty", "stepped"}
    assert "hand-over" in {each["id"] for each in found["checks"]}


@pytest.mark.parametrize(
    ("url", "words", "code"),
    [
        ("redis://me:hunter2@127.0.0.1:1", ("Connection refused",), 2),
        ("redis://me:hunter2@127.0.0.1:x", ("a host must look like",), 64),
        ("elsewhere://me:hunter2@host", ("no engine for elsewhere://",), 2),
    ],
)
def test_what_can_not_be_examined(url: str, words: tuple[str, ...], code: int) -> None:
    ended = doctor("--json", url)
    assert ended.returncode == code
    assert len(ended.stderr.splitlines()) == 1
    if code == 2:
        assert set(json.loads(ended.stdout)) == {"verdict", "error", "exit_code"}
    assert all(word in ended.stderr for word in words)


def test_a_server_that_hangs_and_a_wrong_password(faulty: RedisServer) -> None:
    wrong = doctor(f"redis://:wrong-{SECRET}@{faulty.address}")
    assert (wrong.returncode, "WRONGPASS" in wrong.stderr) == (2, True)
    faulty.freeze()
    try:
        ended = doctor("--timeout", "0.3", faulty.url)
    finally:
        faulty.thaw()
    assert (ended.returncode, "no answer within" in ended.stderr) == (2, True)


def test_a_check_that_does_not_exist_can_not_be_accepted(tmp_path: Path) -> None:
    ended = doctor("--accept", "evictoin", f"sqlite:///{tmp_path}/locks.db")
    assert (ended.returncode, "there is no check 'evictoin'" in ended.stderr) == (64, True)
    # It may be accepted before it is ever made: this file was not used in another boot.
    assert doctor("--accept", "one-machine", f"sqlite:///{tmp_path}/locks.db").returncode == 0
