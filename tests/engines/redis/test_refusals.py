"""Nobody there, somebody else there, not let in: said clearly, and without giving secrets away."""

import asyncio
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import OpenCell, queued
from tests.engines.redis.impostors import Impostor, old_redis, silence, web_server
from tests.engines.redis.server_state import tickets
from tests.servers import HOST, RedisFactory, free_port
from tests.waiting import within

SECRET = "correct-horse-battery-staple"
NO_RIGHTS = "let the ACL user run scripts, publish and subscribe"


class Places:
    """Where one can go wrong; each method starts what it needs and returns a URL."""

    def __init__(self, start: RedisFactory, running: ExitStack) -> None:
        self._start = start
        self._running = running

    def _impostor(self, *args: Any) -> str:
        return self._running.enter_context(Impostor(*args)).url.replace("//", f"//:{SECRET}@")

    def wrong_password(self) -> str:
        return self._start(requirepass="another").url.replace("another", SECRET)

    def wrong_user(self) -> str:
        return self._start().url.replace("//", f"//nobody:{SECRET}@")

    def no_password(self) -> str:
        return f"redis://{self._start(requirepass=SECRET).address}"

    def no_right_to_scripts(self) -> str:
        return self._start().add_user("kim", SECRET, "~*", "&*", "+@all", "-@scripting")

    def no_right_to_channels(self) -> str:
        return self._start().add_user("kim", SECRET, "~*", "resetchannels", "+@all")

    def no_right_to_keys(self) -> str:
        return self._start().add_user("kim", SECRET, "~other:*", "&*", "+@all")

    def no_right_to_commands(self) -> str:
        return self._start().add_user("kim", SECRET, "~*", "&*", "+@all", "-set")

    def wrong_database(self) -> str:
        return self._start(requirepass=SECRET).url + "/99"

    def not_there(self) -> str:
        return f"redis://:{SECRET}@{HOST}:{free_port()}"

    def wrong_host(self) -> str:
        return f"redis://:{SECRET}@no-such-host.invalid:6379"

    def silent(self) -> str:
        return self._impostor(silence)

    def web(self) -> str:
        return self._impostor(web_server)

    def mail(self) -> str:
        return self._impostor(silence, b"+OK POP3 server ready\r\n")

    def shell(self) -> str:
        return self._impostor(silence, b"SSH-2.0-OpenSSH_9.2p1\r\n")

    def too_old(self) -> str:
        return self._impostor(old_redis)

    def tls_with_unknown_authority(self) -> str:
        return f"rediss://:{SECRET}@{self._start(tls=True).address}"

    def tls_with_wrong_authority(self) -> str:
        other = self._start(tls=True).certificate
        return f"rediss://:{SECRET}@{self._start(tls=True).address}?ca={other}"

    def tls_where_there_is_none(self) -> str:
        return f"rediss://:{SECRET}@{self._start().address}"

    def no_tls_where_there_is(self) -> str:
        return f"redis://:{SECRET}@{self._start(tls=True).address}"


CASES: list[tuple[Callable[[Places], str], str, str]] = [
    (Places.wrong_password, "WRONGPASS", "check the user and the password"),
    (Places.wrong_user, "WRONGPASS", "check the user and the password"),
    (Places.no_password, "NOAUTH", "the server wants a password"),
    (Places.no_right_to_scripts, "NOPERM", NO_RIGHTS),
    (Places.no_right_to_channels, "NOPERM", NO_RIGHTS),
    (Places.no_right_to_keys, "NOPERM", NO_RIGHTS),
    (Places.wrong_database, "DB index is out of range", "a lower number"),
    (Places.not_there, "can't connect to 127.0.0.1", "is the server running there"),
    (Places.wrong_host, "can't connect to no-such-host.invalid", "is this its address?"),
    (Places.silent, "no answer", "is this its address?"),
    (Places.web, "does not speak Redis's protocol", "is this the right address"),
    (Places.mail, "no answer", "is this its address?"),
    (Places.shell, "does not speak Redis's protocol", "is this the right address"),
    (Places.too_old, "the server is version 6.2.14", "needs Redis 7 or newer"),
    (Places.tls_with_unknown_authority, "CERTIFICATE_VERIFY_FAILED", "?ca=FILE"),
    (Places.tls_with_wrong_authority, "CERTIFICATE_VERIFY_FAILED", "?ca=FILE"),
    (Places.tls_where_there_is_none, "no answer to TLS", "does it speak TLS at all"),
    (Places.no_tls_where_there_is, "the", "if it wants TLS, use rediss://"),
]


@pytest.fixture
def places(redis_server: RedisFactory) -> Iterator[Places]:
    with ExitStack() as running:
        yield Places(redis_server, running)


