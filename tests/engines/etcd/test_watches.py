"""What watches tell waiters: in order, once, and nothing that they know already."""

import sys
import threading
from collections.abc import Iterator

import pytest

from fencelock.core.ticket import ALONE, Share
from fencelock.engines.etcd.admission import Ahead, Blockers
from fencelock.engines.etcd.messages_pb2 import Event, KeyValue
from fencelock.engines.etcd.watches import Watch, Watcher
from fencelock.io.blocking import BlockingIO

KEY = b"key"


def ahead(fence: int, key: bytes = KEY, share: Share = ALONE) -> Ahead:
    return Ahead(key, fence, fence, 30.0, share)


def watcher(*those: Ahead, lacking: int = 0, revision: int = 10) -> Watcher:
    return Watcher(Blockers(those, lacking), revision, BlockingIO().event(), renewed)


def put(revision: int, created: int) -> Event:
    return Event(
        type=Event.PUT, kv=KeyValue(key=KEY, mod_revision=revision, create_revision=created)
    )


def delete(revision: int) -> Event:
    return Event(type=Event.DELETE, kv=KeyValue(key=KEY, mod_revision=revision))


def renewed(kv: KeyValue) -> Ahead:
    return ahead(kv.create_revision)


def watch(since: int = 5, *events: Event, own: bool = False) -> Watch:
    it = Watch(1, KEY, own)
    it.begin(since)
    for event in events:
        it.report(event)
    return it


def joined(it: Watch, one: Watcher) -> Watcher:
    it.join(one)
    return one


def looks(one: Watcher) -> bool:
    return one.must_look


def test_a_late_watcher_is_told_what_happened_after_it_looked() -> None:
    assert joined(watch(5, delete(11)), watcher(ahead(8))).must_look
    assert joined(watch(5, delete(11), put(12, 12)), watcher(ahead(8))).must_look, (
        "it is another one"
    )
    just_renewed = joined(watch(5, put(11, 8)), watcher(ahead(8)))
    assert just_renewed.renewed
    assert not just_renewed.must_look
    assert joined(watch(5, delete(11), own=True), watcher(ahead(8, b"other"))).must_look


def test_a_late_watcher_is_not_told_what_it_knew() -> None:
    assert not joined(watch(5, delete(7), put(8, 8)), watcher(ahead(8))).must_look
    assert not joined(watch(5, delete(7), own=True), watcher(ahead(8, b"other"))).must_look


def test_a_watcher_that_knows_less_than_where_a_watch_begins_looks_once() -> None:
    first, second = Watch(1, KEY, own=False), Watch(2, b"own", own=True)
    one = watcher(ahead(8))
    for it in (first, second):
        joined(it, one)
    first.begin(11)
    assert not looks(one), "not before it hears all"
    second.begin(9)  # at another server, which lags behind
    assert looks(one)
    assert one.late
    assert not joined(first, watcher(ahead(8), revision=11)).must_look


def test_after_a_break_everything_begins_anew() -> None:
    it = watch(5)
    one = joined(it, watcher(ahead(8)))
    it.end()
    assert one.not_begun
    it.begin(10)
    assert not looks(one), "nothing has happened meanwhile"
    it.end()
    it.end()
    it.begin(12)
    assert looks(one)


def test_a_watcher_that_lacks_permits_waits_until_enough_have_gone() -> None:
    share = Share.of(3)
    first, second = Watch(1, KEY, own=False), Watch(2, b"other", own=False)
    one = watcher(ahead(7, share=share), ahead(8, b"other", share), lacking=2)
    for it in (first, second):
        it.begin(5)
        joined(it, one)
    first.report(delete(11))
    assert not looks(one)
    assert set(one.ahead) == {b"other"}
    second.report(delete(12))
    assert looks(one)


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_waiter_reads_while_it_is_told(switching_often: None) -> None:
    """The stream's thread takes out tickets that are gone, while the waiter's thread reads all of them."""
    share, failures = Share.of(64, 1), []
    for _ in range(40):
        those = [ahead(number, b"%d" % number, share) for number in range(1, 41)]
        one = watcher(*those, lacking=64)
        over = threading.Event()

        def look() -> None:
            try:
                while not over.is_set():  # noqa: B023
                    one.waits_for(those)  # noqa: B023
            except RuntimeError as error:
                failures.append(error)

        looking = threading.Thread(target=look)
        looking.start()
        for number, other in enumerate(those):
            it = Watch(number, other.key, False)
            it.begin(5)
            it.join(one)
            gone = KeyValue(key=other.key, mod_revision=20 + number)
            it.report(Event(type=Event.DELETE, kv=gone))
        over.set()
        looking.join()
    assert failures == []
