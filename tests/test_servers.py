"""The servers that other tests rely on do what they say."""

import itertools
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import redis

from fencelock.servers import process
from fencelock.servers.clock import ShiftedClock
from fencelock.servers.mysql import MysqlServer
from fencelock.servers.postgresql import PostgresqlServer, reachable
from fencelock.servers.process import Server, ServerFailed, ServerSlow
from fencelock.servers.redlock import RedlockSet
from tests.effort import only_in_soaks
from tests.servers import (
    HOST,
    VALKEY,
    ClusterSet,
    RedisFactory,
    RedisServer,
    SentinelSet,
    connect,
    free_port,
)
from tests.servers_etcd import EtcdCluster
from tests.waiting import eventually


def test_the_shared_server_answers(redis_url: str) -> None:
    with connect(redis_url) as client:
        assert client.ping()


def test_valkey_answers(redis_server: RedisFactory) -> None:
    assert redis_server(binary=VALKEY).info("server")["server_name"] == "valkey"


def test_a_frozen_server_is_silent_and_then_goes_on(redis_server: RedisFactory) -> None:
    server = redis_server()
    with server.client() as client, connect(server.url, timeout=0.05) as hasty:
        client.set("k", "kept")
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            hasty.get("k")
        server.thaw()
        assert client.get("k") == "kept"


@pytest.mark.parametrize(("keep_data", "found"), [(True, "v"), (False, None)])
def test_restart(redis_server: RedisFactory, keep_data: bool, found: str | None) -> None:
    server = redis_server()
    url = server.url
    server.execute("SET", "k", "v")
    server.restart(keep_data=keep_data)
    assert server.url == url
    assert server.execute("GET", "k") == found


def test_a_crash_keeps_what_the_settings_say(redis_server: RedisFactory) -> None:
    server = redis_server(appendonly="yes", appendfsync="always")
    server.execute("SET", "k", "v")
    server.kill()
    with pytest.raises(redis.ConnectionError):
        server.execute("PING")
    assert server.start().execute("GET", "k") == "v"


def test_a_frozen_server_can_be_stopped(redis_server: RedisFactory) -> None:
    server = redis_server()
    process = psutil.Process(server.pid)
    server.freeze()
    server.stop()
    assert not process.is_running()


def test_config(redis_server: RedisFactory) -> None:
    server = redis_server()
    server.config(maxmemory_policy="volatile-lru")
    assert server.info("memory")["maxmemory_policy"] == "volatile-lru"


def test_password_and_user(redis_server: RedisFactory) -> None:
    server = redis_server(requirepass="secret")
    with connect(f"redis://{server.address}") as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    url = server.add_user("reader", "other", "~*", "+get", "+ping")
    with connect(url) as reader:
        assert reader.get("k") is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.set("k", "v")


def test_tls(redis_server: RedisFactory) -> None:
    server = redis_server(tls=True)
    assert server.url.startswith("rediss://")
    with connect(server.url) as distrustful, pytest.raises(redis.ConnectionError):
        distrustful.ping()
    with connect(server.url, ssl_ca_certs=server.certificate) as client:
        assert client.ping()


def test_replica(redis_server: RedisFactory) -> None:
    primary = redis_server()
    primary.execute("SET", "k", "v")
    replica = redis_server(replicaof=f"{HOST} {primary.port}")
    replica.wait_for_sync()
    assert replica.execute("GET", "k") == "v"
    with pytest.raises(redis.ReadOnlyError):
        replica.execute("SET", "k", "w")


def test_sentinels_fail_over(redis_sentinels: SentinelSet) -> None:
    old = redis_sentinels.primary()
    new = redis_sentinels.failover()
    assert new is not old
    assert redis_sentinels.primary() is new
    assert new.execute("SET", "k", "v")


@pytest.mark.slow
def test_sentinels_replace_a_dead_primary(redis_sentinels: SentinelSet) -> None:
    primary, replica = redis_sentinels.servers
    primary.kill()
    eventually(lambda: redis_sentinels.primary() is replica, "the replica to take over")
    assert replica.execute("SET", "k", "v")


def test_cluster(redis_cluster: ClusterSet) -> None:
    with redis.RedisCluster(host=HOST, port=redis_cluster.nodes[0].port) as client:
        for number in range(10):  # enough to meet all three nodes
            client.set(f"k{number}", number)
    assert all(node.execute("DBSIZE") for node in redis_cluster.nodes)


def test_a_server_dies_with_its_test_run(tmp_path: Path) -> None:
    program = """
import os, pathlib, signal, sys
from tests.servers import RedisServer
print(RedisServer(pathlib.Path(sys.argv[1])).start().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False
    )
    pid = int(run.stdout)
    eventually(lambda: not alive(pid), "the server to die")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="no-such-setting"):
        RedisServer(tmp_path, no_such_setting="1").start()


def test_a_server_that_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="keydb-server is not installed; on Debian: apt-get"):
        RedisServer(tmp_path, binary="keydb-server").start()


class Dumb(Server):
    """It runs, and never answers."""

    def command(self) -> list[str]:
        return ["sh", "-c", "echo a word; sleep 60"]

    def ready(self) -> bool:
        return False


def test_a_server_that_does_not_answer_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_TIMEOUT", 0.3)
    server = Dumb(tmp_path)
    with pytest.raises(ServerSlow, match=r"0.3 s in vain for the server to answer:\na word"):
        server.start()
    assert not server.runs


def test_a_set_heals(tmp_path: Path) -> None:
    with RedlockSet(tmp_path, size=3) as nodes:
        killed, frozen, _ = nodes.servers
        killed.kill()
        frozen.freeze()
        nodes.heal()
        assert nodes.serves()
        assert nodes.url == f"redlock://{','.join(node.address for node in nodes.servers)}"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_clock_moves_while_the_server_runs(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with RedisServer(tmp_path / "redis", environment=clock.environment) as server:
        for seconds in (1000, -1000, 0):
            clock.set(seconds)
            off = int(server.execute("TIME")[0]) - time.time()
            assert abs(off - seconds) < 100


def test_a_shifted_clock_needs_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ServerFailed, match="cc is not installed; on Debian: apt-get install gcc"):
        ShiftedClock(tmp_path)


@only_in_soaks
@pytest.mark.parametrize("kind", [PostgresqlServer, MysqlServer])
def test_a_database_with_a_clock_of_its_own(
    kind: type[PostgresqlServer] | type[MysqlServer],
) -> None:
    now = "EXTRACT(EPOCH FROM now())" if kind is PostgresqlServer else "UNIX_TIMESTAMP()"
    folder = reachable(Path(tempfile.mkdtemp()))
    clock = ShiftedClock(folder)
    clock.set(1000)
    with kind(folder / "server", environment=clock.environment) as server:
        assert float(server.execute(f"SELECT {now}")[0][0]) > time.time() + 900
    shutil.rmtree(folder)


def test_an_etcd_cluster_begins_anew_if_somebody_was_quicker_to_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((HOST, 0)) as quicker:
        # The last port of the last member: by then the others have stored where to find it.
        first = [*(free_port() for _ in range(8)), quicker.getsockname()[1]]
        ports = itertools.chain(first, iter(free_port, None))
        monkeypatch.setattr("fencelock.servers.etcd.free_port", lambda: next(ports))
        with EtcdCluster(tmp_path) as cluster:
            assert quicker.getsockname()[1] not in [one.metrics_port for one in cluster.members]
            cluster.ctl("put", "k", "v")
            cluster.servers[0].kill()
            cluster.servers[1].freeze()
            cluster.heal()
            assert cluster.ctl("get", "k")["count"] == 1
