"""`fencelock schema`: what an engine keeps in a database, as plain SQL."""

from __future__ import annotations

from importlib import import_module

import click

# engine -> the module whose script(schema) has the SQL
_SCHEMAS = {
    "mysql": "fencelock.engines.mysql.schema",
    "postgresql": "fencelock.engines.postgresql.schema",
}


@click.command(
    epilog="""\b
Examples:
  fencelock schema postgresql | psql service=app
  fencelock schema postgresql --schema locks > migrations/0042-locks.sql
  fencelock schema mysql | mariadb app""",
)
@click.argument("engine", type=click.Choice(sorted(_SCHEMAS)))
@click.option(
    "--schema",
    default="fencelock",
    help="The schema to put it in; in MySQL, what its names begin with. Default: fencelock.",
)
def schema(engine: str, schema: str) -> None:
    """Print the tables and functions that ENGINE needs in its database.

    Fencelock makes them itself when they are first needed. This is for databases in which the
    application's user may not create anything: let their owner run it.
    """
    if not (schema.isidentifier() and schema.isascii() and schema.islower()):
        raise click.UsageError("a schema's name is lower-case letters, digits and underscores.")
    click.echo(import_module(_SCHEMAS[engine]).script(schema), nl=False)
