"""Nodes that answer, but not as one would wish; and what is refused from the start."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import fencelock
from tests.conformance.cells import OpenCell, queued
from tests.engines.redlock.conftest import StartNodes
from tests.engines.redlock.node_state import connected, holders, nothing_left, renewed
from tests.servers import HOST, RedisFactory
from tests.servers_redlock import RedlockSet
from tests.waiting import eventually, soon

ROOT = Path(__file__).parents[3]
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def nodes(start_nodes: StartNodes) -> RedlockSet:
    """New ones for each test, because their settings are changed."""
    return start_nodes()


def no_secrets(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    said = "".join(traceback.format_exception(error)) + caplog.text
    assert SECRET not in said


async def test_a_node_becomes_a_replica(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    await connected(cell, client)
    for node in nodes.nodes[:2]:
        node.execute("REPLICAOF", HOST, nodes.nodes[4].port)
        node.wait_for_sync()
    await connected(cell, client)
    nodes.nodes[2].execute("REPLICAOF", HOST, nodes.nodes[4].port)
    nodes.nodes[2].wait_for_sync()

    async def explained() -> bool:
        with pytest.raises(fencelock.QuorumLost) as caught:
            await cell.run(lambda: client.lock(cell.name).acquire())
        return str(caught.value).count("is a replica") == 3

    await soon(explained, "the reason to be known")


async def test_a_full_node(nodes: RedlockSet, open_cell: OpenCell) -> None:
    """It takes no new locks, but holders can renew and release."""
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    for node in nodes.nodes[:3]:
        node.config(maxmemory=1)
    with pytest.raises(fencelock.QuorumLost, match="raise maxmemory"):
        await cell.run(lambda: client.lock(f"{cell.name}:other").acquire())
    await cell.run(lease.renew)
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)
    for node in nodes.nodes[:3]:
        node.config(maxmemory=0)
    await connected(cell, client)


async def test_scripts_are_forgotten(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()

    def forget() -> None:
        for node in nodes.nodes:
            node.execute("SCRIPT", "FLUSH")

    await connected(cell, client)
    forget()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    forget()
    assert await cell.run(lambda: client.lock(cell.name, ttl=600).try_acquire()) is None
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=600).acquire())
    await queued(cell, client, 1)
    forget()
    await cell.run(lease.renew)
    forget()
    await cell.run(lease.release)
    following = await waiter
    assert following.fence > lease.fence
    await cell.run(following.release)
    # A majority has released; what was told to the others in the very moment may have been refused.
    assert holders(nodes.nodes, cell.name).count("") >= 3
    assert await cell.run(lambda: client.lock(cell.name, ttl=600).try_acquire()) is not None


async def test_scripts_are_forgotten_by_a_restart(
    start_nodes: StartNodes, open_cell: OpenCell
) -> None:
    """A bid that loses is taken back without a look: so its node has to know the script."""
    nodes = start_nodes(appendonly="yes", appendfsync="always")
    cell = open_cell(nodes.url)
    client, other = cell.client(), cell.client()
    await connected(cell, client)
    for node in nodes.nodes[3:]:
        node.freeze()
    lease = await cell.run(lambda: other.lock(cell.name, ttl=600).acquire())
    for node in nodes.nodes[3:]:
        node.kill()
        node.start()
    for _ in range(5):  # refused by three, granted by two
        assert await cell.run(lambda: client.lock(cell.name, ttl=600).try_acquire()) is None
    await renewed(cell, lease)
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


FORKS = """
import os, sys
import fencelock

