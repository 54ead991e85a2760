"""Celery with its prefork pool: the worker imports the program, uses its client, and then forks."""

from __future__ import annotations

import os
import sys

import redis
from celery import Celery

import fencelock
from tests.program import Program
from tests.waiting import PATIENCE

TASKS = 20


def test_a_client_at_module_level_works_in_every_child(redis_url: str) -> None:
    app = Celery(broker=redis_url, backend=redis_url, set_as_current=False)
    app.conf.result_backend_thread_safe = True
    worker = Program(
        *(sys.executable, "-m", "celery", "-A", "tests.frameworks.celery_app", "worker"),
        *("--pool", "prefork", "--concurrency", "2", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        environment={**os.environ, "FENCELOCK_URL": redis_url, "C_FORCE_ROOT": "1"},
    )
    with worker, fencelock.Client(redis_url) as other:
        counted = [app.send_task("count") for _ in range(TASKS)]
        seen = [result.get(timeout=PATIENCE) for result in counted]
        assert all(each["pid"] == each["owner"] != worker.pid for each in seen)
        assert len({each["fence"] for each in seen}) == TASKS
        with redis.Redis.from_url(redis_url) as storage:
            assert int(storage.get("celery:count") or 0) == TASKS

        refusal, held = app.send_task("use_the_parents").get(timeout=PATIENCE)
        assert f"belongs to process {worker.pid}" in refusal
        assert held, "the parent's lease is unharmed"

        worker.terminate()
        assert worker.wait() == 0, worker.output
        lease = other.lock("celery:parent").try_acquire()
        assert lease is not None, "the parent released it when it ended"
        assert not lease.abandoned
        lease.release()
    app.close()
