"""Every way out × every primitive × both faces: nothing stays behind, and the right error comes out."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from tests import deeds
from tests.cutting_short import CancelledAt, InterruptAt
from tests.deeds import DEEDS, Deed, done, drive
from tests.observe.recorder import Recorder
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisServer
from tests.waiting import eventually, soon

FACES = {"sync": fencelock.Client, "async": fencelock.AsyncClient}

# What a client offers besides primitives. What `attach` takes over is not its own, and stays when it fails:
# tests/primitives/test_lease.py.
NO_PRIMITIVES = {
    "attach",
    *("break_lock", "close", "diagnose", "inspect", "names", "ping", "release_on_sigterm"),
    *("from_psycopg", "from_redis", "from_sqlalchemy", "namespace", "traits"),
}


def test_every_primitive_is_here() -> None:
    offered = {name for name in dir(fencelock.Client) if not name.startswith("_")}
    source = inspect.getsource(deeds)
    missing = {name for name in offered - NO_PRIMITIVES if f"client.{name}(" not in source}
    assert not missing, f"write a deed for {missing}"


@pytest.fixture(params=DEEDS)
def deed(request: pytest.FixtureRequest) -> Deed:
    return DEEDS[request.param]


@pytest.fixture(params=["memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The primitives are the same on every engine, so the one that costs least will mostly do."""
    urls = {"sqlite": f"sqlite:///{tmp_path}/locks.db"}
    urls |= dict.fromkeys(("memory", "observed"), f"memory://{uuid4().hex}")
    return urls.get(request.param) or str(request.getfixturevalue("redis_url"))


class Boom(Exception):
    """The body's own error."""


@pytest.fixture(params=["returns", "raises"])
def boom(request: pytest.FixtureRequest) -> Boom | None:
    return Boom() if request.param == "raises" else None


@pytest.mark.parametrize("face", FACES)
class TestTheBodyEnds:
    """… by itself or with an error of its own, after something has happened to what it holds."""

    async def test_and_all_is_well(
        self, url: str, face: str, deed: Deed, boom: Boom | None
    ) -> None:
        async with Scene(url, face) as scene:
            error = await scene.act(deed, boom=boom)
            assert error is boom
            assert not getattr(error, "__notes__", None)
            await scene.is_clean()

    async def test_after_the_lease_was_lost(
        self, url: str, face: str, deed: Deed, boom: Boom | None
    ) -> None:
        async with Scene(url, face) as scene:

            async def happen() -> None:
                for name in scene.witness.names(f"*{scene.name}*"):
                    scene.witness.break_lock(name)

            error = await scene.act(deed, happen, boom)
            if not deed.holds:
                assert error is boom
            elif boom is None or deed.explicit:
                assert isinstance(error, fencelock.LeaseLost), "a loss is told"
            else:
                assert error is boom, "the body's own error is not hidden"
                assert any("lost" in note for note in error.__notes__), "but the loss is told, too"
            await scene.is_clean()

    async def test_after_the_client_was_closed(
        self, url: str, face: str, deed: Deed, boom: Boom | None
    ) -> None:
        async with Scene(url, face) as scene:

            async def happen() -> None:
                await done(scene.client.close())

            error = await scene.act(deed, happen, boom)
            if not deed.holds:
                assert error is boom
            elif boom is None or deed.explicit or (deed.cancelled and face == "async"):
                assert isinstance(error, fencelock.FencelockError), "a loss is told"
                assert "closed" in str(error)
            else:
                assert error is boom, "the body's own error is not hidden"
            await scene.is_clean()

    async def test_while_the_engine_is_away(
        self, way: TcpProxy, server: RedisServer, face: str, deed: Deed, boom: Boom | None
    ) -> None:
        async with Scene(server.url, face, f"redis://{HOST}:{way.port}") as scene:

            async def happen() -> None:
                way.refuse()

            error = await scene.act(deed, happen, boom)
            if deed.explicit or (deed.notes and boom is None):
                assert isinstance(error, fencelock.EngineError), "it is not known whether it worked"
            else:
                assert error is boom, "the engine is not the caller's business here"
            assert scene.client._context.idle, "nothing is renewed any more"
            way.heal()
            await scene.is_clean()


@pytest.mark.parametrize("url", ["redis"], indirect=True)  # which really suspends
async def test_cancelled_at_every_await(url: str, deed: Deed) -> None:
    async with Scene(url, "async") as scene:
        await scene.act(deed)  # connected
        for k in count():
            attempt = CancelledAt(deed.do(scene.client, scene.name, one_turn), k)
            (outcome,) = await asyncio.gather(
                asyncio.create_task(awaited(attempt)), return_exceptions=True
            )
            if not attempt.reached:
                assert outcome is None
                break
            assert isinstance(outcome, asyncio.CancelledError), outcome
            await scene.is_clean(f"await {k}")
        assert k > 0, "there was something to cancel"
        assert await scene.act(deed) is None, "and it still works"


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_cancelled_twice(url: str, deed: Deed) -> None:
    """The second cancellation comes while the first one is dealt with."""
    async with Scene(url, "async") as scene:
        await scene.act(deed)  # connected
        inside = asyncio.Event()

        async def body() -> None:
            inside.set()
            await asyncio.sleep(3600)

        for turns in range(8):
            inside.clear()
            task = asyncio.ensure_future(deed.do(scene.client, scene.name, body))
            await inside.wait()
            task.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await scene.is_clean(f"{turns} turns")


