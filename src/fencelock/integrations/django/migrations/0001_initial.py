"""Creates the table of fences, as `SqlGuard` wants it in each database."""

from __future__ import annotations

from typing import Any

from django.db import migrations, router
from django.db.migrations.operations.base import Operation

from fencelock.guards import SqlGuard

_GUARD = SqlGuard()


class CreateFences(Operation):  # type: ignore[misc]  # Django ships no types
    """No model: its types and collations would not be those that the guard needs."""

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Django's models don't know of this table."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        self._run(app_label, schema_editor, _GUARD.schema(schema_editor.connection.vendor))

    def database_backwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        self._run(app_label, schema_editor, f"DROP TABLE {_GUARD.table}")

    def _run(self, app_label: str, schema_editor: Any, statement: str) -> None:
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            schema_editor.execute(statement)

    def describe(self) -> str:
        return "Create the table of fences"


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    operations = (CreateFences(),)
