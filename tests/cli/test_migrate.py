"""`fencelock migrate`: names move, exclusion and fences stay."""

from __future__ import annotations

import fencelock
from tests.cli.conftest import Cli


def test_names_move_when_nobody_uses_them(sqlite_cli: Cli, redis_url: str) -> None:
    with fencelock.Client(sqlite_cli.url) as old, fencelock.Client(redis_url) as new:
        with old.lock("order:1") as lease:
            busy = sqlite_cli("migrate", "order:*", "--to", redis_url, "-w", "0.3")
            assert (busy.returncode, busy.stderr) == (1, "fencelock: still in use: order:1\n")
        other = old.lock("report").acquire()
        done = sqlite_cli("migrate", "order:*", "--to", redis_url)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(
            "Nobody uses order:* at the old engine. New fences will be above "
        )
        with new.lock("order:1") as moved:
            assert moved.fence > int(done.stdout.split()[-1].rstrip(".")) > lease.fence
        other.check()


def test_not_to_an_engine_whose_fences_begin_low(sqlite_cli: Cli, etcd_url: str) -> None:
    refused = sqlite_cli("migrate", "order:*", "--to", etcd_url)
    assert refused.returncode == 69
    assert "would refuse every new holder" in refused.stderr