# Of each kind, one deed is also interrupted in the code of other engines.
INTERRUPTED = [
    *(("memory", deed) for deed in DEEDS),
    *product(("sqlite", "redis", "observed"), ("lock_all", "transaction_run", "election", "once")),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a socket may be dropped between two steps
@pytest.mark.parametrize(("url", "deed"), INTERRUPTED, indirect=True)
def test_interrupted_at_every_step(url: str, deed: Deed, request: pytest.FixtureRequest) -> None:
    name, recorder = uuid4().hex, Recorder()
    observers = [recorder] if "observed" in request.node.name else []
    with (
        fencelock.Client(url) as witness,
        fencelock.Client(url, ttl=2, observers=observers) as client,
    ):
        client.names()  # connected: what is interrupted while connecting has sent nothing yet

        def work() -> None:
            with suppress(fencelock.LeaseLost):  # the machine may stall for longer than the ttl
                drive(deed.do(client, name, nothing))

        def work_and_leave() -> None:
            sys.settrace(None)
            with suppress(fencelock.LeaseLost):
                drive(deed.do(client, name, on_the_way_out))

        async def on_the_way_out() -> None:
            interrupt.arm()

        for k in count(1 if deed.bare else 0):  # a release that has not begun is not ours yet
            interrupt = InterruptAt(k)
            interrupt(work_and_leave if deed.bare else work)
            after = f"after {interrupt.where}"
            eventually(lambda: not witness.names(f"*{name}*"), f"nothing to be left {after}")
            eventually(lambda: client._context.idle, f"nothing to be kept {after}")
            if "Audience._tell" in after:  # an event that is interrupted on its way may be lost
                recorder.events.clear()
            assert not recorder.oddities(interrupted=True), after
            if interrupt.where is None:
                break
        assert k > 30, "this was to be a long list of steps"
        work()  # and it still works


def losing(client: Any, name: str) -> list[Any]:
    """Whatever has `on_lost`."""
    return [
        client.lock(name, on_lost="cancel"),
        client.rwlock(name, on_lost="cancel").write(),
        client.semaphore(name, 2, on_lost="cancel"),
        client.lock_all([f"{name}:b", f"{name}:a"], on_lost="cancel"),
        client.election(name, "me", on_lost="cancel"),
    ]


async def hold_and_lose(block: Any, other: fencelock.AsyncClient, name: str) -> None:
    async with block:
        for held in await other.names(f"{name}*"):
            await other.break_lock(held)
        await asyncio.sleep(3600)


async def test_a_loss_cancels_the_body_of_everything_that_has_on_lost() -> None:
    url, name = f"memory://{uuid4().hex}", "name"
    async with fencelock.AsyncClient(url, ttl=1.5) as client, fencelock.AsyncClient(url) as other:
        for block in losing(client, name):
            with pytest.raises(fencelock.LeaseLost) as caught:
                await hold_and_lose(block, other, name)
            assert isinstance(caught.value.__cause__, asyncio.CancelledError), block
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling(), "the cancellation is used up"
            await soon(lambda: client._context.idle, "nothing to be kept")
            assert not await other.names(f"{name}*")


def test_one_of_several_is_lost_while_the_engine_is_away(
    way: TcpProxy, server: RedisServer
) -> None:
    """The loss must be told, though the engine can't be asked."""
    with fencelock.Client(f"redis://{HOST}:{way.port}", ttl=30) as client:
        leases = client.lock_all(["a", "b", "c"]).acquire()
        way.refuse()
        client._context.lose(leases["a"]._claim, "for the test")
        with pytest.raises(fencelock.LeaseLost, match="for the test"):
            leases.release()
        assert client._context.idle
        way.heal()
        with fencelock.Client(server.url) as witness:
            eventually(lambda: not witness.names(), "all to be given back")


async def nothing() -> None:
    pass


async def one_turn() -> None:
    await asyncio.sleep(0)


async def awaited(attempt: CancelledAt) -> None:
    await attempt


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with RedisServer(tmp_path_factory.mktemp("exits")) as server:
        yield server


@pytest.fixture
def way(server: RedisServer, tcp_proxy: Callable[[int], TcpProxy]) -> TcpProxy:
    """To the server, and what may happen on it."""
    return tcp_proxy(server.port)


class Scene:
    """A client that does a deed, and a witness that sees what is left of it."""

    def __init__(self, url: str, face: str, its_own: str | None = None) -> None:
        self.name = uuid4().hex
        self.witness = fencelock.Client(url)
        self.recorder = Recorder()
        observers = [self.recorder] if face == "async" else []  # exits are tested with and without
        self.client: Any = FACES[face](its_own or url, ttl=8, observers=observers)

    async def __aenter__(self) -> Scene:
        return self

    async def __aexit__(self, *_: object) -> None:
        await done(self.client.close())
        self.witness.close()

    async def act(
        self, deed: Deed, happen: Any = nothing, boom: BaseException | None = None
    ) -> BaseException | None:
        """Do the deed; what was raised."""
        for trait in deed.traits:
            assert getattr(self.witness.traits, trait)
        ran = False

        async def body() -> None:
            nonlocal ran
            ran = True
            await happen()
            if boom is not None:
                raise boom

        try:
            await deed.do(self.client, self.name, body)
        except Exception as error:
            assert ran, "it did not even begin"
            return error
        assert ran, "it did not even begin"
        return None

    async def is_clean(self, after: str = "the end") -> None:
        """Nothing is left at the engine, and nothing is renewed."""
        await soon(
            lambda: not self.witness.names(f"*{self.name}*"), f"nothing to be left after {after}"
        )
        await soon(lambda: self.client._context.idle, f"nothing to be kept after {after}")
        await soon(lambda: not self.recorder.oddities(), f"whole stories after {after}")
