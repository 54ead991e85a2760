"""What the doctor says of the engine of this replica: examined when somebody asks, once a minute at most."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import NamedTuple

import msgspec

from fencelock.core.errors import EngineError
from fencelock.doctor import Report, examine
from fencelock.doctor.verdict import MEANING
from fencelock.engines.contract import Engine
from fencelock.engines.http.wire import Diagnosis
from fencelock.io.contract import IO
from fencelock.service.live.wire import Verdict

EVERY = 60.0
"""Seconds for which a report is good. So nobody can burden the engine with examinations."""


class _Found(NamedTuple):
    """The end of an examination: a report, or why there is none."""

    at: float
    report: Report | None
    detail: str = ""


class Examination:
    """The newest report."""

    def __init__(self, engine: Engine, io: IO, replica: str) -> None:
        self._engine = engine
        self._io = io
        self._replica = replica
        self._task: asyncio.Task[_Found] | None = None
        self._began = 0.0
        self._last: _Found | None = None

    async def diagnosis(self, timeout: float) -> Diagnosis:
        """The newest report. `EngineError` if the examination takes longer than that."""
        try:
            async with asyncio.timeout(timeout):
                found = await self._found()
        except TimeoutError:
            raise EngineError(
                f"the examination takes longer than {timeout:.3g} s: ask again later",
                outcome="not applied",
            ) from None
        report = None if found.report is None else msgspec.to_builtins(found.report.as_json())
        return Diagnosis(self._replica, time.time(), found.at, report, found.detail)

    async def verdict(self, patience: float) -> Verdict | None:
        """What the live page shows. It names no server, because all that may look at the page see it.

        None if the engine could not be examined, or if the first examination takes longer than `patience`.
        """
        with suppress(EngineError):
            await self.diagnosis(0.0 if self._last else patience)
        report = self._last.report if self._last else None
        return report and Verdict(report.verdict, report.next or MEANING[report.verdict])

    async def close(self) -> None:
        """End an examination that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _found(self) -> _Found:
        if self._task is None or time.monotonic() > self._began + EVERY:
            self._began = time.monotonic()
            self._task = asyncio.create_task(self._examine())
        # Shielded: one that goes away must not end the examination for the others.
        return await asyncio.shield(self._task)

    async def _examine(self) -> _Found:
        try:
            report = await examine(self._engine, self._io)
            self._last = _Found(time.time(), report)
        except EngineError as error:
            self._last = _Found(time.time(), None, str(error))
        return self._last
