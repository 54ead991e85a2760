"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fencelock.core.names import check_name

if TYPE_CHECKING:
    from fencelock.client import Client
    from fencelock.engines.contract import Traits

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def refused(parameter: click.Parameter | None = None) -> Iterator[None]:
    """What the library says to values that can't be right is about the command line."""
    try:
        yield
    except ValueError as error:
        if parameter is None:
            raise click.UsageError(f"{error}.") from error
        raise click.BadParameter(f"{error}.", param=parameter) from error


def checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    """Have a value, if one is given, checked by one of the library's own functions."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        with refused(parameter):
            return value if value is None else check(value)

    return callback


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Seconds from a number that may have a unit: 90, 15m, 1h, 1d."""
    unit = text[-1:] if text[-1:] in UNITS else ""
    try:
        return float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
    except ValueError:
        raise ValueError(f"{text!r} is no duration: give seconds, or e.g. 15m, 1h, 1d") from None


def name_argument(function: F) -> F:
    """`NAME`: what is protected."""
    return click.argument("name", callback=checked(check_name))(function)


def url_option(function: F) -> F:
    """`--url`, given before or after the command; else `FENCELOCK_URL`, else the default file."""
    return click.option(
        "--url",
        metavar="URL",
        callback=_inherit,
        help="Which engine, e.g. redis://localhost or sqlite:///locks.db. "
        "Default: $FENCELOCK_URL, or a file in your state folder.",
    )(function)


def _inherit(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None and context.parent is not None:
        inherited: str | None = context.parent.params.get("url")
        return inherited
    return value


def json_option(function: F) -> F:
    """`--json`: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )


def open_client(url: str | None) -> Client:
    """A client for the engine that was asked for."""
    from fencelock.client import Client

    with refused():
        client = Client(url)
    must_be_shared(client.traits)
    return client


def must_be_shared(traits: Traits) -> None:
    """A lock that no other process can see would keep nobody out."""
    if not traits.cross_process:
        raise click.UsageError("this engine lives in one process only: use another --url.")
