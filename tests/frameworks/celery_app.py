"""A Celery program with a client at module level. Only its worker imports this: see test_celery.py."""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery

import fencelock

URL = os.environ["FENCELOCK_URL"]

app = Celery("celery_app", broker=URL, backend=URL)
client = fencelock.Client(label="celery")
parents = client.lock("celery:parent", ttl=3600).acquire()  # before the pool is forked


@app.task(name="count")  # type: ignore[untyped-decorator]
@client.locked("celery:counter")
def count(lease: fencelock.Lease) -> dict[str, Any]:
    """Add one, in two steps that only a lock can keep together."""
    with redis.Redis.from_url(URL) as storage:
        before = int(storage.get("celery:count") or 0)
        storage.set("celery:count", before + 1)
    return {"pid": os.getpid(), "owner": lease.owner.pid, "fence": lease.fence}


@app.task(name="use_the_parents")  # type: ignore[untyped-decorator]
def use_the_parents() -> tuple[str, bool]:
    """What a child sees of the lease that its parent acquired."""
    try:
        parents.check()
    except fencelock.FencelockError as error:
        return str(error), client.lock("celery:parent").try_acquire() is None
    return "no error", False
