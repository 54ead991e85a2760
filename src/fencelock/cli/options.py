"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.core.durations import check_timeout, seconds
from fencelock.core.errors import FencelockError, Unsupported
from fencelock.core.names import check_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fencelock.client import Client
    from fencelock.engines.contract import Traits


@contextmanager
def usage_errors(parameter: click.Parameter | None = None) -> Iterator[None]:
    """A `ValueError` of the library is an error in the command line."""
    try:
        yield
    except ValueError as error:
        if parameter is None:
            raise click.UsageError(f"{error}.") from error
        raise click.BadParameter(f"{error}.", param=parameter) from error


def checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    """A click callback that checks an option with a function of the library, if the option is given."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        with usage_errors(parameter):
            return value if value is None else check(value)

    return callback


def duration_option(
    *names: str, check: Callable[[float], float], help: str, **others: Any
) -> Callable[[Any], Any]:
    """An option that takes seconds, or a number with a unit: 200ms, 15m, 1h."""

    def parse(text: str) -> float:
        return check(seconds(text))

    return click.option(*names, metavar="DURATION", callback=checked(parse), help=help, **others)


def between(least: float, most: float) -> Callable[[float], float]:
    """Checks that a duration is neither shorter nor longer than that."""

    def check(given: float) -> float:
        if not least <= given <= most:
            raise ValueError(f"it must be between {least:g} and {most:g} seconds, not {given:g}")
        return given

    return check


def metrics_file(text: str) -> Path:
    """A file that the textfile collector of node_exporter will read."""
    path = Path(text)
    if path.suffix != ".prom":
        raise ValueError(f"the file must have a name that ends in .prom, not {text!r}")
    if not path.name.isprintable():
        raise ValueError(f"{text!r} has characters that can't be printed: its name becomes a label")
    if not os.path.isdir(path.parent):
        raise ValueError(f"the folder {str(path.parent)!r} does not exist: make it first")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{text!r} is not a file: it would be replaced")
    return path


def _inherit(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None and context.parent is not None:
        inherited: str | None = context.parent.params.get("url")
        return inherited
    return value


def names_in_use(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """The names in use that begin with what was typed, for the shell."""
    from click.shell_completion import CompletionItem

    try:
        with open_client(context.params.get("url")) as client:
            return [CompletionItem(name) for name in client.names(f"{escape(typed)}*")]
    except (FencelockError, click.UsageError):  # a completion has nowhere to say that
        return []


name_argument = click.argument("name", callback=checked(check_name), shell_complete=names_in_use)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
url_option = click.option(
    "--url",
    metavar="URL",
    callback=_inherit,  # it may stand before the command
    help="The engine, e.g. redis://localhost or sqlite:///locks.db. "
    "Default: $FENCELOCK_URL, or else a file in your state folder.",
)
nonblock_option = click.option(
    "-n", "--nonblock", is_flag=True, help="Don't wait: fail at once if the lock is not free."
)
timeout_option = duration_option(
    "-w",
    "--timeout",
    check=check_timeout,
    help="Wait no longer than this. Default: no limit.",
)
conflict_option = click.option(
    "-E",
    "--conflict-exit-code",
    "conflict",
    type=click.IntRange(0, 255),
    metavar="N",
    default=exits.CONFLICT,
    show_default=True,
    help="Exit code if the lock was not free in time.",
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print nothing if the lock was not free in time."
)
engine_argument = click.argument("engine", metavar="[URL]", required=False)
"""The URL as an argument, for commands that are about an engine and not about a name."""


def only_url(engine: str | None, url: str | None) -> str:
    """The URL that was given as an argument or with `--url`, or else the default."""
    from fencelock.client import default_url

    if engine is not None and url is not None:
        raise click.UsageError("The engine was given twice: as an argument and with --url.")
    return engine or url or default_url()


def service_module(name: str) -> Any:
    """A module of the lock service. It needs packages that may be missing, and that are slow to import."""
    try:
        return import_module(f"fencelock.service.{name}")
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"the lock service needs the package {error.name!r}: install it with: "
            "pip install 'fencelock[service]'"
        ) from error


def open_client(url: str | None) -> Client:
    """A client for the engine with this URL."""
    from fencelock.client import Client

    with usage_errors():
        client = Client(url)
    require_cross_process(client.traits)
    return client


def require_cross_process(traits: Traits) -> None:
    """Refuse an engine whose locks no other process can see."""
    if not traits.cross_process:
        raise click.UsageError(
            "the locks of this engine exist in one process only: use another --url."
        )
