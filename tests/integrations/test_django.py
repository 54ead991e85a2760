"""A Django project made of the page's own examples, on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.guards.stores import mysql_options
from tests.integrations.pages import tables, write_files
from tests.program import Program
from tests.waiting import eventually

MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
"""
MODELS = """
from django.db import models
class Order(models.Model):
    state = models.CharField(max_length=9, default="new")
"""
SETTINGS = """
import pymysql
pymysql.install_as_MySQLdb()
SECRET_KEY = "secret"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"},
    "postgresql": {"ENGINE": "django.db.backends.postgresql", **POSTGRESQL},
    "mysql": {"ENGINE": "django.db.backends.mysql", **MYSQL},
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project on SQLite: for both the data and the locks."""
    write_files("django.md", tmp_path, redis=f"sqlite:///{tmp_path}/locks.db")
    (tmp_path / "manage.py").write_text(MANAGE)
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text(MODELS)
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write("POSTGRESQL, MYSQL = {}, {}\n" + SETTINGS)
    return tmp_path


def run(project: Path, *words: str) -> Program:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings"}
    environment.pop("FENCELOCK_URL", None)
    return Program(sys.executable, *words, folder=project, environment=environment)


def output_of(project: Path, source: str) -> str:
    with run(project, "-c", "import django; django.setup()\n" + source) as program:
        assert program.end() == 0, program.output
        return program.output


IN_USE = """
from django.core.management import CommandError, call_command
from django.db import connection, transaction
call_command("migrate", run_syncdb=True, verbosity=0)

from shop.models import Order
from shop.payments import client, guard, pay, report
order = Order.objects.create()
pay(order.pk)
order.refresh_from_db()
assert order.state == "paid"
assert report("monday") == "built monday"

old = client.lock("x", guard=guard).acquire()
client.break_lock("x")
new = client.lock("x", guard=guard).acquire()
try:
    with transaction.atomic():
        Order.objects.create()
        guard.check(connection, old)
except Exception as error:
    print(type(error).__name__, Order.objects.count())
new.release()

try:
    with transaction.atomic(), client.lock("x", guard=guard):
        pass
except RuntimeError as error:
    print(error)
with client.lock("x", timeout=60):
    pass  # it was given back

try:
    call_command("locked", "x")
except CommandError as error:
    print(error)

from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from fencelock.integrations.django import options
with override_settings(FENCELOCK={"TTL": 30}):
    try:
        options()
    except ImproperlyConfigured as error:
        print(error)
"""


def test_a_project_like_that_of_the_page(project: Path) -> None:
    said = output_of(project, IN_USE)
    assert "StaleFence 1\n" in said, "the transaction was rolled back"
    assert "durable" in said
    assert "call it from a shell" in said
    assert "say in the settings where the locks are" in said


EVERY_DATABASE = """
from functools import partial
import fencelock
from django.core.management import call_command
from django.db import connections, transaction
from fencelock.guards import SqlGuard
from fencelock.integrations.django import client, opened

for alias in ("postgresql", "mysql"):
    connection = connections[alias]
    try:
        call_command("migrate", "fencelock", database=alias, verbosity=0)
        guard = SqlGuard(open=partial(opened, alias))
        with client.lock("x", guard=guard) as old:
            assert guard.newest(connection, "x") == old.fence
        with client.lock("x", guard=guard) as new:
            try:
                with transaction.atomic(using=alias):
                    guard.check(connection, old)
            except fencelock.StaleFence as error:
                print(alias, error.newest == new.fence)
        call_command("sqlmigrate", "fencelock", "0001", database=alias)
        call_command("migrate", "fencelock", "zero", database=alias, verbosity=0)
        assert "fences" not in connection.introspection.table_names()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS fences")
            cursor.execute("DROP TABLE IF EXISTS django_migrations")
"""


def test_the_migration_on_servers(project: Path, postgresql_url: str, mysql_url: str) -> None:
    settings = project / "settings.py"
    known = f"POSTGRESQL, MYSQL = {of_django(postgresql_url)}, {of_django(mysql_url)}\n"
    settings.write_text(settings.read_text().replace("POSTGRESQL, MYSQL = {}, {}\n", known))
    said = output_of(project, EVERY_DATABASE)
    assert "postgresql True" in said
    assert "mysql True" in said
    assert 'COLLATE "C"' in said, "sqlmigrate shows the statement"


def of_django(url: str) -> dict[str, Any]:
    """The settings of a database."""
    known = mysql_options(url)
    return {"NAME": known.pop("database"), **{key.upper(): value for key, value in known.items()}}


def test_migrate_waits_for_its_turn(project: Path) -> None:
    with (project / "settings.py").open("a") as settings:
        settings.write("from datetime import timedelta\n")
        settings.write("FENCELOCK |= {'NAMESPACE': 'shop', 'TTL': timedelta(seconds=30)}\n")
    url = f"sqlite:///{project}/locks.db"
    with fencelock.Client(url, namespace="shop", label="another pod") as locks:
        lease = locks.lock("migrate").acquire()
        with run(
            project, "manage.py", "locked", "migrate", "--", "migrate", "fencelock"
        ) as waiting:
            eventually(lambda: locks.inspect("migrate").waiting, "the command to wait")
            (waiter,) = locks.inspect("migrate").waiters
            assert waiter.owner.label == "migrate"
            assert "fences" not in tables(project / "site.db")
            lease.release()
            assert waiting.end() == 0, waiting.output
            assert "Applying fencelock.0001_initial... OK" in waiting.output
    assert "fences" in tables(project / "site.db")