def no_secrets(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the password nor a ticket's id is to be seen anywhere."""
    told = "".join(traceback.format_exception(error)) + repr(error) + caplog.text
    assert SECRET not in told
    for words in told.replace("'", " ").split():
        assert not (len(words) == 32 and set(words) <= set("0123456789abcdef")), "that is an id"


@pytest.mark.parametrize(
    ("place", "message", "advice"), CASES, ids=[case[0].__name__ for case in CASES]
)
async def test_it_is_said_what_is_wrong(
    places: Places,
    open_cell: OpenCell,
    caplog: pytest.LogCaptureFixture,
    place: Callable[[Places], str],
    message: str,
    advice: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    cell = open_cell(place(places))
    client = cell.client()
    for act in (
        lambda: client.inspect(cell.name),
        lambda: client.lock(cell.name).try_acquire(),
        lambda: client.lock(cell.name).acquire(),
    )[: 1 if "answer" in message else None]:
        with pytest.raises(fencelock.EngineError) as caught:
            await cell.run(act)
        assert message in str(caught.value)
        assert advice in str(caught.value)
        assert caught.value.outcome == "not applied"
        assert caught.value.__cause__ is not None
        assert not isinstance(caught.value, TimeoutError)
        no_secrets(caught.value, caplog)


async def test_a_script_that_fails_half_way_may_have_done_something(
    places: Places, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    cell = open_cell(places.no_right_to_commands())
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match=NO_RIGHTS) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "unknown"
    no_secrets(caught.value, caplog)


@pytest.mark.parametrize("command", ["SUBSCRIBE", "EVALSHA"])
async def test_a_server_that_lacks_a_command(
    redis_server: RedisFactory, open_cell: OpenCell, caplog: pytest.LogCaptureFixture, command: str
) -> None:
    """Redis quotes an unknown command with its arguments: a channel, a ticket's id."""
    caplog.set_level(logging.DEBUG)
    server = redis_server(rename_command=f"{command} HIDDEN", requirepass=SECRET)
    cell = open_cell(server.url)
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match=f"unknown command '{command}'") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert "Fencelock needs" in str(caught.value)
    no_secrets(caught.value, caplog)


async def test_a_server_that_quotes_the_password(
    places: Places, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    """As Redis 5 does, which does not know HELLO."""

    def quote(heard: bytes) -> bytes:
        quoted = b" ".join(b"'%b'" % word for word in heard.split()[:20])
        return b"-ERR unknown command 'HELLO', with args beginning with: %b\r\n" % quoted * 9

    caplog.set_level(logging.DEBUG)
    cell = open_cell(places._impostor(quote))
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="unknown command 'HELLO'") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    no_secrets(caught.value, caplog)


def rights() -> list[str]:
    """What the documentation says a user needs."""
    page = (Path(__file__).parents[3] / "docs" / "engines" / "redis.md").read_text()
    (rules,) = re.findall(r"ACL SETUSER locks on >password (.*)", page)
    return str(rules).split()


async def test_the_rights_that_are_enough(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server()
    cell = open_cell(server.add_user("locks", SECRET, *rights()) + "/3")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20 * 86_400).acquire())
    waiters = set()
    for _ in range(3):
        waiters.add(cell.actor().start(lambda: client.lock(cell.name).acquire()))
    await queued(cell, client, 3)
    await cell.run(lease.renew)
    assert await cell.run(lambda: client.names("*")) == [cell.name]
    assert await cell.run(client.ping) > 0
    server.execute("SCRIPT", "FLUSH")
    await cell.run(lease.release)
    while waiters:
        done, waiters = await asyncio.wait(waiters, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        (following,) = done
        await cell.run(following.result().release)
    assert await cell.run(lambda: client.break_lock(cell.name)) is False


async def test_a_user_without_a_password(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server()
    server.execute("ACL", "SETUSER", "open", "on", "nopass", *rights())
    server.execute("ACL", "SETUSER", "default", "off")
    cell = open_cell(f"redis://open@{server.address}")
    await cell.run(lambda: cell.client().lock(cell.name).acquire())


@pytest.mark.parametrize("host", [HOST, "localhost"])
async def test_tls(redis_server: RedisFactory, open_cell: OpenCell, host: str) -> None:
    server = redis_server(tls=True, requirepass=SECRET)
    cell = open_cell(f"rediss://:{SECRET}@{host}:{server.port}?ca={server.certificate}")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    await cell.run(lease.release)
    following = await within(waiter)
    assert tickets(server, cell.name) == [following.id]
    with server.client() as other:
        other.client_kill_filter(_type="pubsub")
    await cell.run(following.release)


async def test_tls_without_verification(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server(tls=True)
    cell = open_cell(f"{server.url}?verify=no")
    await cell.run(lambda: cell.client().lock(cell.name).acquire())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://a,b", "one host only"),
        ("redis://localhost/seven", "the database must be a number"),
        ("redis://localhost?ca=x", "unknown option 'ca'"),
        ("redis://localhost?retry=3", "unknown option 'retry'"),
        ("rediss://localhost?ca=/no/such/file", "can't read the certificate files"),
        ("rediss://localhost?verify=maybe", "verify must be yes or no"),
        ("rediss://localhost?key=x", "key needs the option cert"),
        ("redis+sentinel://localhost", "name the group"),
        ("redis+cluster://localhost/3", "only database 0"),
        ("redis+unix://localhost", "name the path of the socket"),
        ("redis+unix:///run/redis.sock?db=x", "the database must be a number"),
        ("redis://localhost?db=3", "unknown option 'db'"),
    ],
)
def test_urls_that_can_not_be_right(url: str, message: str) -> None:
    secret = url.replace("//", f"//:{SECRET}@", 1)
    with pytest.raises(ValueError, match=message) as caught:
        fencelock.Client(secret)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
