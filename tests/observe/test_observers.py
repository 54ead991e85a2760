"""Observers that fail, that are slow, that use locks themselves, that come and go."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import fencelock
from fencelock import observe
from fencelock.observe import EngineRequest, Event, FenceFell, Paused, delivery
from fencelock.observe.audience import Audience
from fencelock.observe.observer import Recorder as Quick
from tests.observe.recorder import Recorder
from tests.waiting import eventually


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}"


@pytest.fixture(params=["prompt", "in its own thread"])
def prompt(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "prompt")


def pair(client: fencelock.Client, name: str = "x") -> None:
    with client.lock(name):
        pass


class Acting:
    """An observer that does something with each event."""

    def __init__(self, act: Any, prompt: bool) -> None:
        self.prompt = prompt
        self.calls = 0
        self._act = act

    def __call__(self, event: observe.Event) -> None:
        self.calls += 1
        self._act()


def test_it_raises(url: str, prompt: bool, caplog: pytest.LogCaptureFixture) -> None:
    failing, healthy = Acting(lambda: 1 / 0, prompt), Recorder()
    with fencelock.Client(url, observers=[failing, healthy]) as client:
        for _ in range(3):
            pair(client)
    assert observe.flush()
    assert failing.calls == len(healthy.events) == 15
    (record,) = caplog.records
    assert record.name == "fencelock.observe"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_it_raises_what_would_end_a_thread(
    url: str, prompt: bool, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        if threading.current_thread() is not threading.main_thread():  # there it may be Ctrl-C
            raise error

    failing, healthy = Acting(fail, prompt), Recorder()
    with fencelock.Client(url, observers=[failing, healthy], ttl=0.5) as client:
        with client.lock("x"):
            eventually(
                lambda: len(healthy.heard(observe.Renewed)) > 2, "renewals: the keeper goes on"
            )
        assert observe.flush()
    assert observe.flush()
    assert failing.calls == len(healthy.events)
    assert [record.name for record in caplog.records] == ["fencelock.observe"]


def test_an_observer_of_a_user_is_called_whatever_its_attributes(url: str) -> None:
    mock = Mock(prompt=False, ignores=())
    with fencelock.Client(url, observers=[mock]) as client:
        pair(client)
    assert observe.flush()
    assert mock.call_count == 5
    assert not mock.record.called


def test_no_thread_can_be_started(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[observe.Event] = []
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "fencelock-observer":
            raise RuntimeError("can't start new thread")
        start(thread)

    with fencelock.Client(url, observers=[heard.append]) as client:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            pair(client)
            assert heard == []
            assert observe.flush()
            assert len(heard) == 5, "heard in the thread that waits for it"
        pair(client)
        assert observe.flush()
    assert len(heard) == 10


def test_it_sleeps(url: str) -> None:
    awake, healthy = threading.Event(), Recorder()
    sleepy, quick = Acting(awake.wait, prompt=False), Acting(lambda: None, prompt=False)
    with fencelock.Client(url, observers=[sleepy, quick, healthy]) as client:
        for _ in range(100):
            pair(client)
        assert len(healthy.events) == 500
        eventually(lambda: quick.calls == 500, "the quick observer: it has its own thread")
        assert sleepy.calls == 1
        assert not observe.flush(0.01)
    awake.set()
    assert observe.flush(60)
    assert sleepy.calls == 500, "late, but complete"


def test_it_sleeps_for_too_long(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "_LIMIT", 10)
    awake = threading.Event()
    sleepy = Acting(awake.wait, prompt=False)
    with fencelock.Client(url, observers=[sleepy]) as client:
        for _ in range(20):
            pair(client)
    awake.set()
    assert observe.flush(60)
    assert sleepy.calls <= 12
    assert [record.name for record in caplog.records] == ["fencelock.observe"]
    assert "misses events" in caplog.text


def test_it_uses_a_lock_itself(url: str, prompt: bool) -> None:
    with fencelock.Client(url) as own, fencelock.Client(url, observers=[]) as client:
        acting = Acting(lambda: pair(own, "its own"), prompt)
        observe.add(acting)
        try:
            for _ in range(5):
                pair(client)
            assert observe.flush(60)
        finally:
            observe.remove(acting)
        assert acting.calls == 25, "nobody hears of what an observer does"
        assert own.names() == []


def test_it_comes_and_goes_while_others_work(url: str) -> None:
    over = threading.Event()
    failures: list[BaseException] = []

    def work(client: fencelock.Client, number: int) -> None:
        try:
            while not over.is_set():
                pair(client, f"name {number}")
        except BaseException as error:
            failures.append(error)

    heard = [Recorder() for _ in range(50)]
    with fencelock.Client(url) as client:
        workers = [threading.Thread(target=work, args=(client, number)) for number in range(3)]
        for worker in workers:
            worker.start()
        known = 0
        for each in heard:
            observe.add(each)
            hears = each.events.__len__
            eventually(lambda hears=hears: hears() > 20, "some events")  # type: ignore[misc]
            observe.remove(each)
            known = hears()
        over.set()
        for worker in workers:
            worker.join()
        pair(client)
        assert client._context.engine is client._context.bare_engine, "nothing is timed any more"
    assert not failures
    for each in heard:
        assert not each.oddities(interrupted=True), "no story without its beginning"
    assert len(heard[-1].events) - known < 20, "only what was under way"


def test_the_same_one_hears_everything_once(url: str) -> None:
    heard = Recorder()
    observe.add(heard)
    observe.add(heard)
    try:
        with fencelock.Client(url, observers=[heard, heard]) as client:
            pair(client)
        observe.remove(heard)
        with fencelock.Client(url, observers=[heard, heard]) as client:
            pair(client)
    finally:
        observe.remove(heard)
        observe.remove(heard)
    assert heard.words() == 2 * ["Asked", "Granted", "Released"]


def test_what_is_held_already_is_not_its_business(url: str) -> None:
    heard = Recorder()
    with fencelock.Client(url) as client:
        lease = client.lock("x").acquire()
        observe.add(heard)
        try:
            lease.release()
        finally:
            observe.remove(heard)
    assert heard.words() == []


def test_recorders_among_themselves() -> None:
    """They are told in a shorter way, and of the same."""

    class Memory(Quick):
        def __init__(self, *ignores: type[Event]) -> None:
            self.ignores = ignores
            self.heard: list[type[Event]] = []

        def record(self, kind: type[Event], fields: Any, since: object = None, /) -> None:
            self.heard.append(kind)

    all_, some, late = Memory(), Memory(EngineRequest), Memory()
    audience = Audience([all_, some])
    assert audience.teller(EngineRequest) == all_.record
    assert audience.teller(Paused) is audience.tell
    audience.tell(Paused, ("memory", 1.0))
    then = audience.listeners
    audience.join(late)
    audience.tell(FenceFell, ("x", "memory", 1, 2), then)
    audience.tell(Paused, ("memory", 1.0), audience.listeners)
    assert all_.heard == some.heard == [Paused, FenceFell, Paused]
    assert late.heard == [Paused], "not the end of a story whose beginning it has not heard"
    events = Recorder()
    audience.join(events)
    audience.teller(EngineRequest)(EngineRequest, ("memory", "enter", "ok", 0.1))
    assert [*map(type, eventually(lambda: events.events, "an event"))] == [EngineRequest]


def test_it_must_be_callable() -> None:
    with pytest.raises(TypeError, match="callable"):
        fencelock.Client("memory://", observers=["log"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="callable"):
        observe.add(None)  # type: ignore[arg-type]


@pytest.fixture
def told() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def test_a_forked_child_has_a_thread_of_its_own(url: str, told: tuple[int, int]) -> None:
    reading, writing = told

    def tell(event: observe.Event) -> None:
        os.write(writing, f"{os.getpid()} {type(event).__name__}\n".encode())

    with fencelock.Client(url, observers=[tell]) as client:
        held = client.lock("held").acquire()
        observe.flush(60)
        child = os.fork()
        if not child:
            try:
                pair(client)
                observe.flush(60)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        held.release()
        observe.flush(60)
    os.close(writing)
    with os.fdopen(os.dup(reading)) as lines:
        words = [line.split() for line in lines]
    assert [word for pid, word in words if int(pid) == child and word != "EngineRequest"] == [
        "Asked",
        "Granted",
        "Released",
    ]
    assert [word for pid, word in words if int(pid) == os.getpid()][-1] == "Released"


def test_the_end_of_a_program_waits_for_its_observers() -> None:
    code = """
