"""No server there, another kind of server, no permission: errors that say so, and give no secret away."""

import asyncio
import re
import socket
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.etcd import server_state
from tests.servers import HOST, RedisServer, free_port
from tests.servers_etcd import EtcdCluster, make_certificate
from tests.waiting import eventually, soon, within

SECRET = "correct-horse-battery-staple"
TOKEN_SECONDS = 2


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """A cluster with users, whose tokens expire soon."""
    folder = tmp_path_factory.mktemp("guarded")
    with EtcdCluster(folder, size=1, auth_token_ttl=TOKEN_SECONDS, bcrypt_cost=4) as cluster:
        cluster.ctl("user", "add", f"root:{SECRET}")
        cluster.ctl("role", "add", "locks")
        cluster.ctl("role", "grant-permission", "locks", "readwrite", "fencelock/", "--prefix=true")
        cluster.ctl("user", "add", f"kim:{SECRET}")
        cluster.ctl("user", "grant-role", "kim", "locks")
        cluster.ctl("user", "add", f"eve:{SECRET}")
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("auth", "enable")
        cluster.login = f"root:{SECRET}"
        yield cluster


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """A cluster that speaks TLS only, and asks for certificates."""
    with EtcdCluster(tmp_path_factory.mktemp("secured"), size=1, tls=True) as cluster:
        yield cluster


def as_user(cluster: EtcdCluster, login: str) -> str:
    return cluster.url.replace("//", f"//{login}@")


async def works(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    await cell.run(lease.release)
    second = await within(waiter)
    assert second.fence > lease.fence
    await cell.run(second.release)


async def refused(cell: Cell, *words: str) -> None:
    """Every operation says so, soon, and without the password."""
    client = cell.client()
    for act in (
        lambda: client.lock(cell.name).acquire(timeout=2),
        lambda: client.inspect(cell.name),
    ):
        start = time.monotonic()
        with pytest.raises(fencelock.EngineError) as caught:
            await cell.run(act)
        assert time.monotonic() - start < 60
        assert caught.value.outcome == "not applied"
        for word in words:
            assert re.search(word, str(caught.value), re.IGNORECASE), str(caught.value)
        shown = "".join(traceback.format_exception(caught.value))
        assert SECRET not in shown


async def test_a_user_with_just_the_rights_it_needs(
    guarded: EtcdCluster, open_cell: OpenCell
) -> None:
    await works(open_cell(as_user(guarded, f"kim:{SECRET}")))


@pytest.mark.parametrize(
    ("login", "advice"),
    [
        ("kim:wrong", "check the user and the password"),
        ("nobody:wrong", "check the user and the password"),
        (f"eve:{SECRET}", "needs the right to read and write keys that begin with fencelock/"),
    ],
)
async def test_no_permission(
    guarded: EtcdCluster, open_cell: OpenCell, login: str, advice: str
) -> None:
    await refused(open_cell(as_user(guarded, login)), advice)


async def test_no_login(guarded: EtcdCluster, open_cell: OpenCell) -> None:
    await refused(open_cell(guarded.url), "give a user and a password")


async def test_a_login_where_there_are_no_users(
    etcd_cluster: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(as_user(etcd_cluster, f"kim:{SECRET}"))
    await refused(cell, "leave the user and the password out")


async def test_tokens_that_expire(guarded: EtcdCluster, open_cell: OpenCell) -> None:
    """A lock is held and waited for while tokens expire, and used again after a pause."""
    cell = open_cell(as_user(guarded, f"kim:{SECRET}"))
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=30).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name, ttl=30).acquire())
    await queued(cell, client, 1)
    await soon(lambda: server_state.watchers(guarded) == 2, "the waiter to listen")
    await asyncio.sleep(2.5 * TOKEN_SECONDS)  # time itself is under test
    await cell.run(lease.renew)
    await cell.run(lease.release)
    second = await within(waiter)
    third = cell.actor().start(lambda: client.lock(cell.name, ttl=30).acquire())
    await queued(
        cell, other, 1
    )  # a watch on a stream whose token has expired, if it still is there
    await cell.run(second.release)
    await cell.run((await within(third)).release)


