"""A URL with a namespace on the command line."""

from __future__ import annotations

from pathlib import Path

import fencelock
from tests.cli.conftest import Cli


def test_a_service_takes_no_namespace_for_its_engine(sqlite_cli: Cli) -> None:
    ended = sqlite_cli("serve", "--check", "--engine", "memory://x?namespace=shop")
    assert ended.returncode == 64
    assert "give one to the clients" in ended.stderr


def test_the_command_line_speaks_within_the_namespace(sqlite_cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    shop = fencelock.Client(url, namespace="shop", label="the shop")
    bank = fencelock.Client(url, namespace="bank")
    with shop.lock("nightly"), bank.lock("daily"):
        listed = sqlite_cli("ls", "--url", f"{url}?namespace=shop").stdout
        assert "nightly" in listed
        assert "daily" not in listed
        assert "the shop" in sqlite_cli("show", "nightly", "--url", f"{url}?namespace=shop").stdout
        assert "shop/nightly" in sqlite_cli("ls", "--url", url).stdout
