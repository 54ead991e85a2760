"""Unix sockets, and passwords that rotate: a provider is asked for each new connection."""

from __future__ import annotations

import tempfile
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.credentials import CredentialProvider, UsernamePasswordCredentialProvider

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.servers import RedisFactory, RedisServer
from tests.waiting import soon, within

SECRET = "geheim-1"


@pytest.fixture
def socket_path() -> Any:
    """Where a server may listen: a path for a socket has 108 characters at most."""
    with tempfile.TemporaryDirectory(prefix="fencelock-") as folder:
        yield Path(folder) / "redis.sock"


async def test_a_unix_socket(
    redis_server: RedisFactory, open_cell: OpenCell, socket_path: Path
) -> None:
    server = redis_server(requirepass=SECRET, unixsocket=socket_path)
    cell = open_cell(f"redis+unix://:{SECRET}@{socket_path}?db=3")
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    assert "db3" in server.info("keyspace")
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    await cell.run(lease.release)
    await cell.run((await within(waiter)).release)
    report = await cell.run(client.diagnose)
    assert all(check.id != "encryption" or check.status == "ok" for check in report.checks)


async def test_a_unix_socket_that_is_not_there(open_cell: OpenCell, socket_path: Path) -> None:
    cell = open_cell(f"redis+unix://:{SECRET}@{socket_path}")
    with pytest.raises(fencelock.EngineError, match=f"can't connect to {socket_path}") as caught:
        await cell.run(cell.client().ping)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


class Rotating(CredentialProvider):
    """The password of a user of a real server. It changes, and old connections end."""

    def __init__(self, server: RedisServer) -> None:
        self.asked = 0
        self._server = server
        self.rotate("first")

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        return "app", self._password

    def rotate(self, password: str) -> None:
        self._password = password
        self._server.execute(
            "ACL", "SETUSER", "app", "on", "resetpass", f">{password}", "~*", "&*", "+@all"
        )
        with self._server.client() as witness:
            witness.client_kill_filter(user="app")


class AsyncRotating(Rotating):
    def get_credentials(self) -> tuple[str, str]:
        raise NotImplementedError  # as providers that are only for asyncio do

    async def get_credentials_async(self) -> tuple[str, str]:
        return super().get_credentials()


async def test_a_provider_is_asked_for_each_new_connection(
    redis_server: RedisFactory, open_cell: OpenCell
) -> None:
    server = redis_server()
    cell = open_cell(server.url)
    for kind in (Rotating, AsyncRotating) if cell.face == "async" else (Rotating,):
        provider = kind(server)
        client = cell.client(credentials=provider)
        lease = await cell.run(client.lock(cell.name).acquire)
        assert provider.asked == 1
        await cell.run(client.ping)
        assert provider.asked == 1, "the connection is still good"
        provider.rotate("second")
        await soon(partial(_answers, cell, client), "a connection with the new password")
        assert provider.asked > 1
        await cell.run(lease.renew)
        await cell.run(lease.release)


async def _answers(cell: Cell, client: Any) -> bool:
    try:
        return bool(await cell.run(client.ping))
    except fencelock.EngineError:  # the server has just cut the old connection
        return False


async def test_a_function_is_a_provider(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server(requirepass=SECRET)
    cell = open_cell(f"redis://{server.address}")

    async def later() -> tuple[str]:
        return (SECRET,)

    answers: list[Any] = [lambda: SECRET, lambda: (SECRET,), lambda: ("default", SECRET)]
    answers.append(UsernamePasswordCredentialProvider("default", SECRET))
    if cell.face == "async":
        answers.append(later)
    for credentials in answers:
        assert await cell.run(cell.client(credentials=credentials).ping) > 0


def _fails() -> str:
    raise OSError(f"no token for {SECRET}")


async def _later() -> str:
    return SECRET


@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        (_fails, "the credentials can't be had: OSError: look at the provider"),
        (lambda: 3, "the credentials must be a password, or a pair of user and password, not int"),
        (
            lambda: ("a", "b", SECRET),
            "must be a password, or a pair of user and password, not tuple",
        ),
        (lambda: f"{SECRET}x", "WRONGPASS"),
    ],
    ids=["fails", "number", "three", "wrong"],
)
async def test_credentials_that_are_no_good(
    redis_server: RedisFactory, open_cell: OpenCell, credentials: Any, message: str
) -> None:
    server = redis_server(requirepass=SECRET)
    cell = open_cell(f"redis://{server.address}")
    with pytest.raises(fencelock.EngineError, match=message) as caught:
        await cell.run(cell.client(credentials=credentials).ping)
    assert caught.value.outcome == "not applied"
    assert SECRET not in str(caught.value)


def test_a_coroutine_is_for_asyncio(redis_url: str) -> None:
    with (
        fencelock.Client(redis_url, credentials=_later) as client,
        pytest.raises(fencelock.EngineError, match="use an AsyncClient"),
    ):
        client.ping()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("etcd://localhost", "credentials are for redis:// and redlock:// only"),
        (f"redis://:{SECRET}@localhost", "give the password or the credentials, not both"),
        ({"*": "redis://localhost"}, "not for a table of routes"),
    ],
)
def test_where_credentials_make_no_sense(url: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fencelock.Client(url, credentials=_fails)
    assert SECRET not in str(caught.value)


def test_what_is_no_provider() -> None:
    with pytest.raises(TypeError, match="credentials must be a function, or an object"):
        fencelock.Client("redis://localhost", credentials="secret")  # type: ignore[arg-type]