client = fencelock.Client(sys.argv[1], ttl=30)
lease = client.lock("x").acquire()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        assert client.lock("x").try_acquire() is None
        with client.lock("y"):
            pass
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
lease.renew()
lease.release()
client.close()
print("unharmed")
"""


def test_forks(nodes: RedlockSet) -> None:
    command = [sys.executable, "-c", FORKS, nodes.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "unharmed\n", done.stderr
    eventually(lambda: not any(holders(nodes.nodes, "x")), "one to be free")
    eventually(lambda: not any(holders(nodes.nodes, "y")), "the other to be free")


# --- which servers are accepted


async def test_wrong_password(
    start_nodes: StartNodes, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    nodes = start_nodes(requirepass="another")
    cell = open_cell(nodes.url.replace("//", f"//:{SECRET}@"))
    with pytest.raises(fencelock.QuorumLost, match="check the user and the password") as caught:
        await cell.run(lambda: cell.client().lock(cell.name).acquire())
    assert "WRONGPASS" in str(caught.value)
    no_secrets(caught.value, caplog)


async def test_no_password(start_nodes: StartNodes, open_cell: OpenCell) -> None:
    cell = open_cell(start_nodes(requirepass=SECRET).url)
    with pytest.raises(fencelock.QuorumLost, match="the server wants a password"):
        await cell.run(lambda: cell.client().lock(cell.name).acquire())


@pytest.mark.parametrize(
    ("forbidden", "works"), [("-config", True), ("-info", False), ("-evalsha", False)]
)
async def test_rights(nodes: RedlockSet, open_cell: OpenCell, forbidden: str, works: bool) -> None:
    for node in nodes.nodes:
        node.add_user("kim", SECRET, "~fencelock:*", "&fencelock:*", "+@all", forbidden)
    cell = open_cell(nodes.url.replace("//", f"//kim:{SECRET}@"))
    client = cell.client()
    if works:
        await connected(cell, client)
        return
    with pytest.raises(fencelock.QuorumLost, match="NOPERM") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert "let the ACL user run" in str(caught.value)


async def test_tls(start_nodes: StartNodes, open_cell: OpenCell) -> None:
    nodes = start_nodes(tls=True, requirepass=SECRET, nodes=3)
    authorities = nodes.folder / "authorities.pem"
    authorities.write_text("".join(node.certificate.read_text() for node in nodes.nodes))
    url = nodes.url.replace("redlock://", f"redlocks://:{SECRET}@")
    cell = open_cell(f"{url}?ca={authorities}")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    await cell.run(lease.release)
    await cell.run((await waiter).release)
    await nothing_left(nodes.nodes, cell.name)


# --- what is refused


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redlock://a", "at least 3 servers"),
        ("redlock://a,b", "at least 3 servers"),
        ("redlock://a,b,a", "named twice"),
        ("redlock://a,b,c?retry=3", "unknown option 'retry'"),
        ("redlock://a,b,c?ca=x", "unknown option 'ca'"),
        ("redlock://a,b,c?node_timeout=soon", "node_timeout"),
    ],
)
def test_urls_that_can_not_be_right(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fencelock.Client(url.replace("//", f"//:{SECRET}@"))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_even_number_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    fencelock.Client(f"redlock://:{SECRET}@a,b,c,d").close()
    assert "an even number of servers" in caplog.text
    assert SECRET not in caplog.text


def test_no_correctness_lock() -> None:
    with pytest.raises(fencelock.UnsafeEngine):
        fencelock.Client("redlock://a,b,c", purpose="correctness")


async def test_two_ways_to_one_server(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    one, other = redis_server(), redis_server()
    cell = open_cell(f"redlock://{one.address},{other.address},localhost:{one.port}")
    with pytest.raises(fencelock.Unsupported, match="is the same server as"):
        await cell.run(lambda: cell.client().lock(cell.name).acquire())


async def test_a_replica(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    one, other = redis_server(), redis_server()
    replica = redis_server(replicaof=f"{HOST} {one.port}")
    cell = open_cell(f"redlock://{one.address},{other.address},{replica.address}")
    with pytest.raises(fencelock.Unsupported, match="is a replica"):
        await cell.run(lambda: cell.client().lock(cell.name).acquire())


async def test_a_node_of_a_cluster(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    one, other = redis_server(), redis_server()
    node = redis_server(cluster_enabled="yes")
    cell = open_cell(f"redlock://{one.address},{other.address},{node.address}")
    with pytest.raises(fencelock.Unsupported, match="is a node of a Redis Cluster"):
        await cell.run(lambda: cell.client().lock(cell.name).acquire())
