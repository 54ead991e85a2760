"""FencedFile: replaced as a whole or not at all, and never by a stale holder."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencelock import StaleFence
from fencelock.guards import FencedFile
from tests.guards.lease_likes import FIRST, LeaseLike

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def file(tmp_path: Path) -> FencedFile:
    return FencedFile(tmp_path / "report.txt")


def names(file: FencedFile) -> set[str]:
    return {path.name for path in file.path.parent.iterdir()}


def test_newer_holders_and_the_same_one_again(file: FencedFile) -> None:
    with pytest.raises(FileNotFoundError):
        file.read()
    assert file.newest() == 0
    for stamp, data in ((FIRST, b"1"), (FIRST, b""), (FIRST.newer(), b"3" * 100_000)):
        file.write(data, stamp)
        assert file.read() == data
        assert file.newest() == stamp.fence
    assert names(file) == {"report.txt", "report.txt.fence", "report.txt.lock"}


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
def test_a_stale_holder_changes_nothing(file: FencedFile, stale: LeaseLike) -> None:
    file.write(b"good", FIRST.newer())
    before = names(file)
    acts: list[Callable[[], None]] = [
        lambda: file.write(b"stale", stale),
        lambda: file.raise_fence(stale),
    ]
    for act in acts:
        with pytest.raises(StaleFence) as caught:
            act()
        error = caught.value
        assert (error.name, error.given, error.newest) == (FIRST.name, stale.fence, FIRST.fence + 1)
    assert file.read() == b"good"
    assert names(file) == before, "what it had prepared is removed"


def test_the_read_barrier_comes_before_the_file_is_there(file: FencedFile) -> None:
    file.raise_fence(FIRST.newer())
    with pytest.raises(StaleFence):
        file.write(b"stale", FIRST)
    assert not file.path.exists()


def test_huge_fences(file: FencedFile) -> None:
    huge = FIRST._replace(fence=2**62)
    file.write(b"good", huge.newer())
    for stale in (huge, FIRST._replace(fence=9)):
        with pytest.raises(StaleFence):
            file.write(b"stale", stale)


def test_who_dies_between_fence_and_content_has_fenced_all_the_same(
    file: FencedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write(b"old", FIRST)
    replace = os.replace

    def die(source: str, target: Path) -> None:
        if Path(target) == file.path:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            file.write(b"new", FIRST.newer())
    assert file.read() == b"old"
    with pytest.raises(StaleFence):
        file.write(b"stale", FIRST)
    file.write(b"new", FIRST.newer())
    assert file.read() == b"new"


def test_the_mode_is_kept(file: FencedFile) -> None:
    mask = os.umask(0o027)
    try:
        file.write(b"new", FIRST)
    finally:
        os.umask(mask)
    assert file.path.stat().st_mode & 0o777 == 0o640
    file.path.chmod(0o600)
    file.write(b"newer", FIRST)
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_reader_keeps_what_it_has_opened(file: FencedFile) -> None:
    file.write(b"old", FIRST)
    with file.path.open("rb") as reader:
        file.write(b"new", FIRST)
        assert reader.read() == b"old"


def test_a_link_leads_to_the_same_fence(file: FencedFile) -> None:
    file.write(b"old", FIRST.newer())
    link = file.path.with_name("link")
    link.symlink_to(file.path)
    with pytest.raises(StaleFence):
        FencedFile(link).write(b"stale", FIRST)
    FencedFile(link).write(b"new", FIRST.newer())
    assert link.is_symlink()
    assert file.read() == b"new"


def test_a_writer_that_is_stopped_in_its_last_step(tmp_path: Path) -> None:
    file = FencedFile(tmp_path / "report.txt", timeout=0.05)
    with (tmp_path / "report.txt.lock").open("wb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="is it stopped"):
            file.write(b"new", FIRST)
    file.write(b"new", FIRST)
    assert file.read() == b"new"


def test_there_is_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FencedFile(tmp_path / "none" / "report.txt").write(b"new", FIRST)


WRITER = """
import sys
from fencelock import StaleFence
from fencelock.guards import FencedFile
from tests.guards.lease_likes import FIRST
path, *fences = sys.argv[1:]
for fence in fences:
    try:
        FencedFile(path).write(fence.encode() * 1000, FIRST._replace(fence=int(fence)))
    except StaleFence:
        pass
"""


def test_many_processes(file: FencedFile) -> None:
    fences = [str(fence) for fence in range(100, 160)]
    random.shuffle(fences)
    crowd = [
        subprocess.Popen([sys.executable, "-c", WRITER, file.path, *fences[each::4]], cwd=ROOT)
        for each in range(4)
    ]
    assert [process.wait() for process in crowd] == [0] * 4
    assert file.read() == b"159" * 1000
    assert file.newest() == 159
    assert names(file) == {"report.txt", "report.txt.fence", "report.txt.lock"}
