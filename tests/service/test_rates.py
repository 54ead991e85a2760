"""Rates behind a service: what it refuses, and how it counts permits."""

from __future__ import annotations

import msgspec
import pytest

from fencelock.core.ticket import Place, Share
from fencelock.engines.http.wire import Answer, Enter, WireShare, WireTicket
from fencelock.service.app import Service
from tests.service.in_process import memory, serving
from tests.service.raw_line import RawLine, raw_line, ticket


def permit(group: str = Share.rate(2, 60.0).group) -> WireTicket:
    return msgspec.structs.replace(ticket("api"), share=WireShare(group, 1, 2))


async def asked(line: RawLine, group: str) -> Answer:
    return await line.ask(Enter([permit(group)], timeout=5.0))


async def test_a_permit_is_no_lease_that_somebody_has_to_release() -> None:
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line:
        for place in (Place.ADMITTED, Place.ADMITTED, Place.WAITING):
            assert (await line.enter(permit())).place is place
        assert len(service.acts.engine._seen) == 1, "only the waiter may still change"


async def test_what_a_service_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line:
        for group in ("rate ", "rate x", "rate 0"):
            problem = (await asked(line, group)).problem
            assert problem is not None
            assert "microseconds" in problem.detail
        engine = service.acts.engine
        weaker = engine.traits._replace(supports_rates=False)
        monkeypatch.setattr(type(engine), "traits", weaker)
        problem = (await asked(line, "rate 60000000")).problem
        assert problem is not None
        assert "can't limit a rate" in problem.detail
