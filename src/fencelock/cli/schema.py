"""`fencelock schema`: the tables and functions of an engine, as SQL."""

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
    help="The schema of the tables; in MySQL the prefix of their names.",
    show_default=True,
)
def schema(engine: str, schema: str) -> None:
    """Print the tables and functions that an engine needs in its database.

    Fencelock creates them itself when it first needs them. Use this if the application's user may not
    create tables: let the owner of the database run the output.
    """
    if not (schema.isidentifier() and schema.isascii() and schema.islower()):
        raise click.UsageError(
            "the name of a schema must be lower-case letters, digits and underscores."
        )
    click.echo(import_module(_SCHEMAS[engine]).script(schema), nl=False)
