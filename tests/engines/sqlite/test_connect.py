"""Opening a lock file: made at its first use, and a clear message if something is wrong with it."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import fencelock
from tests.engines.sqlite.elsewhere import in_fork, in_namespace
from tests.waiting import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


def error_of(act: Callable[[], Any]) -> fencelock.EngineError:
    with pytest.raises(fencelock.EngineError) as caught:
        act()
    return caught.value


def fails_with(path: Path, *words: str) -> None:
    """Every operation says so, and says that nothing happened."""
    with fencelock.Client(f"sqlite:///{path}") as client:
        for act in (client.lock("x").try_acquire, client.lock("x").acquire, client.names):
            error = error_of(act)
            assert error.outcome == "not applied"
            for word in words:
                assert word in str(error)


# --- made when needed


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://locks.db", "three slashes"),
        ("sqlite://host/locks.db", "three slashes"),
        ("sqlite://me:secret@/locks.db", "three slashes"),
        ("sqlite://", r"name a file, e\.g\. sqlite:///locks\.db"),
        ("sqlite:///", "name a file"),
        ("sqlite:///folder/", "name a file"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///locks.db?ttl=3", "unknown option 'ttl'"),
    ],
)
def test_urls_that_can_not_be_right(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fencelock.Client(url)
    assert "secret" not in str(caught.value)


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with fencelock.Client("sqlite:///some/locks%20here.db") as client:
        monkeypatch.chdir("/")
        assert list(tmp_path.iterdir()) == [], "nothing is made before the first use"
        client.names()
    assert (tmp_path / "some" / "locks here.db").exists()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("where", ["sqlite:///locks.db", {"*": "sqlite:///locks.db"}])
def test_a_relative_path_names_the_same_file_after_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with fencelock.Client(where) as client, client.lock("x") as lease:
        monkeypatch.chdir(_folder(tmp_path))
        seen = in_fork(lambda: str(client.inspect("x").holders[0].fence))
    assert seen == str(lease.fence)


@pytest.mark.parametrize("where", ["sqlite:///locks.db", {"*": "sqlite:///locks.db"}])
def test_a_relative_path_names_the_same_file_in_another_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    client = fencelock.AsyncClient(where)

    async def use(seen: list[int]) -> None:
        async with client.lock("x"):
            seen.extend(holder.fence for holder in (await client.inspect("x")).holders)

    fences: list[int] = []
    asyncio.run(use(fences))
    elsewhere = _folder(tmp_path)
    monkeypatch.chdir(elsewhere)
    asyncio.run(use(fences))
    assert list(elsewhere.iterdir()) == []
    assert len(fences) == 2


def _folder(parent: Path) -> Path:
    folder = parent / "elsewhere"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("umask", "file", "folder"), [(0o022, 0o640, 0o750), (0o002, 0o660, 0o770)]
)
def test_what_is_made_is_for_the_user_and_its_group(
    tmp_path: Path, umask: int, file: int, folder: int
) -> None:
    before = os.umask(umask)
    try:
        with fencelock.Client(f"sqlite:///{tmp_path}/a/b/locks.db") as client:
            with client.lock("x"):
                waiter = threading.Thread(target=lambda: client.lock("x").acquire().release())
                waiter.start()
                eventually(lambda: client.inspect("x").waiting, "the waiter")
                made = {each.name: rights(each) for each in (tmp_path / "a" / "b").iterdir()}
                (pipe,) = (tmp_path / "a" / "b" / "locks.db-wake").iterdir()
                assert rights(pipe) == file
            waiter.join()
    finally:
        os.umask(before)
    assert rights(tmp_path / "a") == rights(tmp_path / "a" / "b") == 0o700
    files = dict.fromkeys(("locks.db", "locks.db-wal", "locks.db-shm"), file)
    assert made == {**files, "locks.db-wake": folder}


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


_EXHAUSTED = """
import os, resource, sys, fencelock
url, left = sys.argv[1], int(sys.argv[2])
with fencelock.Client(url) as client:
    client.names()
most = max(map(int, os.listdir("/proc/self/fd"))) + 10
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    for each in taken[:left]:
        os.close(each)
try:
    fencelock.Client(url).lock("x").acquire(timeout=5)
except fencelock.EngineError as error:
    print(error, flush=True)
