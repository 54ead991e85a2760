"""APScheduler: two schedulers with the same jobs. They share nothing but the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler

import fencelock
from fencelock.integrations.apscheduler import OnceExecutor
from tests.waiting import eventually

MIDNIGHT = datetime(2025, 1, 1, tzinfo=UTC)  # long ago, so nobody waits for it


def run(clients: list[fencelock.Client], job: Callable[..., Any], **options: Any) -> list[Any]:
    """Let a scheduler for each client start the job, and return all events, when all have ended."""
    events: list[Any] = []
    schedulers = [
        BackgroundScheduler(executors={"default": OnceExecutor(client)}, timezone="UTC")
        for client in clients
    ]
    for scheduler in schedulers:
        scheduler.add_listener(events.append, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        scheduler.add_job(job, "date", misfire_grace_time=None, **options)
        scheduler.start()
    eventually(lambda: not any(each.get_jobs() for each in schedulers), "the fire time")
    for scheduler in schedulers:
        scheduler.shutdown(wait=True)
    return events


@pytest.fixture
def clients(request: pytest.FixtureRequest) -> Iterator[list[fencelock.Client]]:
    made = [fencelock.Client(f"memory://{request.node.name}") for _ in range(2)]
    yield made
    for client in made:
        client.close()


def test_one_of_two_runs_each_fire_time(clients: list[fencelock.Client]) -> None:
    ran: list[str] = []
    for run_date in (MIDNIGHT, MIDNIGHT + timedelta(days=1)):
        for _ in range(2):  # the second time it is too late for all
            run(clients, ran.append, args=[run_date.ctime()], run_date=run_date, id="report")
    assert ran == ["Wed Jan  1 00:00:00 2025", "Thu Jan  2 00:00:00 2025"]


def test_what_failed_is_not_tried_elsewhere(clients: list[fencelock.Client]) -> None:
    def fail() -> None:
        raise RuntimeError("no paper")

    (event,) = run(clients, fail, run_date=MIDNIGHT, id="fail")
    assert str(event.exception) == "no paper"


async def coroutine_function() -> None: ...


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "give the job an id"),
        ({"id": "x", "trigger": "cron", "jitter": 1}, "leave it out"),
        ({"id": "x", "func": coroutine_function}, "AsyncClient"),
    ],
)
def test_a_job_that_every_process_would_run(options: dict[str, Any], complaint: str) -> None:
    executor = OnceExecutor(fencelock.Client("memory://"))
    scheduler = BackgroundScheduler(executors={"default": executor}, timezone="UTC")
    scheduler.start(paused=True)
    job = scheduler.add_job(**{"func": print, **options})
    with pytest.raises((ValueError, TypeError), match=complaint):
        executor.submit_job(job, [MIDNIGHT])
    scheduler.shutdown()


def test_an_engine_that_is_away_runs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    away = fencelock.Client("redis://127.0.0.1:1")  # nothing listens there
    assert run([away], print, run_date=MIDNIGHT, id="report") == []
    assert "Error running job report" in caplog.text


def test_an_engine_that_can_not_remember_is_refused_at_once() -> None:
    with pytest.raises(fencelock.Unsupported, match="can't keep"):
        OnceExecutor(fencelock.Client("redlock://a,b,c"))
