"""Completion in a shell: commands, options and names."""

from __future__ import annotations

import pytest

import fencelock
from tests.cli.conftest import Cli


def completed(cli: Cli, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    words = line.split(" ")
    printed = cli(
        _FENCELOCK_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    ).stdout
    return [each.partition(",")[2] for each in printed.splitlines() if each]


def test_commands_and_options(sqlite_cli: Cli) -> None:
    assert completed(sqlite_cli, "fencelock re") == ["release", "renew"]
    assert "--once-per" in completed(sqlite_cli, "fencelock run x --o")


def test_names_that_are_in_use(sqlite_cli: Cli) -> None:
    client = fencelock.Client(sqlite_cli.url)
    with client, client.lock("order:42"), client.lock("order:7"), client.lock("o*"):
        assert completed(sqlite_cli, "fencelock show order:") == ["order:42", "order:7"]
        assert completed(sqlite_cli, "fencelock break o*") == ["o*"]


def test_without_an_engine_there_is_nothing_to_offer(sqlite_cli: Cli) -> None:
    sqlite_cli.environment["FENCELOCK_URL"] = "nonsense://"
    assert completed(sqlite_cli, "fencelock show o") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(sqlite_cli: Cli, shell: str) -> None:
    script = sqlite_cli(_FENCELOCK_COMPLETE=f"{shell}_source").stdout
    assert f"_FENCELOCK_COMPLETE={shell}_complete" in script
