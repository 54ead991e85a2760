"""The thread that asks the engine: on every engine, and never too much."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

import fencelock
from fencelock.cli.top import poller
from fencelock.cli.top.model import Look, Poll, Trouble, matching
from fencelock.cli.top.poller import (
    MIN_LOOKS,
    SHARE,
    Break,
    Crash,
    Open,
    Poller,
    Report,
    Wish,
)
from tests.cli.conftest import Cli
from tests.conformance.cells import ENGINES
from tests.conformance.conftest import url_of
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory
from tests.waiting import PATIENCE, InVain

T = TypeVar("T", bound=Report)


class Watched:
    """A poller and what it tells."""

    def __init__(self, client: fencelock.Client, pattern: str = "*", interval: float = 0.1) -> None:
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.poller = Poller(client, pattern, interval, self._reports.put)

    def next(self, kind: type[T]) -> T:
        """The next report of this kind."""
        while True:
            try:
                report = self._reports.get(timeout=PATIENCE)
            except queue.Empty:
                raise InVain(f"waited in vain for a {kind.__name__}") from None
            if isinstance(report, kind):
                return report


@contextmanager
def watching(
    url: str, pattern: str = "*", wish: Wish | None = None, interval: float = 0.1
) -> Iterator[Watched]:
    with fencelock.Client(url) as client:
        watched = Watched(client, pattern, interval)
        watched.poller.wish = wish or Wish()
        watched.poller.start()
        yield watched
        assert watched.poller.stop(PATIENCE)


@pytest.mark.parametrize("engine", [each for each in ENGINES if each != "memory"])
def test_every_engine(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, sqlite_cli: Cli, patient: None
) -> None:
    url, name = url_of(engine, request, tmp_path), f"top:{uuid4()}"
    with fencelock.Client(url, label="the holder") as client:
        lease = client.lock(name).acquire()
        shown = sqlite_cli("top", url, "--once", "--pattern", f"{name}*").stdout
        row = shown.splitlines()[1].split()
        assert row[:3] == [name, "the", "holder"]
        assert str(lease.fence) in row

        with watching(url, f"{name}*") as watched:
            seen = watched.next(Poll).looks[name].seen
            assert [each.fence for each in seen.holders] == [lease.fence]
            watched.poller.ask(Open(name))
            assert watched.next(Look).seen.holders
            older = seen.holders[0]._replace(fence=lease.fence - 1)
            watched.poller.ask(Break(name, (older,)))
            assert "has another holder now: it was not broken" in watched.next(str)
            assert client.inspect(name).holders
            watched.poller.ask(Break(name, seen.holders))
            assert watched.next(str).startswith(f"broken: {name!r} was held by the holder (pid ")
            assert not watched.next(Look).seen.holders
            watched.poller.ask(Break(name, seen.holders))
            assert watched.next(str) == f"nobody holds {name!r} any more"
        with suppress(fencelock.FencelockError):
            lease.release()


def test_a_slow_engine_is_asked_less_often(
    redis_server: RedisFactory, tcp_proxy: Callable[[int], TcpProxy]
) -> None:
    server = redis_server()
    proxy = tcp_proxy(server.port)
    proxy.delay(0.01)  # in each direction
    with fencelock.Client(server.url) as client:
        leases = [client.lock(f"{number}").acquire() for number in range(5 * MIN_LOOKS)]
        with watching(f"redis://{HOST}:{proxy.port}") as watched:
            first, second = watched.next(Poll), watched.next(Poll)
        assert len(leases) == len(second.names)
    moments = [look.at for look in second.looks.values()]
    assert len(moments) == MIN_LOOKS or moments[-2] - moments[0] < moments[0] - second.at
    assert first.pause == 0.1, "one slow answer is no slow engine"
    slow = min(first.took, second.took)
    assert slow / (slow + second.pause) == pytest.approx(SHARE)


def test_of_many_names_it_looks_at_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = (
        MIN_LOOKS + 10
    )  # few, because a poll that takes long on a busy machine is followed by a long pause
    monkeypatch.setattr(poller, "MAX_LOOKS", most)
    url = f"sqlite:///{tmp_path / 'locks.db'}"
    names = [f"{number:04d}" for number in range(2 * most)]
    wish = Wish(("0050", "0040"), "0050", partial(matching, filter="03"))
    with fencelock.Client(url) as client:
        leases = [client.lock(name).acquire() for name in names]
        with watching(url, wish=wish, interval=600.0) as watched:
            poll = watched.next(Poll)
        assert list(poll.names) == names
        assert len(poll.looks) == most
        assert list(poll.looks)[:4] == ["0050", "0040", "0003", "0030"]
        with watching(url, wish=wish) as watched:
            looked: set[str] = set()
            while len(looked) < len(leases):
                poll = watched.next(Poll)
                assert {"0050", "0040"} <= poll.looks.keys()
                looked.update(poll.looks)


def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    with watching(f"redis://:geheim@{HOST}:1") as watched:
        trouble = watched.next(Trouble)
        assert "can't connect" in trouble.reason
        assert "geheim" not in trouble.reason
        watched.poller.ask(Break("x", ()))
        assert watched.next(str).startswith("'x' was not broken: ")
    with fencelock.Client(f"sqlite:///{tmp_path / 'locks.db'}") as client:
        watched = Watched(client, pattern=5)  # type: ignore[arg-type]
        watched.poller.start()
        assert isinstance(watched.next(Crash).error, TypeError)