os._exit(0)  # without descriptors Python does not end by itself
"""


@pytest.mark.parametrize("left", [0, 1, 2])
def test_no_file_descriptors_are_left(path: Path, left: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _EXHAUSTED, f"sqlite:///{path}", str(left)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "file descriptors" in ended.stdout, ended
    assert "ulimit -n" in ended.stdout
    assert "rights" not in ended.stdout


def test_an_empty_file_will_do(path: Path) -> None:
    path.touch()
    with fencelock.Client(f"sqlite:///{path}") as client:
        assert client.lock("x").try_acquire()


def test_many_make_the_file_at_once(path: Path) -> None:
    barrier = threading.Barrier(8)
    fences = []

    def first() -> None:
        with fencelock.Client(f"sqlite:///{path}") as client:
            barrier.wait()
            with client.lock("x") as lease:
                fences.append(lease.fence)

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(fences)) == 8


def test_one_file_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "alias.db").symlink_to("locks.db")
    with (
        fencelock.Client(f"sqlite:///{tmp_path}/real/locks.db") as one,
        fencelock.Client(f"sqlite:///{tmp_path}/link/alias.db") as other,
    ):
        lease = one.lock("x").acquire()
        got: list[fencelock.Lease] = []
        waiter = threading.Thread(target=lambda: got.append(other.lock("x", ttl=600).acquire()))
        waiter.start()
        eventually(lambda: one.inspect("x").waiting, "the waiter")
        lease.release()
        waiter.join(30)
        assert got, "it was woken: its own renewal would come after minutes"


# --- what can be wrong with it


def test_a_file_that_is_something_else(path: Path) -> None:
    path.write_text("Dear diary,\n" * 100)
    fails_with(path, f"{path} is not a Fencelock lock file", "choose another path")
    assert path.read_text() == "Dear diary,\n" * 100


def test_a_database_of_another_program(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE customers (name); INSERT INTO customers VALUES ('Ann')")
    fails_with(path, "is not a Fencelock lock file", "another program")
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("customers",)]
    other.close()


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_file_of_another_version(path: Path, version: int) -> None:
    with fencelock.Client(f"sqlite:///{path}") as client:
        client.names()
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    fails_with(path, "another version of Fencelock", f"its format is {version}", "move it away")


def test_a_damaged_file_is_reported_and_can_be_replaced(path: Path) -> None:
    with fencelock.Client(f"sqlite:///{path}") as client:
        lease = client.lock("x").acquire()
        lease.release()
    connection = apsw.Connection(str(path))  # the last one to close it empties the log
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(path.read_bytes())
    content[1024:] = os.urandom(len(content) - 1024)
    path.write_bytes(content)
    fails_with(path, "is damaged", "move it away")
    for file in path.parent.glob("locks.db*"):
        if file.is_file():
            file.rename(file.with_name("old-" + file.name))
    with fencelock.Client(f"sqlite:///{path}") as client:
        assert client.lock("x").acquire().fence > lease.fence, "fences grow, by the clock"


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    fails_with(tmp_path, f"{tmp_path} is a folder: name a file in it")


def test_a_file_in_the_place_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fails_with(tmp_path / "file" / "locks.db", str(tmp_path / "file"), "check the path")


def test_read_only(tmp_path: Path) -> None:
    answer = in_namespace(
        """
        mount_tmpfs("1m")
        answer = {}
        def attempt(what):
            with fencelock.Client(f"sqlite:///{folder}/{what}") as client:
                try:
                    client.lock("x").acquire()
                except fencelock.EngineError as error:
                    answer[what] = [error.outcome, str(error)]
        with fencelock.Client(f"sqlite:///{folder}/there.db") as client:
            client.names()
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        attempt("there.db")
        attempt("new.db")
        attempt("new/new.db")
        """,
        tmp_path,
    )
    outcome, message = answer["there.db"]
    assert outcome == "not applied"
    assert f"can't write to the folder {tmp_path}" in message
    for file, place in (("new.db", f"{tmp_path}/new.db"), ("new/new.db", f"{tmp_path}/new")):
        outcome, message = answer[file]
        assert outcome == "not applied"
        assert f"can't use {place}: Read-only file system" in message


def test_no_right_to_use_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rights")
    (folder / "closed").mkdir(mode=0o555)
    with fencelock.Client(f"sqlite:///{folder}/open/locks.db") as client:
        client.names()
    (folder / "open").chmod(0o777)
    for file in (folder / "open").glob("locks.db*"):
        file.chmod(0o444)
    # Rights don't stop root: the attempt is made by nobody, in a child that has imported everything.
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.getuid() and above != Path(above.root):
            above.chmod(above.stat().st_mode | 0o055)
    closed = in_fork(lambda: attempt(f"{folder}/closed/locks.db"), as_nobody=True)
    assert closed == f"not applied: can't use {folder}/closed/locks.db: Permission denied; " + (
        "check the path and its rights"
    )
    written = in_fork(lambda: attempt(f"{folder}/open/locks.db"), as_nobody=True)
    assert written == f"not applied: can't write to {folder}/open/locks.db: " + (
        "give this user the right to read and write it"
    )


def attempt(path: str) -> str:
    with fencelock.Client(f"sqlite:///{path}") as client:
        try:
            client.names()
        except fencelock.EngineError as error:
            return f"{error.outcome}: {error}"
        return "no error"
