"""`fencelock token`: the tokens of the lock service."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import checked, json_option, service_module, usage_errors
from fencelock.cli.tables import print_table
from fencelock.core.durations import seconds

if TYPE_CHECKING:
    from fencelock.service.tokens import Credential


def _file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir():
        raise ValueError(f"the folder {str(path.parent)!r} does not exist: make it first")
    return path


def _lifetime(text: str) -> float:
    if text == "never":
        return math.inf
    lifetime = seconds(text)
    if not 0 < lifetime <= 100 * 366 * 86_400:
        raise ValueError(f"{text!r} is not a lifetime: give for example 90d, or never")
    return lifetime


def _rights(given: tuple[str, ...]) -> dict[str, list[str]]:
    rights: dict[str, list[str]] = {}
    for each in given:
        right, equals, pattern = each.partition("=")
        if not equals or not pattern:
            raise ValueError(f"{each!r} is not RIGHT=PATTERN, such as lock=order:*")
        rights.setdefault(right, []).append(pattern)
    return rights


_file_option = click.option(
    "--file",
    required=True,
    metavar="FILE",
    callback=checked(_file),
    envvar="FENCELOCK_SERVE_TOKENS",
    show_envvar=True,
    help="The file of tokens.",
)


@click.group()
def token() -> None:
    """Make, list and revoke tokens of the lock service.

    Replicas read the file again at SIGHUP.
    """


@token.command(
    epilog="""\b
Example:
  fencelock token new billing --file tokens.toml --right lock=order:* --right read=* --expires 90d""",
)
@click.argument("name")
@_file_option
@click.option(
    "--right",
    "rights",
    multiple=True,
    required=True,
    metavar="RIGHT=PATTERN",
    callback=checked(_rights),
    help="read, lock, break or admin, for the names that match. Several times, if you like.",
)
@click.option(
    "--expires",
    default="90d",
    show_default=True,
    metavar="DURATION",
    callback=checked(_lifetime),
    help="For example 12h, 90d, or never.",
)
def new(name: str, file: Path, rights: dict[str, list[str]], expires: float) -> None:
    """Make a token for the principal NAME, and print it.

    It is shown only now: the file has its hash. A principal may have several tokens, for example while a
    new one replaces the old one.
    """
    with usage_errors():
        made = service_module("tokens").new_token(file, name, rights, expires)
    say(f"a new token of {name}; keep it, it is shown only once. Replicas read {file} at SIGHUP:")
    click.echo(made)


@token.command()
@_file_option
@json_option
def ls(file: Path, as_json: bool) -> None:
    """List tokens and certificates, without anything secret."""
    with usage_errors():
        keys = service_module("tokens").read_keys(file)
    listed = [*keys.tokens.values(), *keys.certificates.values()]
    if as_json:
        click.echo(json.dumps([_as_json(each) for each in listed], indent=2, ensure_ascii=False))
    elif listed:
        rows = [
            (each.name, each.label, _expiry(each) or "never", _described(each)) for each in listed
        ]
        print_table(("NAME", "CREDENTIAL", "EXPIRES", "RIGHTS"), rows)


@token.command()
@click.argument("who", metavar="NAME_OR_ID")
@_file_option
@click.pass_context
def revoke(context: click.Context, who: str, file: Path) -> None:
    """Delete all tokens of a principal, or the token with this id.

    Replicas refuse them from the next SIGHUP on, and close their lines. Exit code 1 means that there was
    none.
    """
    with usage_errors():
        if not file.exists():
            raise ValueError(f"{file} does not exist")
        ids = service_module("tokens").revoke_tokens(file, who)
    if not ids:
        say(f"{file} has no token of {who!r}")
        context.exit(exits.CONFLICT)
    say(f"revoked: {', '.join(ids)}. Send SIGHUP to the replicas")


def _expiry(each: Credential) -> str | None:
    if each.expires == math.inf:
        return None
    return datetime.fromtimestamp(each.expires, UTC).isoformat(timespec="seconds")


def _described(each: Credential) -> str:
    pairs = (
        f"{right}={pattern}" for right, patterns in each.listed.items() for pattern in patterns
    )
    return " ".join(pairs)


def _as_json(each: Credential) -> dict[str, Any]:
    kind, _, id = each.label.partition(" ")
    return {
        "name": each.name,
        kind: id,
        "expires": _expiry(each),
        "rights": each.listed,
    }
