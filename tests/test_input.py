"""Bad input gets a clear error that says what to do; nothing hangs, no secret is shown."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.engines import registry

BAD_NAMES = [
    ("", "must not be empty"),
    ("x" * 10_000, "at most 512 bytes of UTF-8, but this one has 10000"),
    ("é" * 257, "at most 512 bytes of UTF-8, but this one has 514"),
    ("a\nb", r"must be printable, but it contains '\\n'"),
    ("a\x00", "must be printable"),
    ("\ud800", "must be printable"),
]
BAD_TTLS = [0, -1, 0.01, math.inf, -math.inf, math.nan, 1e12]
BAD_TIMEOUTS = [-1, -0.001, math.inf, -math.inf, math.nan]
BAD_URLS = [
    ("", "must look like scheme://"),
    ("localhost:6379", "must look like scheme://"),
    ("redis:/localhost", "must look like scheme://"),
    ("redis://:secret@localhost:port", "port from 1 to 65535"),
    ("redis://:secret@localhost:0", "port from 1 to 65535"),
    ("redis://:secret@localhost:70000", "port from 1 to 65535"),
    ("redis://:secret@[::1", "check its host"),
    ("redis://:secret@a\u2100b", "check its host"),
    ("redis://:secret@,", "a host must look like"),
    ("redis://u:secret@localhost/one", "the database must be a number"),
    ("redis://u:secret@a,b", "one host only"),
    ("redis://u:secret@localhost?tiemout=1", "unknown option 'tiemout'"),
    ("redis+sentinel://:secret@localhost", "name the group"),
    ("rediss://:secret@localhost?ca=/nowhere/ca.pem", "can't read the certificate"),
    ("sqlite://", "sqlite:///"),
    ("sqlite://host/file.db", "sqlite:///"),
    ("sqlite:///a%00b.db", "characters that no file should have"),
    ("memory://a?ttl=3", "unknown option 'ttl'"),
]


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Any:
    return (
        fencelock.Client("memory://")
        if request.param == "sync"
        else fencelock.AsyncClient("memory://")
    )


@pytest.mark.parametrize(("name", "message"), BAD_NAMES, ids=lambda value: ascii(value)[:12])
def test_names(client: Any, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        client.lock(name)


@pytest.mark.parametrize("name", [None, 42, b"bytes"])
def test_names_of_another_type(client: Any, name: Any) -> None:
    with pytest.raises(TypeError, match="a lock's name must be a str"):
        client.lock(name)


@pytest.mark.parametrize(
    "name", ["x" * 512, "é" * 256, "{}", "/", "*", " ", "a b", "日本", "%s", "'; --"]
)
def test_names_that_are_fine(name: str) -> None:
    with fencelock.Client("memory://") as client, client.lock(name) as lease:
        assert lease.name == name


@pytest.mark.parametrize("ttl", BAD_TTLS)
def test_ttls(client: Any, ttl: float) -> None:
    with pytest.raises(ValueError, match="ttl must be between"):
        client.lock("x", ttl=ttl)
    with pytest.raises(ValueError, match="ttl must be between"):
        fencelock.Client("memory://", ttl=ttl)


@pytest.mark.parametrize("timeout", BAD_TIMEOUTS)
def test_timeouts(timeout: float) -> None:
    with fencelock.Client("memory://") as client:
        with pytest.raises(ValueError, match="timeout must be zero or more seconds"):
            client.lock("x", timeout=timeout)
        with pytest.raises(ValueError, match="timeout must be zero or more seconds"):
            client.lock("x").acquire(timeout=timeout)
        assert client.names() == []


@pytest.mark.parametrize("value", ["1", True, [], object()])
def test_durations_of_another_type(client: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="ttl must be a number of seconds"):
        client.lock("x", ttl=value)
    with pytest.raises(TypeError, match="timeout must be a number of seconds"):
        client.lock("x", timeout=value)


@pytest.mark.parametrize(("url", "message"), BAD_URLS, ids=lambda value: value[:30])
def test_urls(url: str, message: str) -> None:
    for kind in (fencelock.Client, fencelock.AsyncClient):
        with pytest.raises(ValueError, match=message) as caught:
            kind(url)
        assert "secret" not in str(caught.value)


def test_an_unknown_scheme() -> None:
    with pytest.raises(
        fencelock.Unsupported,
        match=r"no engine for carrier-pigeon:// URLs; known schemes: .*redis://",
    ):
        fencelock.Client("carrier-pigeon://:secret@roof")


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("fencelock.engines.redis")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "hiredis", None)
    with pytest.raises(fencelock.Unsupported, match=r"pip install 'fencelock\[redis\]'"):
        fencelock.Client("redis://:secret@localhost")


def test_a_driver_that_can_not_be_loaded() -> None:
    """As psycopg behaves when it finds no libpq."""
    code = "import fencelock; fencelock.Client('postgresql://:secret@localhost/app')"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PSYCOPG_IMPL": "c"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    *_, said = ended.stderr.splitlines()
    assert said.startswith("fencelock.core.errors.Unsupported: postgresql:// can't load its driver")
    assert said.endswith("): install it with: pip install 'fencelock[postgres]'")
    assert "secret" not in ended.stderr.replace(code, "")


def test_an_engine_that_cannot_give_correctness() -> None:
    with pytest.raises(fencelock.UnsafeEngine, match="one server whose clock"):
        fencelock.Client("redis://localhost", purpose="correctness")
    client = fencelock.Client("redis://localhost")
    with pytest.raises(fencelock.UnsafeEngine, match="storage check the fence"):
        client.lock("x", purpose="correctness")
    with pytest.raises(ValueError, match="'efficiency' or 'correctness'"):
        fencelock.Client("memory://", purpose="certainty")  # type: ignore[arg-type]


def test_engines_that_can_give_correctness(tmp_path: Path) -> None:
    with fencelock.Client(f"sqlite:///{tmp_path}/locks.db", purpose="correctness") as client:
        assert client.lock("x", purpose="correctness", guard=None).try_acquire()


def test_every_engine_declares_its_traits() -> None:
    places = {"redis+unix": "/a", "redlock": "a,b,c", "redlocks": "a,b,c", "sqlite": "/a"}
    for scheme in registry.schemes():
        where = places.get(scheme, "localhost")
        group = "/group" if scheme.endswith("sentinel") else ""
        traits = fencelock.Client(f"{scheme}://{where}{group}").traits
        assert traits.guarantee in ("efficiency", "correctness")
        assert traits.fencing
        assert traits.clock
        # Every promise of correctness has a condition, and only a promise of correctness has one.
        assert bool(traits.condition) == (traits.guarantee == "correctness")


def test_labels() -> None:
    for label in ("a\nb", "x" * 201):
        with pytest.raises(ValueError, match="a label must be"):
            fencelock.Client("memory://", label=label)


def test_what_is_asked_about_names() -> None:
    with fencelock.Client("memory://") as client:
        with pytest.raises(TypeError, match="a pattern must be a str"):
            client.names(None)  # type: ignore[arg-type]
        for limit in (-1, "x"):
            with pytest.raises(ValueError, match="limit must be a whole number"):
                client.inspect("x", limit=limit)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a label must be a str"):
            fencelock.Client("memory://", label=5)  # type: ignore[arg-type]


def test_a_callback_that_nobody_would_await() -> None:
    async def told(lease: object) -> None: ...

    with pytest.raises(TypeError, match="must be a plain function"):
        fencelock.AsyncClient("memory://").lock("x", on_lost=told)


def test_cancel_is_for_asyncio() -> None:
    with pytest.raises(TypeError, match="asyncio"):
        fencelock.Client("memory://").lock("x", on_lost="cancel")  # type: ignore[arg-type]


def test_a_decorator_of_the_wrong_colour() -> None:
    with pytest.raises(TypeError, match="decorate it with an AsyncClient"):

        @fencelock.Client("memory://").locked("x")
        async def one() -> None: ...

    with pytest.raises(TypeError, match="decorate it with a Client"):

        @fencelock.AsyncClient("memory://").locked("x")  # type: ignore[arg-type]
        def other() -> None: ...


def test_a_lease_belongs_to_one_loop_and_its_client_does_not() -> None:
    client = fencelock.AsyncClient("memory://loops")

    async def acquire(name: str) -> fencelock.AsyncLease:
        return await client.lock(name).acquire()

    async def release(lease: fencelock.AsyncLease) -> None:
        await lease.release()

    lease = asyncio.run(acquire("x"))
    with pytest.raises(fencelock.FencelockError, match="belongs to another event loop"):
        asyncio.run(release(lease))
    assert asyncio.run(acquire("y")).fence
    assert lease.state is fencelock.LeaseState.LOST, "nobody renews it any more"


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"redis://:secret@127.0.0.1:{unused.getsockname()[1]}"
        with fencelock.Client(url) as client:
            for act in (client.lock("x").acquire, client.lock("x").try_acquire, client.names):
                with pytest.raises(
                    fencelock.EngineError, match="is the server running there"
                ) as caught:
                    act()
                assert caught.value.outcome == "not applied"
                assert "secret" not in str(caught.value)
