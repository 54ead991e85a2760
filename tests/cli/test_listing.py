"""`fencelock ls`, `show` and `break`: for people and for programs, and never an id."""

from __future__ import annotations

import json
import os
import re
import signal
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.cli.listing import duration
from fencelock.cli.messages import printable
from tests.cli.conftest import Cli, waiting
from tests.cli.terminals import Emulator, on_a_terminal
from tests.servers import RedisFactory, connect
from tests.waiting import eventually

HOLDER = {"host", "pid", "label", "fence", "expires_in", "share", "since", "held_for"}
HEAD = ["NAME", "HOLDER", "FENCE", "HELD FOR", "EXPIRES IN", "WAITING"]
WAITER = {"host", "pid", "label", "fence", "expires_in", "share", "waiting_for"}


def test_show(cli: Cli, client: fencelock.Client, name: str) -> None:
    with client.lock(name) as lease:
        cli.start("run", name, "--label", "the second", "--", "true")
        waiting(client, name, 1)
        shown = cli("show", name).stdout
        lines = shown.splitlines()
        assert lines[0] == name
        assert lines[1] == f"  held by     the test (pid {os.getpid()} on {lease.owner.host})"
        assert re.fullmatch(r"  since       [-\d]+ [:\d]+ \(\d+.*s ago\)", lines[2])
        assert lines[3] == f"  fence       {lease.fence}"
        assert re.fullmatch(r"  expires in  \d+ s unless renewed", lines[4])
        assert lines[5] == "  waiting     1"
        assert re.search(r"^1  the second \(pid \d+ on \S+\)  \d+  ", shown, re.MULTILINE)
        assert lease.id not in shown
        assert "\x1b" not in shown


def test_show_for_programs(cli: Cli, client: fencelock.Client, name: str) -> None:
    with client.lock(name) as lease:
        for _ in range(2):
            cli.start("run", name, "--label", "another", "--", "true")
        waiting(client, name, 2)
        text = cli("show", name, "--json", "--limit", "1").stdout
        shown = json.loads(text)
        assert lease.id not in text
    assert set(shown) == {"name", "holders", "waiting", "fence", "abandoned", "waiters"}
    assert (shown["name"], shown["waiting"], shown["abandoned"]) == (name, 2, False)
    (holder,) = shown["holders"]
    (waiter,) = shown["waiters"]
    assert (set(holder), set(waiter)) == (HOLDER, WAITER)
    assert (holder["fence"], holder["pid"]) == (lease.fence, os.getpid())
    assert (holder["label"], holder["host"]) == ("the test", lease.owner.host)
    assert waiter["label"] == "another"
    assert shown["fence"] >= waiter["fence"] > lease.fence
    age = datetime.now(UTC) - datetime.fromisoformat(holder["since"])
    assert age.total_seconds() >= holder["held_for"] >= waiter["waiting_for"] > 0


def test_show_what_is_free(cli: Cli, client: fencelock.Client, name: str) -> None:
    assert cli("show", name).stdout == f"{name}\n  free\n  waiting     0\n"
    lease = client.lock(name).acquire()
    client.break_lock(name)
    assert cli("show", name).stdout == (
        f"{name}\n  free\n  last fence  {lease.fence}\n  waiting     0\n"
        "  abandoned   the previous holder did not release it: its work may be half done\n"
    )


def test_ls(cli: Cli, client: fencelock.Client) -> None:
    common = f"ls-{uuid4()}"
    odd = f"{common}: {{[red]ä*}} /"
    with client.lock(f"{common}:a") as a, client.lock(odd) as b:
        listed = cli("ls", f"{common}*").stdout
        lines = listed.splitlines()
        assert re.split("  +", lines[0]) == HEAD
        assert {line[: line.index("the test")].rstrip() for line in lines[1:]} == {a.name, b.name}
        columns = {line.index("the test (pid") for line in lines[1:]}
        assert columns == {lines[0].index("HOLDER")}, "the columns are not aligned"
        assert a.id not in listed
        assert b.id not in listed

        (only,) = json.loads(cli("ls", f"{common}:a", "--json").stdout)
        assert set(only) == {"name", "holders", "waiting", "fence", "abandoned"}
        assert [set(each) for each in only["holders"]] == [HOLDER]
        assert only["fence"] == a.fence

        with Emulator(cli, "ls", f"{common}*", columns=200) as terminal:
            terminal.ended()
            shown = terminal.picture
        assert "[red]ä" in shown, "a name was taken for markup"
        assert a.id not in shown
    assert cli("ls", f"{common}*").stdout == ""
    assert json.loads(cli("ls", f"{common}*", "--json").stdout) == []
    assert "Nothing is held or waited for." in on_a_terminal(cli, "ls", f"{common}*")


