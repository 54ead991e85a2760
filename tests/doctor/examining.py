"""Examining a URL, and looking a check up in what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import fencelock
from fencelock.doctor import Check, Report
from tests.waiting import InVain, eventually

PATIENT: dict[str, Any] = {"ttl": 600, "timeout": 10}
"""A busy machine that stalls for a second must not look like a slow server."""


def examined(url: Any, **options: Any) -> Report:
    """The report on a URL, by a blocking client."""
    with fencelock.Client(url) as client:
        return client.diagnose(**_patient(url) | options)


def examined_async(url: Any, **options: Any) -> Report:
    """The same by a client for asyncio."""

    async def examine() -> Report:
        async with fencelock.AsyncClient(url) as client:
            return await client.diagnose(**_patient(url) | options)

    return asyncio.run(examine())


def in_time(url: Any, holds: Callable[[Report], bool], what: str, **options: Any) -> Report:
    """The first report for which this holds. Servers need a moment to notice what a test has done."""

    seen: list[object] = []

    def look() -> Report | None:
        try:
            report = examined(url, **options)
        except fencelock.EngineError as error:
            seen.append(error)
            return None
        seen.append(report)
        return report if holds(report) else None

    try:
        report = eventually(look, what)
    except InVain as error:
        raise InVain(f"{error}; the last report: {seen[-1]}") from None
    assert report is not None
    return report


def _patient(url: Any) -> dict[str, Any]:
    """Session locks have no ttl, but a heartbeat in their URL."""
    sessions = isinstance(url, str) and "?heartbeat=" in url
    return PATIENT | {"ttl": None} if sessions else PATIENT


def check(report: Report, id: str) -> Check:
    """One check of a report."""
    (found,) = (each for each in report.checks if each.id == id)
    return found


def bad(report: Report) -> set[str]:
    """The ids of the bad checks."""
    return with_status(report, "bad")


def with_status(report: Report, *statuses: str) -> set[str]:
    """The ids of the checks with one of these statuses."""
    return {each.id for each in report.checks if each.status in statuses}
