"""Django: a client made of the settings, the table of fences as a migration, and `manage.py locked`.

Put `"fencelock.integrations.django"` into `INSTALLED_APPS`, and `FENCELOCK = {"URL": …}` into the settings.
Its keys are the arguments of `Client`, in capitals.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.functional import SimpleLazyObject

from fencelock.client import AsyncClient, Client
from fencelock.guards import SqlGuard


def options() -> dict[str, Any]:
    """The arguments of the clients, from the settings."""
    given = {key.lower(): value for key, value in getattr(settings, "FENCELOCK", {}).items()}
    given.setdefault("url", os.environ.get("FENCELOCK_URL"))
    if not given["url"]:  # the file that a client takes by default is no lock between machines
        raise ImproperlyConfigured(
            "say in the settings where the locks are, e.g. FENCELOCK = {'URL': 'redis://localhost'}, or set "
            "FENCELOCK_URL in the environment"
        )
    return given


client = cast(Client, SimpleLazyObject(lambda: Client(**options())))
"""For all blocking code of the project. Made at the first use; works in every thread and forked child."""

async_client = cast(AsyncClient, SimpleLazyObject(lambda: AsyncClient(**options())))
"""For async views."""


@contextmanager
def opened(using: str = DEFAULT_DB_ALIAS) -> Iterator[Any]:
    """A transaction of its own on one of the project's databases: what a guard needs to act alone.

    Inside of `atomic` it raises, because the fence would be stored only at the end of that block.
    """
    with transaction.atomic(using, durable=True):
        yield connections[using]


guard = SqlGuard(open=opened)
"""Refuses a stale holder's transaction in the default database."""
