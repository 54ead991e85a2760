"""`fencelock acquire`, `renew` and `release`: a lease for scripts that can't wrap a command."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import (
    checked,
    conflict_option,
    duration_option,
    json_option,
    name_argument,
    nonblock_option,
    open_client,
    quiet_option,
    timeout_option,
    url_option,
)
from fencelock.core.durations import check_ttl
from fencelock.core.errors import FencelockError, LeaseLost, LockTimeout, Unsupported
from fencelock.engines.contract import NOT_PORTABLE

if TYPE_CHECKING:
    from fencelock.client import Client
    from fencelock.primitives.lease import Lease

ID = "FENCELOCK_ID"
TTL = "FENCELOCK_TTL"

_CODES = """\b
Exit codes:
  {first}
  64     the command line is wrong
  69     the engine can't be reached, or can't do what was asked"""


def _id_file(text: str) -> Path:
    path = Path(text)
    if text != "-" and not path.parent.is_dir():
        raise ValueError(f"the folder {str(path.parent)!r} does not exist: make it first")
    return path


id_file_option = click.option(
    "--id-file",
    metavar="FILE",
    callback=checked(_id_file),
    help=f"Where the id of the lease is kept. Default: ${ID}.",
)


@click.command(
    epilog="""\b
Examples:
  lease=$(fencelock acquire nightly --ttl 5m) || exit
  eval "$lease"
  ./first-step.sh && fencelock renew nightly && ./second-step.sh
  fencelock release nightly

"""
    + _CODES.format(first="1      the lock was not free in time (-E chooses another code)")
)
@name_argument
@duration_option(
    "--ttl",
    required=True,
    check=check_ttl,
    help="How long the lock stays taken unless `fencelock renew` is called.",
)
@nonblock_option
@timeout_option
@conflict_option
@click.option("--label", default="fencelock acquire", help="How `ls` and `show` name you.")
@quiet_option
@id_file_option
@json_option
@url_option
@click.pass_context
def acquire(
    context: click.Context,
    name: str,
    ttl: float,
    nonblock: bool,
    timeout: float | None,
    conflict: int,
    label: str,
    quiet: bool,
    id_file: Path | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Acquire the lock NAME and end. The lock stays held until it is released or the ttl has passed.

    Prints what a shell can `eval`: FENCELOCK_ID, FENCELOCK_NAME, FENCELOCK_FENCE, FENCELOCK_TTL, and
    FENCELOCK_ABANDONED=1 if the previous holder did not release the lock. The id is a secret: with it anybody
    can release the lock. With --id-file it is written to a file that only you can read, and not printed.

    Nobody renews the lease or stops your script when it is lost. `fencelock run` does both: use that if you
    can.
    """
    if nonblock and timeout is not None:
        raise click.UsageError("-n does not wait: leave out -w.", context)
    with exits.exit_on_signals(), open_client(url) as client:
        _require_portable(client)
        lock = client.lock(name, ttl=ttl, renew=False, label=label)
        try:
            lease = lock.acquire(0.0 if nonblock else timeout)
        except LockTimeout as error:
            if not quiet:
                say(str(error))
            context.exit(conflict)
        with lease:  # until the caller can have the id
            _require_portable(client)
            if id_file is not None:
                _write(id_file, lease.id)
            try:
                _print(_facts(lease, secret=id_file is None, as_json=as_json))
            except OSError as error:
                raise FencelockError(
                    f"can't print the lease, so it was released: {error}"
                ) from None
            lease.detach()


@click.command(
    epilog=_CODES.format(first="119    the lease was lost: stop, and don't write"),
)
@name_argument
@duration_option(
    "--ttl",
    required=True,
    envvar=TTL,
    check=check_ttl,
    help=f"How long the lock stays taken from now on. Default: ${TTL}.",
)
@id_file_option
@json_option
@url_option
@click.pass_context
def renew(
    context: click.Context,
    name: str,
    ttl: float,
    id_file: Path | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Renew the lease that `fencelock acquire NAME` has acquired. It is a check, too: see the exit codes.

    The id is in $FENCELOCK_ID, or in a file: `--id-file -` reads it from stdin.
    """
    with exits.exit_on_signals(), open_client(url) as client:
        lease = _attached(context, client, name, id_file, ttl=ttl)
        facts = _facts(lease, secret=False, as_json=True)
        lease.detach()  # before anything else can fail: a client that closes releases what it holds
        if as_json:
            try:
                _print(facts)
            except OSError as error:
                raise FencelockError(
                    f"the lease is renewed, but can't be printed: {error}"
                ) from None


@click.command(
    epilog=_CODES.format(
        first="119    the lease was lost before: the work was not protected to its end"
    ),
)
@name_argument
@id_file_option
@url_option
@click.pass_context
def release(context: click.Context, name: str, id_file: Path | None, url: str | None) -> None:
    """Release the lease that `fencelock acquire NAME` has acquired.

    The id is in $FENCELOCK_ID, or in a file: `--id-file -` reads it from stdin.
    """
    with exits.exit_on_signals(), open_client(url) as client:
        _attached(context, client, name, id_file).release()


def _attached(
    context: click.Context, client: Client, name: str, id_file: Path | None, **options: Any
) -> Lease:
    id = _id(context, id_file)
    try:
        return client.attach(name, id, **options)
    except LeaseLost as error:
        say(f"there is no such lease on {name!r}: {error.reason}")
        context.exit(exits.LOST)
    except ValueError as error:
        raise click.UsageError(f"{error}.", context) from None


def _id(context: click.Context, id_file: Path | None) -> str:
    if id_file is None:
        id = os.environ.get(ID, "")
        if not id:
            raise click.UsageError(
                f"there is no id of a lease: put what `fencelock acquire` printed into ${ID}, or say where "
                "it is with --id-file.",
                context,
            )
        return id.strip()
    try:
        with click.open_file(str(id_file), errors="replace") as file:
            return str(file.read(1000)).strip()
    except OSError as error:
        raise click.UsageError(f"can't read {str(id_file)!r}: {error.strerror}.", context) from None


def _write(path: Path, id: str) -> None:
    """Write the id to a file that only this user can read. A file that is there is replaced."""
    if str(path) == "-":
        raise click.UsageError("--id-file - is for renew and release: give a file.")
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(new, flags, stat.S_IRUSR | stat.S_IWUSR), "w") as file:
            file.write(f"{id}\n")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise click.UsageError(f"can't write {str(path)!r}: {error.strerror}.") from None


def _require_portable(client: Client) -> None:
    if not client.traits.portable:
        raise Unsupported(f"{NOT_PORTABLE}; or `fencelock run`")


def _print(text: str) -> None:
    """Print it at once. `OSError` if that can't be done."""
    if sys.stdout is None:  # it was closed when this program started
        raise OSError("stdout is closed")
    click.echo(text)
    sys.stdout.flush()


def _facts(lease: Lease, *, secret: bool, as_json: bool) -> str:
    facts: dict[str, Any] = {
        "name": lease.name,
        "fence": lease.fence,
        "ttl": lease.ttl,
        "abandoned": lease.abandoned,
    }
    if secret:
        facts["id"] = lease.id
    if as_json:
        return json.dumps({**facts, "expires_in": round(lease.remaining(), 3)}, indent=2)
    facts |= {"ttl": f"{lease.ttl:g}", "abandoned": "1" if lease.abandoned else ""}
    words = [f"FENCELOCK_{key.upper()}={shlex.quote(str(value))}" for key, value in facts.items()]
    return f"export {' '.join(words)}"