def test_ls_shows_what_was_abandoned(cli: Cli, client: fencelock.Client, name: str) -> None:
    _ = client.lock(name).acquire()
    client.break_lock(name)
    with client.lock(name):
        head, row = cli("ls", name).stdout.splitlines()
    assert re.split("  +", head) == [*HEAD, "ABANDONED"]
    assert row.endswith("  0        yes")


def test_a_key_of_another_program_is_no_name(redis_server: RedisFactory, sqlite_cli: Cli) -> None:
    server = redis_server()
    redis: Any = connect(server.url)  # redis-py does not know whether it answers with text
    with fencelock.Client(server.url) as client, client.lock("ours"):
        for key in redis.keys("fencelock:{ours}*"):
            redis.copy(key, key.replace("ours", "\x1b[2Jours"))
        assert client.names() == ["ours"]
        ended = sqlite_cli("ls", FENCELOCK_URL=server.url)
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 2)


def test_break(cli: Cli, client: fencelock.Client, name: str) -> None:
    lease = client.lock(name).acquire()
    ended = cli("break", name, "--yes")
    owner = f"the test (pid {os.getpid()} on {lease.owner.host})"
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"Broken: {name} was held by {owner}\n"
    assert not client.inspect(name).holders
    with pytest.raises(fencelock.LeaseLost):
        lease.release()

    ended = cli("break", name, "--yes")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"fencelock: nobody holds {name!r}\n"


@pytest.mark.parametrize(("answer", "broken"), [("y\n", True), ("n\n", False), ("", False)])
def test_break_asks(
    cli: Cli, client: fencelock.Client, name: str, answer: str, broken: bool
) -> None:
    lease = client.lock(name).acquire()
    ended = cli("break", name, input=answer)
    assert ended.returncode == (0 if broken else 1)
    assert f"Take {name!r} from the test (pid {os.getpid()} on" in ended.stderr
    assert bool(client.inspect(name).holders) is not broken
    if not broken:
        assert f"fencelock: {name!r} was not broken\n" in ended.stderr
        lease.release()


def test_break_for_programs(cli: Cli, client: fencelock.Client, name: str) -> None:
    lease = client.lock(name).acquire()
    ended = cli("break", name, "--yes", "--json")
    answer = json.loads(ended.stdout)
    assert (answer["name"], answer["broken"]) == (name, True)
    assert [set(each) for each in answer["holders"]] == [HOLDER]
    assert lease.id not in ended.stdout
    ended = cli("break", name, "--yes", "--json")
    assert (ended.returncode, json.loads(ended.stdout)) == (
        1,
        {"name": name, "broken": False, "holders": []},
    )


def test_break_does_not_hit_the_next_one(cli: Cli, client: fencelock.Client, name: str) -> None:
    """What one agreed to was about the holder one was shown."""
    lease = client.lock(name).acquire()
    started = cli.start("break", name)
    assert started.process.stderr is not None
    asked = ""
    while not asked.endswith("?"):
        asked += started.process.stderr.read(1)
    lease.release()
    with client.lock(name):
        assert started.process.stdin is not None
        started.process.stdin.write("y\n")
        started.process.stdin.flush()
        assert started.wait() == 1
        assert "got another holder while you were asked" in started.errors()
        assert client.inspect(name).holders


@pytest.mark.parametrize(("answer", "broken"), [("y\n", True), ("n\n", False)])
def test_break_many(cli: Cli, client: fencelock.Client, answer: str, broken: bool) -> None:
    common = f"many-{uuid4()}"
    names = [f"{common}:{letter}" for letter in "abc"]
    leases = [client.lock(name).acquire() for name in names]
    with client.lock(f"{common}-other"):
        ended = cli("break", f"{common}:*", input=answer)
        assert all(f"  {name!r} from the test (pid" in ended.stderr for name in names)
        assert "Take these 3 locks from their holders?" in ended.stderr
        assert "-other" not in ended.stderr
        told = [f"Broken: {name} was held by" in ended.stdout for name in names]
        assert told == [broken] * 3
        assert ended.returncode == (0 if broken else 1)
        assert client.names(f"{common}*") == [f"{common}-other"] + ([] if broken else names)
    for lease in [] if broken else leases:
        lease.release()


