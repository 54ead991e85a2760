"""APScheduler 3: each run of a job happens in one of many processes that have the same schedule."""

from __future__ import annotations

import re
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any

from apscheduler.executors.base import run_job
from apscheduler.executors.pool import ThreadPoolExecutor

from fencelock.client import Client
from fencelock.core.function_kind import is_async

_is_random = re.compile("[0-9a-f]{32}").fullmatch


class OnceExecutor(ThreadPoolExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """Runs each fire time of a job once, in the first process that comes, and skips it in all others.

    `keep` is how many seconds a fire time is remembered: longer than any process may be late. The fire times
    must be the same everywhere. So use cron or date triggers, or give an interval its `start_date`; and give
    each job an id. What failed is not tried by another process.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = "apscheduler:",
        keep: float = 3600.0,
        max_workers: int = 10,
    ) -> None:
        super().__init__(max_workers)
        self._client = client
        self._prefix = prefix
        self._keep = keep
        self._once(prefix, lambda: None)  # an engine that can't do this is refused here

    def _once(self, name: str, work: Any) -> Any:
        return self._client.scheduled(name, at_most_every=self._keep)(work)

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        _check(job)
        self._pool.submit(self._run, job, run_times).add_done_callback(partial(self._ended, job.id))

    def _run(self, job: Any, run_times: list[datetime]) -> list[Any]:
        """What this process did of it, as events for the scheduler."""
        events: list[Any] = []
        for run_time in run_times:
            name = f"{self._prefix}{job.id} {run_time.astimezone(UTC).isoformat()}"
            run = partial(run_job, job, job._jobstore_alias, [run_time], self._logger.name)
            self._once(name, lambda run=run: events.extend(run()))()
        return events

    def _ended(self, job_id: str, future: Future[list[Any]]) -> None:
        error = future.exception()
        if error is None:
            self._run_job_success(job_id, future.result())
        else:
            self._run_job_error(job_id, error, error.__traceback__)


def _check(job: Any) -> None:
    """Refuse a job that would run in every process. APScheduler logs the error."""
    if _is_random(job.id):
        raise ValueError(
            f"{job.name}: give the job an id, so that it has the same one in every process"
        )
    if getattr(job.trigger, "jitter", None):
        raise ValueError(
            f"{job.id}: with jitter, each process has fire times of its own: leave it out"
        )
    if is_async(job.func):
        raise TypeError(
            f"{job.id}: this executor runs functions in threads. Decorate a coroutine function with "
            "@client.scheduled(…) of an AsyncClient, and use the scheduler's own executor"
        )
