"""Ctrl-C in a blocking program, whose main thread must never be interrupted inside gRPC."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from types import FrameType

import grpc
import pytest

import fencelock
from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.etcd import blocking
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.cutting_short import interrupted
from tests.waiting import PATIENCE, eventually

GRPC = os.path.dirname(grpc.__file__)


@contextmanager
def entered() -> Iterator[list[str]]:
    """Which functions of gRPC run in this thread. Finalizers may: no thread needs their locks any more."""
    seen: list[str] = []

    def profile(frame: FrameType, event: str, arg: object) -> None:
        names = [frame.f_code.co_name, frame.f_back.f_code.co_name if frame.f_back else ""]
        if frame.f_code.co_filename.startswith(GRPC) and "__del__" not in names:
            seen.append(names[0])

    gc.collect()
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(None)


def test_the_main_thread_never_enters_grpc(etcd_url: str) -> None:
    """A signal handler may run there at any moment. If it raises while gRPC has a lock, others hang."""
    name = f"aside:{new_id()}"

    def release() -> None:
        eventually(lambda: other.inspect(name).waiting, "the other one to wait")
        held.release()

    with fencelock.Client(etcd_url) as other:
        held = other.lock(name, ttl=30).acquire()
        with entered() as seen:
            client = fencelock.Client(etcd_url)
            lease = client.lock(name + ":free", ttl=30).acquire()
            lease.renew()
            assert client.lock(name).try_acquire() is None
            releasing = threading.Thread(target=release)
            releasing.start()
            with client.lock(name, ttl=30, timeout=PATIENCE):
                assert name in client.names(name + "*")
            releasing.join()
            lease.release()
            client.close()
    assert not seen


def test_an_interrupted_client_goes_on(etcd_url: str) -> None:
    name = f"interrupted:{new_id()}"

    def use() -> None:
        with client.lock(f"{name}:{moment}", ttl=5):
            pass

    with fencelock.Client(etcd_url) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a coroutine was not awaited
        assert isinstance(client._context.engine, EtcdEngine)
        for moment in count():
            client._context.engine._tickets.leases._leases.clear()  # so that a lease is granted again
            hit = interrupted(moment, use, "fencelock/engines/etcd")
            with client.lock(name, ttl=5, timeout=PATIENCE):
                pass
            if not hit:
                break
    assert moment > 50


def test_closing_a_client_does_not_hang_with_grpc(
    etcd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_GRACE", 0.1)
    client = fencelock.Client(etcd_url)
    with client.lock(f"closed:{new_id()}"):
        pass
    assert isinstance(client._context.engine, EtcdEngine)
    channel = client._context.engine._cluster.node.open()
    with channel._connectivity_state.lock:  # as if a thread had been interrupted there
        thread = threading.Thread(target=client.close, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_an_interrupted_waiter_leaves_no_watch(etcd_url: str) -> None:
    """Otherwise the stream would stay open for it as long as the client lives."""
    engine, name = open_engine(etcd_url, BlockingIO()), f"deaf:{new_id()}"
    assert isinstance(engine, EtcdEngine)
    holder, waiter = (Ticket(name, new_id(), 60.0, Owner("host", 1)) for _ in range(2))
    for ticket in (holder, waiter):
        run(engine.enter(ticket, if_free=False, timeout=PATIENCE))
    for moment in count():
        with closing(engine.park(waiter, engine._io.now())) as parking, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parked = partial(next, parking.__await__(), None)
            hit = interrupted(moment, parked, "fencelock/engines/etcd")
        engine.unpark(waiter)
        assert not engine._listener._has_watchers(), moment
        if not hit:
            break
    assert moment > 10
    for ticket in (holder, waiter):
        run(engine.leave(ticket, timeout=PATIENCE))
    run(engine.close())
