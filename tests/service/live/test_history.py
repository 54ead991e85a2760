"""What a replica remembers of what happened to names, and how it forgets."""

from __future__ import annotations

import gc
from itertools import count

import aiohttp
import pytest

from fencelock.core.ticket import Owner, Place
from fencelock.engines.http.wire import Enter, Evict, WireOwner
from fencelock.observe.events import GaveUp, Granted, Lost, Released
from fencelock.service import sightings
from fencelock.service.app import Service
from fencelock.service.live import history
from fencelock.service.live.history import History
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import soon

OWNER = Owner("host", 1, "tests")


async def test_what_happened_to_a_name() -> None:
    service = Service(memory())
    told = service.watch.history
    async with serving(service) as url, raw_line(url) as line:
        holder, waiter, giving_up = ticket("order:1"), ticket("order:1"), ticket("order:1")
        first = (await line.enter(holder)).fence
        await line.enter(waiter)
        await line.enter(giving_up)
        await line.leave(giving_up)
        await line.leave(holder)
        second = (await line.wake()).standing
        assert second is not None
        await line.ask(Evict("order:1", timeout=5.0))
        assert await line.renew(waiter) is Place.GONE
        await line.enter(ticket("order:2"))

        found = told.of("order:1")
        words = ["granted", "gave up", "released", "granted", "broken", "lost"]
        assert [each.event for each in reversed(found)] == words
        assert [each.time for each in found] == sorted((each.time for each in found), reverse=True)
        assert {each.replica for each in found} == {service.replica}
        lost, broken, granted, released, gave_up, _ = found
        assert (released.fence, granted.fence, broken.fence) == (first, second.fence, second.fence)
        assert (broken.by, broken.owner) == ("everybody", None)
        assert (lost.reason, lost.fence) == ("evicted", second.fence)
        assert granted.owner == lost.owner == WireOwner("host", 1, "tests")
        assert released.held_for is not None
        assert granted.waited is not None
        assert gave_up.waited is not None
        assert gave_up.fence == ""
        assert [each.event for each in told.of("order:2")] == ["granted"]
        assert told.of("order:3") == told.of("other") == []
        assert told.forgotten_before("order:1") is None
        assert told.since("order:1") == told.started


async def test_a_write_that_is_refused() -> None:
    """All that a replica knows of it is that a guard somewhere asked about a fence."""
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line, aiohttp.ClientSession() as session:
        fence = (await line.enter(ticket("order:1"))).fence
        for asked in (str(int(fence) - 1), fence):
            body = {"name": "order:1", "fence": asked}
            async with session.post(f"{url}/v1/fences/check", json=body) as answer:
                assert answer.status == (200 if asked == fence else 409)
        async with session.get(f"{url}/metrics") as answer:
            metrics = await answer.text()
    (refused, _) = service.watch.history.of("order:1")
    assert (refused.event, refused.owner) == ("refused write", None)
    assert (refused.fence, refused.newest) == (str(int(fence) - 1), fence)
    assert 'fencelock_stale_fences_total{group="other",guard="check"} 1.0' in metrics


async def test_a_holder_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sightings, "_GRACE", 0.0)
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line:
        await line.enter(ticket("x", ttl=0.1))

        async def admitted() -> bool:
            answer = await line.ask(Enter([ticket("x")], timeout=5.0, if_free=True))
            assert answer.standings
            assert answer.standings[0]
            return answer.standings[0].place is Place.ADMITTED

        await soon(admitted, "the silent lease to expire")
        service.watch.engine.forget_the_silent()
        silent, after, before = service.watch.history.of("x")
    assert [each.event for each in (silent, after, before)] == ["silent", "granted", "granted"]
    assert (before.abandoned, after.abandoned) == (False, True)
    assert silent.fence == before.fence
    assert silent.held_for is not None


class Story:
    """Tells a history of leases of which no server needs to know."""

    def __init__(self) -> None:
        self.history = History("replica")
        self._numbers = count(1)

    def holds(self, name: str, *seconds: float, lost: bool = False) -> None:
        """The name was held for so long, one time after the other."""
        for each in seconds:
            fence = next(self._numbers)
            about = (name, "memory", "lock", OWNER._replace(data="x" * 1000), fence)
            self.history.record(Granted, (*about, 0.0, fence, False))
            if lost:
                self.history.record(Lost, (*about, fence, each, "expired"))
            else:
                self.history.record(Released, (*about, fence, each, False))

    def kept(self) -> list[history._Kept]:
        rings = self.history._prefixes.values()
        return [kept for each in rings for kept in (*each.common, *each.rare)]


def test_a_flood_leaves_other_prefixes_and_what_is_rare() -> None:
    story = Story()
    story.holds("nightly-report", 1.0)
    story.holds("order:0", 1.0, lost=True)
    for number in range(1, 3000):
        story.holds(f"order:{number}", 1.0)
    told = story.history
    assert [each.event for each in told.of("nightly-report")] == ["released", "granted"]
    assert [each.event for each in told.of("order:0")] == ["lost"]
    assert told.of("order:1") == []
    assert len(told.of("order:2999")) == 2
    forgotten = told.forgotten_before("order:2999")
    assert forgotten is not None
    assert told.started < forgotten == told.since("order:0") < told.of("order:2999")[-1].time
    assert told.forgotten_before("nightly-report") is None


def test_what_is_kept_is_bounded_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "COMMON", 128)
    monkeypatch.setattr(history, "RARE", 64)
    monkeypatch.setattr(history, "MOST_PREFIXES", 64)
    story = Story()
    for turn in range(10):
        for number in range(3 * turn + 3):
            story.holds(f"{number}/{turn}", 1.0, lost=bool(number % 2))
            assert len(story.kept()) <= 128 + 64
    gc.collect()
    assert not any(gc.is_tracked(kept) for kept in story.kept())
    assert "x" * 1000 not in str(story.kept())  # the owner's data

    story.holds("first", 1.0)
    for number in range(40):
        story.holds(f"name-{number}", 1.0)
    assert len(story.history._prefixes) <= 64
    assert story.history.of("first"), "a prefix that is not among the oldest quarter"
    for number in range(64):
        story.holds(f"other-{number}", 1.0)
    assert story.history.of("first") == []
    forgotten = story.history.forgotten_before("first")
    assert forgotten is not None
    assert forgotten > story.history.started
    story.holds("first", 1.0)
    assert story.history.since("first") >= forgotten


def test_how_long_a_name_is_usually_held() -> None:
    story = Story()
    usual = story.history.usual
    story.holds("order:1", 1.0, 2.0, 9.0, 2.0)
    assert usual("order:1") is None
    story.holds("order:1", 3.0)
    assert usual("order:1") == (2.0, "name")
    assert usual("order:2") is None
    story.holds("order:3", *[5.0] * 4)
    story.holds("order:2", *[7.0] * 2, lost=True)
    for number in range(10, 21):
        story.holds(f"order:{number}", 5.0)
    assert usual("order:2") == (5.0, "prefix")
    assert usual("order:1") == (2.0, "name")
    assert usual("payment:1") is None


def test_an_answer_is_not_endless() -> None:
    story = Story()
    story.holds("x", *[1.0] * 150)
    story.history.record(GaveUp, ("x", "memory", "lock", OWNER, 0, 1.5))
    found = story.history.of("x")
    assert len(found) == history.MOST_ENTRIES
    assert (found[0].event, found[0].waited) == ("gave up", 1.5)