import fencelock
client = fencelock.Client("memory://", observers=[lambda event: print(type(event).__name__)])
lease = client.lock("x").acquire()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Released" in ended.stdout.split()
    assert ended.stderr == ""


def test_the_log_has_the_fields_and_no_secret(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "fencelock")
    log = observe.Log()
    with fencelock.Client(redis_url, observers=[log], label="till 3") as client:
        with client.lock("order:%s {x}") as lease:
            pass
        with pytest.raises(fencelock.LeaseLost), client.lock("order:%s {x}"):
            client.break_lock("order:%s {x}")
    granted = next(record for record in caplog.records if "granted" in record.message)
    fields = vars(granted)
    assert (fields["lock"], fields["fence"]) == ("order:%s {x}", lease.fence)
    assert fields["owner"] == str(lease.owner)
    assert (granted.name, granted.levelno) == ("fencelock.lease", logging.DEBUG)
    (lost,) = [record for record in caplog.records if "was lost" in record.message]
    assert {"lock", "fence", "owner", "reason"} <= vars(lost).keys()
    assert "till 3" in vars(lost)["owner"]
    assert lease.id not in "".join(str(vars(record)) for record in caplog.records)
    # On a machine that stalls, there are lines of the keeper as well.
    assert {record.name for record in caplog.records} >= {"fencelock.lease", "fencelock.engine"}