async def test_a_watch_that_is_refused_because_the_token_has_expired(
    guarded: EtcdCluster, open_cell: OpenCell
) -> None:
    """The stream is as old as its token. A later waiter is woken like an earlier one."""
    cell = open_cell(as_user(guarded, f"kim:{SECRET}"))
    client, other = cell.client(), cell.client()
    names = [f"{cell.name}:{letter}" for letter in "ab"]
    leases = [await cell.run(client.lock(name, ttl=600).acquire) for name in names]
    early = cell.actor().start(other.lock(names[0], ttl=600).acquire)
    await soon(lambda: server_state.watchers(guarded) == 2, "the first to listen")
    await asyncio.sleep(2.5 * TOKEN_SECONDS)  # time itself is under test
    late = cell.actor().start(other.lock(names[1], ttl=600).acquire)
    await soon(lambda: server_state.watchers(guarded) == 4, "both to listen")
    for lease, waiter in zip(leases, (early, late), strict=True):
        await cell.run(lease.release)
        await cell.run((await within(waiter)).release)


async def test_tls(secured: EtcdCluster, open_cell: OpenCell) -> None:
    ca, pem = secured.folder / "authority.pem", secured.folder / "certificate.pem"
    await works(open_cell(f"{secured.url}?ca={ca}&cert={pem}&key={pem}"))


async def test_tls_with_the_wrong_authority(
    secured: EtcdCluster, open_cell: OpenCell, tmp_path: Path
) -> None:
    make_certificate(tmp_path)
    pem = secured.folder / "certificate.pem"
    url = f"{secured.url}?ca={tmp_path / 'authority.pem'}&cert={pem}&key={pem}"
    await refused(open_cell(url), "certificate", "option ca")


async def test_tls_without_a_certificate(secured: EtcdCluster, open_cell: OpenCell) -> None:
    cell = open_cell(f"{secured.url}?ca={secured.folder / 'authority.pem'}")
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="give the options cert and key"):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=2))


async def test_tls_where_there_is_none(
    etcd_cluster: EtcdCluster, secured: EtcdCluster, open_cell: OpenCell
) -> None:
    ca = secured.folder / "authority.pem"
    await refused(open_cell(f"etcds://{etcd_cluster.addresses}?ca={ca}"), "use etcd://")


async def test_no_tls_where_it_is_needed(secured: EtcdCluster, open_cell: OpenCell) -> None:
    cell = open_cell(f"etcd://{secured.addresses}")
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="etcds://"):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=2))


async def test_no_server_there(open_cell: OpenCell) -> None:
    url = f"etcd://kim:{SECRET}@{HOST}:{free_port()},{HOST}:{free_port()}"
    await refused(open_cell(url), "refused", "is etcd running there")


async def test_a_host_that_does_not_exist(open_cell: OpenCell) -> None:
    await refused(open_cell("etcd://no-such-host.invalid:2379"), "no-such-host.invalid")


async def test_another_kind_of_server_there(open_cell: OpenCell, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        cell = open_cell(f"etcd://{HOST}:{server.port}")
        client = cell.client()
        with pytest.raises(fencelock.EngineError, match="address of an etcd"):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=2))


async def test_a_silent_server_there(open_cell: OpenCell) -> None:
    with socket.create_server((HOST, 0)) as listener:
        cell = open_cell(f"etcd://{HOST}:{listener.getsockname()[1]}")
        client = cell.client()
        with pytest.raises(fencelock.EngineError, match=r"no answer|can't reach"):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=2))


async def test_a_full_database(open_cell: OpenCell, tmp_path: Path) -> None:
    """No ticket can join, but holders can release."""
    with EtcdCluster(tmp_path / "full", size=1, quota_backend_bytes=2_000_000) as cluster:
        cell = open_cell(cluster.url)
        client = cell.client()
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        eventually(partial(_is_full, cluster), "the database to be full")
        with pytest.raises(fencelock.EngineError, match="alarm disarm") as caught:
            await cell.run(lambda: client.lock(cell.name + ":new").acquire(timeout=2))
        assert caught.value.outcome == "not applied"
        await cell.run(lease.release)
        assert server_state.of(cluster, cell.name) == []


def _is_full(cluster: EtcdCluster) -> bool:
    try:
        cluster.ctl("put", "junk", "x" * 100_000)
    except AssertionError as refused:
        return "space exceeded" in str(refused)
    return False


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("etcd://host/path", "has no path"),
        ("etcd://host?ca=x", "unknown option 'ca'"),
        ("etcds://host?verify=no", "unknown option 'verify'"),
        ("etcds://host?cert=x", "cert and key go together"),
        ("etcds://host?ca=/no/such/file", "can't read the certificate files"),
        ("etcd://kim@host", "a login needs both"),
    ],
)
def test_urls_that_can_not_be_right(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fencelock.Client(url)
