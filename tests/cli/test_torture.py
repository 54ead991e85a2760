"""`fencelock torture`: what it prints, how it ends, and what it leaves behind: nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

import fencelock
from tests.cli.conftest import Cli
from tests.cli.terminals import Emulator
from tests.servers import HOST, RedisFactory
from tests.spawning import run

BRIEF = ("--seconds", "2", "--ttl", "1", "--processes", "3")
SECRET = "geheim"


def torture(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "FENCELOCK_URL"}
    ended = run("fencelock", "torture", *words, environment=environment)
    assert "Traceback" not in ended.stderr, ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    return ended


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def gone(history: list[dict[str, Any]]) -> bool:
    """Whether none of its processes is left."""
    return not any(psutil.pid_exists(line["pid"]) for line in history if line["type"] == "process")


def test_servers_of_its_own(tmp_path: Path) -> None:
    report, history = tmp_path / "report.html", tmp_path / "history.jsonl"
    files = ("--report", str(report), "--history", str(history))
    ended = torture("--self", "redis", "--faults", "stop,kill-server,cut", *BRIEF, *files)
    assert ended.returncode in (0, 2), ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert (
        lines[0]
        == {
            0: "HELD: Every promise was kept.",
            2: "NOT EXERCISED: No fault hit a holder, so this run proves nothing.",
        }[ended.returncode]
    )
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    found = lines_of(history)
    assert [found[0]["type"], found[-1]["type"]] == ["run", "verdict"]
    assert {line["kind"] for line in found if line["type"] == "fault"} <= {
        "stop",
        "kill-server",
        "cut",
    }
    assert found[-1]["acknowledged"] == found[-1]["stored"] > 0
    assert found[0]["names"][0] in report.read_text()
    assert gone(found)
    port = int(found[0]["url"].rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))


def test_a_cluster_of_the_user_and_a_fault_of_the_user(redis_server: RedisFactory) -> None:
    redis = redis_server(requirepass=SECRET)
    command = f"REDISCLI_AUTH={SECRET} redis-cli -p {redis.port} CLIENT"
    own = ("--fault", f"{command} PAUSE 60000 WRITE", "--heal", f"{command} UNPAUSE")
    words = ("--primitive", "semaphore", "--json", "--faults", "command", "--prefix", "mine")
    ended = run("fencelock", "torture", redis.url, *own, *words, *BRIEF)
    assert ended.returncode in (0, 2), ended.stdout + ended.stderr
    verdict = json.loads(ended.stdout)
    assert verdict["faults"]["command"]["times"] > 0
    assert {each["id"]: each["verdict"] for each in verdict["promises"]}["exclusion"] != "broken"
    with fencelock.Client(redis.url) as client:
        assert client.names("*") == []


def test_ctrl_c_heals_and_judges_and_cleans_up(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    with ExitStack() as running:
        cli = Cli("memory://", tmp_path, running)
        words = (
            "torture",
            "--self",
            "sqlite",
            "--faults",
            "stop",
            "--ttl",
            "1",
            "--processes",
            "2",
        )
        # Only on a terminal it tells of each fault.
        with Emulator(cli, *words, "--history", str(history)) as terminal:
            terminal.see("a process is stopped: ")
            terminal.type("\x03")
            terminal.see("leases: ")
    found = lines_of(history)
    assert found[-1]["type"] == "verdict"
    assert found[0]["seconds"] < 60
    assert gone(found)


def test_two_with_one_prefix_do_not_disturb_each_other(redis_url: str) -> None:
    with (
        fencelock.Client(redis_url, label="the other") as client,
        client.lock("torn:running", ttl=60),
    ):
        ended = torture(redis_url, "--prefix", "torn", *BRIEF)
    assert ended.returncode == 69
    assert "another torture runs here with the prefix 'torn' (the other" in ended.stderr


def test_another_machine_is_not_touched_without_a_yes(tmp_path: Path) -> None:
    ended = torture("redis://db.invalid", *BRIEF)
    assert ended.returncode != 0
    assert "redis://db.invalid is not on this machine" in ended.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--self", "redis", "redis://localhost"), 64, "a URL or --self, not both"),
        (("--self", "mongodb"), 64, "'mongodb' is not one of"),
        (("--faults", "earthquake"), 64, "there is no fault 'earthquake'"),
        (("--fault", "true"), 64, "--fault and --heal belong together"),
        (("--ttl", "nan"), 64, "ttl"),
        (("--seconds", "0"), 64, "seconds"),
        (("--prefix", ""), 64, "name"),
        (("memory://x",), 69, "in one process only"),
        (("sqlite:////tmp/x.db", "--storage", "redis://localhost"), 69, "choose another --storage"),
        (("sqlite:////tmp/x.db", "--report", "/no/such/folder/r.html"), 64, "does not exist"),
        (("--self", "sqlite", "--faults", "cut"), 69, "there is no network"),
        (("redis://127.0.0.1:1", "--seconds", "1"), 69, "127.0.0.1:1"),
        (("nonsense",), 64, "URL"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], code: int, says: str) -> None:
    ended = torture(*words)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert says in ended.stderr


def test_session_locks_can_not_be_tortured(postgresql_url: str) -> None:
    ended = torture(postgresql_url.replace("postgresql:", "postgresql+advisory:"), *BRIEF)
    assert ended.returncode == 69
    assert "session locks never expire" in ended.stderr


def test_the_list_of_faults() -> None:
    listed = torture("--list").stdout
    assert re.search(r"^stop +a process is stopped$", listed, re.MULTILINE)
    assert signal.SIGSTOP.name not in listed