def test_break_many_for_programs(sqlite_cli: Cli) -> None:
    with fencelock.Client(sqlite_cli.url) as client:
        for name in ("a", "b"):
            client.lock(name).acquire().detach()
        ended = sqlite_cli("break", "*", "--yes", "--json")
        assert [(each["name"], each["broken"]) for each in json.loads(ended.stdout)] == [
            ("a", True), ("b", True)
        ]  # fmt: skip
        ended = sqlite_cli("break", "*", "--yes", "--json")
        assert (ended.returncode, json.loads(ended.stdout)) == (1, [])
        assert "nobody holds '*'" in ended.stderr


def test_a_name_that_looks_like_a_pattern_is_broken_alone(sqlite_cli: Cli) -> None:
    with fencelock.Client(sqlite_cli.url) as client:
        client.lock("a*").acquire().detach()
        with client.lock("ab"):
            assert sqlite_cli("break", "a*", "--yes").returncode == 0
            assert client.names() == ["ab"]


def test_whether_it_is_held_is_an_exit_code(cli: Cli, client: fencelock.Client, name: str) -> None:
    with client.lock(name):
        ended = cli("show", "-q", name)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    ended = cli("show", "-q", name)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")
    assert cli("show", name).returncode == 0


def test_watching_in_a_pipe(sqlite_cli: Cli) -> None:
    with fencelock.Client(sqlite_cli.url) as client:
        with client.lock("order:42"):
            watching = sqlite_cli.start("ls", "--watch", "--every", "0.1", "--json")
            assert [each["name"] for each in json.loads(watching.line())] == ["order:42"]
        eventually(lambda: json.loads(watching.line()) == [], "a list without it")
        watching.signal(signal.SIGINT)
        assert watching.wait() == 0
        assert watching.errors() == ""


def test_watching_on_a_terminal(sqlite_cli: Cli) -> None:
    with (
        fencelock.Client(sqlite_cli.url) as client,
        Emulator(sqlite_cli, "ls", "-w", "--every", "100ms") as terminal,
    ):
        with client.lock("order:42"):
            terminal.see("order:42")
        terminal.not_see("order:42")
        terminal.see("Nothing is held")
        terminal.type("\x03")
        assert terminal.ended() == 0


def test_a_line_for_each_lock_at_80_columns(sqlite_cli: Cli) -> None:
    long = "invoice:" + "2026-11-19/" * 5
    client = fencelock.Client(sqlite_cli.url, label="the night shift of the bookkeeping")
    with client, client.lock(long), client.lock("b"), client.lock("订单" * 20):
        with Emulator(sqlite_cli, "ls") as terminal:
            terminal.ended()
            head, _, *rows = [line for line in terminal.lines if line]
        with Emulator(sqlite_cli, "ls", columns=200) as roomy:
            roomy.ended()
            assert long in roomy.picture
            assert "FENCE" in roomy.picture
    assert re.split("  +| (?=EXP|WAIT)", head) == [
        "NAME",
        "HOLDER",
        "HELD FOR",
        "EXPIRES IN",
        "WAITING",
    ]
    assert len(rows) == 3
    assert [row.split()[0][:8] for row in rows[:2]] == ["b", "invoice:"]
    assert all(row.endswith(" 0") for row in rows), "the figures are whole"
    assert all("…" in row for row in rows)


def test_a_reader_that_goes_away(sqlite_cli: Cli) -> None:
    started = sqlite_cli.start("ls", "--json")
    assert started.process.stdout is not None
    started.process.stdout.close()
    assert started.wait() == 1
    assert started.errors() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-0.1, "0.0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (303, "5 min 3 s"),
        (7_800, "2 h 10 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_how_a_time_span_is_said(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    assert printable("a\x1b[31mb\n") == "a?[31mb?"


def test_who_shares(sqlite_cli: Cli) -> None:
    client = fencelock.Client(sqlite_cli.url, label="one")
    with client, client.rwlock("x").read(), client.semaphore("y", 5, weight=2):
        lines = sqlite_cli("ls").stdout.splitlines()
        assert re.match(r"x +one \(.*\), reading  ", lines[1])
        assert re.match(r"y +one \(.*\), 2 of 5 permits  ", lines[2])
        (x, y) = json.loads(sqlite_cli("ls", "--json").stdout)
    assert x["holders"][0]["share"] == {"group": "read", "weight": 0, "permits": 1}
    assert y["holders"][0]["share"] == {"group": "5 permits", "weight": 2, "permits": 5}
