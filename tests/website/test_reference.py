"""The reference has every public name, every command with its options, every metric and every setting."""

import re
from pathlib import Path

import click

from fencelock.cli.main import cli
from fencelock.observe import families
from fencelock.service.settings import TABLE
from tests.test_api import SNAPSHOT


def _text(site: Path, page: str) -> str:
    return (site / "reference" / page / "index.html").read_text()


def test_every_public_name_has_a_place(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").rglob("*.html"))
    places = set(re.findall(r'id="([^"]+)"', pages))
    wanted, owner = set[str](), ""
    for line in SNAPSHOT.read_text().splitlines():
        if found := re.match(r"(?:class|def|enum|options) ([\w.]+)", line):
            owner = found[1]
            wanted.add(owner)
        # The parameters of a call end with a comma, attributes don't.
        elif found := re.match(
            r"    (?:async |classmethod )*def (\w+)\(|    (\w+)(?:: | = ).*[^,]$", line
        ):
            wanted.add(f"{owner}.{found[1] or found[2]}")
    wanted = {name for name in wanted if not name.endswith("exit__")}
    assert len(wanted) > 400
    assert wanted <= places, f"not in the reference: {sorted(wanted - places)}"


def test_every_command_and_option_is_there(site: Path) -> None:
    text = _text(site, "command-line")

    def look(command: click.Command, path: str) -> None:
        assert f'id="{path}"' in text
        for option in command.params:
            names = [name for name in option.opts if name.startswith("-")]
            assert all(name in text for name in names), (path, names)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                look(below, f"{path}-{name}")

    look(cli, "fencelock")


def test_metrics_and_settings_are_there(site: Path) -> None:
    metrics, settings = _text(site, "metrics"), _text(site, "settings-of-the-service")
    assert all(f"<code>{family.name}</code>" in metrics for family in families.ALL)
    assert all(f"<code>{entry.flag}</code>" in settings for entry in TABLE.values())
