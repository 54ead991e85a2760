"""`fencelock serve`: the lock service."""

from __future__ import annotations

import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli.messages import say, say_log
from fencelock.cli.options import service_module, usage_errors

if TYPE_CHECKING:
    from fencelock.service.settings import Settings


class _Serve(click.Command):
    """Its options are made from the table of settings when they are needed: msgspec is slow to import."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        table = service_module("settings").TABLE
        return [*_options(table.values()), *super().get_params(ctx)]


def _options(table: Any) -> list[click.Parameter]:
    made: list[click.Parameter] = []
    for entry in table:
        flags = [f"{entry.flag}/--no-{entry.flag[2:]}"] if entry.is_switch else [entry.flag]
        value = entry.default
        shown = ",".join(value) if isinstance(value, tuple) else value
        standard = (
            f"  [default: {shown:g}]" if isinstance(shown, float) else f"  [default: {shown}]"
        )
        made.append(
            click.Option(
                [*flags, entry.key],
                default=None,
                metavar=None if entry.is_switch else "VALUE",
                help=entry.help + (standard if value not in ("", False, ()) else ""),
            )
        )
    return made


@click.command(
    cls=_Serve,
    epilog="""\b
Examples:
  fencelock serve --engine redis://localhost
  fencelock serve --config /etc/fencelock.toml --check
  FENCELOCK_SERVE_MAX_TTL=1h fencelock serve --listen '[::1]:7007'""",
)
@click.option("--config", metavar="FILE", help="A TOML file with the same settings.")
@click.option("--check", is_flag=True, help="Check all settings and files, and end.")
def serve(config: str | None, check: bool, **flags: Any) -> None:
    """Serve locks over HTTP and WebSocket, in front of any engine.

    Each setting is a flag, a key of the TOML file (max_ttl for --max-ttl) and an environment variable
    (FENCELOCK_SERVE_MAX_TTL). SIGTERM drains, a second one ends at once, SIGHUP reads tokens and
    certificates again.
    """
    say_log("fencelock.service", logging.INFO)
    with usage_errors():
        settings = _settings(config, flags)
        run = service_module("serving")
        if check:
            run.check(settings)
            say("the settings are valid")
        else:
            run.serve(settings, lambda address: say(f"serving on {address}"))


def _settings(config: str | None, flags: dict[str, Any]) -> Settings:
    from fencelock.client import default_url

    module = service_module("settings")
    file = config or os.environ.get(f"{module.PREFIX}CONFIG")
    settings: Settings = module.load_settings(flags, os.environ, Path(file) if file else None)
    return settings if settings.engine else dataclasses.replace(settings, engine=default_url())
