"""The `fencelock` command on Redlock: once through all of it."""

import subprocess
from uuid import uuid4

import fencelock
from tests.spawning import run
from tests.waiting import PATIENCE


def command(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run("fencelock", "--url", url, *words)


def test_run_ls_show_break(redlock_url: str) -> None:
    name = f"cli-{uuid4()}"
    done = command(redlock_url, "run", name, "--", "sh", "-c", "echo $FENCELOCK_FENCE")
    assert done.returncode == 0, done.stderr
    with fencelock.Client(redlock_url, label="the test") as client:
        lease = client.lock(name, ttl=3).acquire()
        assert lease.fence > int(done.stdout)
        assert name in command(redlock_url, "ls").stdout
        shown = command(redlock_url, "show", name).stdout
        assert "the test" in shown
        assert str(lease.fence) in shown
        broken = command(redlock_url, "break", name, "--yes")
        assert broken.returncode == 0, broken.stderr
        assert lease.lost.wait(PATIENCE)
        assert name not in command(redlock_url, "ls").stdout
