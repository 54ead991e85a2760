"""The wire itself: slow, torn to pieces, talking out of turn."""

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress

import pytest

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.redis.scripts import SCRIPTS
from fencelock.engines.registry import open_engine
from fencelock.engines.resp.blocking import BlockingLink
from fencelock.engines.resp.wire import Login, greeting
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.engines.redis.impostors import Impostor, silence
from tests.engines.redis.server_state import links
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory
from tests.waiting import PATIENCE, soon, within


class Dribbler(Impostor):
    """Answers, but one byte at a time, and never to the end."""

    def __init__(self) -> None:
        super().__init__(silence)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            client.sendall(b"$1000000\r\n")
            while True:
                client.sendall(b"x")
                time.sleep(0.05)


def opened(face: str, url: str) -> Engine:
    return open_engine(url, BlockingIO() if face == "sync" else AsyncioIO())


def ticket(name: str = "x", ttl: float = 30.0) -> Ticket:
    return Ticket(name, new_id(), ttl, Owner("here", 1))


async def test_a_server_that_never_comes_to_the_point(face: str) -> None:
    """Each byte comes in time, but the timeout is for all of them."""
    with Dribbler() as server:
        engine = opened(face, server.url)
        with pytest.raises(EngineError, match="no answer"):
            await engine.enter(ticket(), if_free=False, timeout=0.3)
        await engine.close()


async def test_replies_come_in_pieces(face: str, redis_server: RedisFactory) -> None:
    """A reply far larger than what is read at once."""
    server = redis_server()
    engine = opened(face, server.url)
    crowd = [ticket() for _ in range(2000)]
    for one in crowd:
        await engine.enter(one, if_free=False, timeout=30)
        engine.unpark(one)
    seen = await engine.inspect("x", limit=5000, timeout=30)
    assert (len(seen.holders), len(seen.waiters), seen.waiting) == (1, 1999, 1999)
    assert [one.fence for one in seen.waiters] == sorted(one.fence for one in seen.waiters)
    standings = await engine.renew(crowd, timeout=30)
    assert [standing.place for standing in standings if standing] == [
        Place.ADMITTED,
        *[Place.WAITING] * 1999,
    ]
    await engine.close()


async def test_a_late_answer_is_not_taken_for_another_one(
    face: str, redis_server: RedisFactory
) -> None:
    """A request that was given up is answered after all: the next one gets its own answer."""
    server = redis_server()
    engine = opened(face, server.url)
    mine = ticket("mine")
    await engine.enter(mine, if_free=False, timeout=30)
    server.freeze()
    with pytest.raises(EngineError, match=r"no answer within 0\.1 s") as caught:
        await engine.enter(ticket("late"), if_free=False, timeout=0.1)
    assert caught.value.outcome == "unknown"
    server.thaw()
    assert (await engine.inspect("mine", limit=0, timeout=30)).name == "mine"
    (standing,) = await engine.renew([mine], timeout=30)
    assert standing is not None
    assert standing.place is Place.ADMITTED
    await engine.close()


async def test_a_closed_engine_opens_nothing_more(face: str, redis_server: RedisFactory) -> None:
    server = redis_server()
    engine = opened(face, server.url)
    await engine.enter(ticket(), if_free=False, timeout=30)
    await engine.close()
    with pytest.raises(EngineError, match="closed") as caught:
        await engine.enter(ticket(), if_free=False, timeout=30)
    assert caught.value.outcome == "not applied"


async def test_closing_while_connecting() -> None:
    with Impostor(silence) as server:
        engine = opened("async", server.url)
        entering = asyncio.create_task(engine.enter(ticket(), if_free=False, timeout=30))
        await asyncio.sleep(0.05)
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await within(entering)


async def test_a_thousand_share_one_failed_connection() -> None:
    """Each gets an error of its own, and there was one attempt."""
    with Impostor(silence) as server, TcpProxy(server.port) as proxy:
        engine = opened("async", f"redis://{HOST}:{proxy.port}")
        proxy.refuse()
        failures = await asyncio.gather(
            *(engine.enter(ticket(), if_free=False, timeout=30) for _ in range(1000)),
            return_exceptions=True,
        )
        assert all(isinstance(failure, EngineError) for failure in failures)
        assert len({id(failure) for failure in failures}) == 1000
        assert len({id(failure.__cause__) for failure in failures}) == 1000  # type: ignore[union-attr]
        await engine.close()


async def test_each_gets_its_own_answer_from_the_wrong_server(redis_server: RedisFactory) -> None:
    """The first refusal ends the connection, but not the requests that are under way on it."""
    primary = redis_server()
    replica = redis_server(replicaof=f"{HOST} {primary.port}")
    engine = opened("async", replica.url)
    for _ in range(2):
        failures = await asyncio.gather(
            *(engine.enter(ticket(), if_free=False, timeout=30) for _ in range(20)),
            return_exceptions=True,
        )
        for failure in failures:
            assert isinstance(failure, EngineError)
            assert "READONLY" in str(failure)
            assert failure.outcome == "not applied"
    await engine.close()
    await soon(lambda: not links(replica), "every connection to be closed")


def test_the_greeting_is_as_short_as_can_be() -> None:
    plain = greeting(Login(), "c", scripts=False)
    assert plain == [("HELLO", "3", "SETNAME", "fencelock"), ("SUBSCRIBE", "c")]
    full = greeting(Login("u", "p", 4, scripts=SCRIPTS), "c", scripts=True)
    assert full[0] == ("HELLO", "3", "AUTH", "u", "p", "SETNAME", "fencelock")
    assert full[2] == ("SELECT", "4")
    assert len(full) == 3 + len(SCRIPTS)
    assert "p" not in repr(Login("u", "p"))


def test_what_does_not_fit_into_the_socket_at_once_is_sent_all_the_same() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        payload = bytes(range(256)) * 4096
        received: list[bytes] = []

        def receive() -> None:
            while sum(map(len, received)) < len(payload):
                received.append(theirs.recv(65_536))

        receiver = threading.Thread(target=receive, daemon=True)
        receiver.start()
        BlockingLink(ours).send(payload)
        receiver.join(30)
        assert b"".join(received) == payload


def test_nothing_has_come_after_all() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        link = BlockingLink(ours)
        assert link.read() == []
        theirs.sendall(b"+PONG\r\n")
        assert link.read() == [b"PONG"]


def test_a_dismissed_link_does_not_listen_on_a_reused_file_descriptor() -> None:
    ours, theirs = socket.socketpair()
    other, peer = socket.socketpair()
    with ours, theirs, other, peer:
        ours.settimeout(30)
        link = BlockingLink(ours)
        number = link.fileno()
        link.dismiss("x")
        os.dup2(other.fileno(), number)  # as the next file that is opened would be
        listener = threading.Thread(target=run, args=(link.listen("x", 600),), daemon=True)
        try:
            listener.start()
            listener.join(PATIENCE)
            assert not listener.is_alive()
        finally:
            peer.close()  # for one that does
            listener.join(30)
            os.close(number)
