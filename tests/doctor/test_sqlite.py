"""Each check of a lock file on a real file system that has the fault, and on one that has not."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

import fencelock
from fencelock.doctor import Report
from tests.doctor.examining import bad, check, examined, examined_async, with_status
from tests.engines.sqlite.elsewhere import in_fork, in_namespace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


def test_a_file_that_is_not_there_yet_is_not_made(path: Path) -> None:
    report = examined(f"sqlite:///{path.parent}/deep/locks.db")
    assert (bad(report), report.verdict) == (set(), "correctness")
    assert check(report, "usable").detail == "it will be made at its first use"
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_file_without_a_fault(path: Path, examine: Any) -> None:
    with fencelock.Client(f"sqlite:///{path}") as client, client.lock("x"):
        before = client.inspect("x")
        report = examine(f"sqlite:///{path}", probe=True)
        assert client.inspect("x").holders[0].fence == before.holders[0].fence
    # The tests' folder may be in memory, which deserves an advice.
    assert with_status(report, "bad", "unknown") == set()
    assert (report.verdict, report.clocks) == ("correctness", ())
    assert report.next.startswith("as long as all run on one machine")
    assert report.latency is not None
    assert {"one-machine", "same-file", "hand-over"} <= with_status(report, "ok")


def boot(path: Path, text: str) -> None:
    """Make the file one that was last used in another boot."""
    with fencelock.Client(f"sqlite:///{path}") as client:
        client.names()
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE file SET boot = ?", (text,))


def test_a_file_that_another_machine_uses(path: Path) -> None:
    boot(path, "the boot of another machine")
    report = examined(f"sqlite:///{path}")
    assert (bad(report), report.verdict) == ({"one-machine"}, "not safe")
    for file in path.parent.glob("locks.db*"):
        os.utime(file, (1, 1))  # last written before this machine started
    report = examined(f"sqlite:///{path}")
    assert (bad(report), report.verdict) == (set(), "correctness")


def test_a_file_that_was_replaced_while_it_was_open(path: Path) -> None:
    with fencelock.Client(f"sqlite:///{path}") as client:
        with client.lock("x"):
            pass
        for file in path.parent.glob("locks.db*"):
            file.rename(path.parent / f"old-{file.name}")
        with fencelock.Client(f"sqlite:///{path}") as other:
            other.names()
        report = client.diagnose()
    assert (bad(report), report.verdict) == ({"same-file"}, "not safe")


def test_something_else_in_its_place(path: Path) -> None:
    path.write_text("not a database at all, but long enough to look like one" * 20)
    report = examined(f"sqlite:///{path}")
    assert (bad(report), report.verdict) == ({"usable"}, "not safe")
    assert str(path) in check(report, "usable").detail


def test_a_folder_that_can_not_be_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rights")
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client, client.lock("x"):
        pass
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.getuid() and above != Path(above.root):
            above.chmod(above.stat().st_mode | 0o055)
    for file in folder.glob("locks.db*"):
        file.chmod(0o666)
    folder.chmod(0o555)

    def examine() -> str:
        report = examined(f"sqlite:///{folder}/locks.db")
        return json.dumps([sorted(bad(report)), report.verdict])

    assert json.loads(in_fork(examine, as_nobody=True)) == [["writable"], "not safe"]
    folder.chmod(0o777)
    assert json.loads(in_fork(examine, as_nobody=True)) == [[], "correctness"]


MOUNTED = """
    from tests.doctor.examining import bad, check, examined
    def examine(path):
        report = examined(f"sqlite:///{path}/locks.db")
        return [sorted(bad(report)), report.verdict, check(report, "file-system").detail]
"""


def test_file_systems(tmp_path: Path) -> None:
    """An overlay as a container has it, a file system in memory, and one on another machine."""
    answer = in_namespace(
        MOUNTED
        + """
    mount_tmpfs("64m")
    answer = [examine(folder)]
    for each in ("lower", "upper", "work", "over", "remote"):
        os.mkdir(f"{folder}/{each}")
    layers = ",".join(f"{name}dir={folder}/{name}" for name in ("lower", "upper", "work"))
    over = ["mount", "-t", "overlay", "-o", layers, "overlay", f"{folder}/over"]
    overlay = subprocess.run(over, check=False, capture_output=True).returncode == 0
    answer.append(examine(f"{folder}/over") if overlay else None)
    def takes(purpose):
        url = f"sqlite:///{folder}/over/locks.db"
        try:
            with fencelock.Client(url, diagnose=True) as client:
                client.lock("x", purpose=purpose, guard=None).acquire().release()
                return "taken"
        except fencelock.UnsafeEngine as error:
            return str(error)
    answer.append([takes("efficiency"), takes("correctness")] if overlay else None)
    from tests.engines.sqlite.fuse import mount
    mount(f"{folder}/remote", "fuse.sshfs")
    answer.append(examine(f"{folder}/remote"))
    """,
        tmp_path,
    )
    memory, overlay, taken, remote = answer
    assert memory[:2] == [[], "correctness"]
    assert memory[2].startswith("tmpfs: after a reboot")
    assert overlay is None or overlay[:2] == [["file-system"], "efficiency"]
    if taken is not None:
        efficiency, correctness = taken
        assert efficiency == "taken"
        assert "gives efficiency and not correctness: overlay" in correctness
    assert remote == [["file-system"], "not safe", "fuse.sshfs, a network file system"]


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    answer = in_namespace(
        """
        from tests.doctor.examining import bad, check, examined
        mount_tmpfs("100m")
        answer = []
        for size in (0, 50, 98):
            with open(f"{folder}/ballast", "wb") as ballast:
                ballast.truncate(0)
                ballast.write(bytes(size << 20))
            answer.append(check(examined(f"sqlite:///{folder}/locks.db"), "space").status)
        """,
        tmp_path,
    )
    assert answer == ["ok", "advice", "bad"]


def test_a_correctness_client_obeys_the_weaker(path: Path) -> None:
    boot(path, "the boot of another machine")

    async def take() -> None:
        url = f"sqlite:///{path}"
        client = fencelock.AsyncClient(url, purpose="correctness", diagnose=True)
        async with client, client.lock("x", guard=None):
            pass

    with pytest.raises(
        fencelock.UnsafeEngine, match=r"not safe and not correctness.*another machine"
    ):
        asyncio.run(take())
    for file in path.parent.glob("locks.db*"):
        os.utime(file, (1, 1))
    asyncio.run(take())


def test_memory() -> None:
    report: Report = examined("memory://doctor", probe=True)
    assert (bad(report), report.verdict) == (set(), "correctness")
    assert with_status(report, "advice") == {"processes"}
