"""Fixtures that hand out real servers. See servers.py for what one can do to them."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.proxy import TcpProxy
from tests.servers import (
    VALKEY,
    ClusterSet,
    RedisFactory,
    RedisServer,
    SentinelSet,
    Setting,
)
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlFactory, MysqlServer
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_shared import SharedServers, ask
from tests.servers_zookeeper import Ensemble

pytest_plugins = ["tests.unsteady"]


def pytest_collection_finish() -> None:
    """Thousands of tests and all that they import are there to stay: no collection looks at them again."""
    gc.collect()
    gc.freeze()


# Servers of the whole run, for tests that know only a URL: in use by other workers, at the same time.
# Tests keep out of each other's way by using names of their own, and do these servers no harm.

SHARED = pytest.StashKey[SharedServers]()


def pytest_configure(config: pytest.Config) -> None:
    # What a shell runs in the background ignores these, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        config.stash[SHARED] = SharedServers()
        config.add_cleanup(config.stash[SHARED].close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["shared"] = node.config.stash[SHARED].address


LIMITS = ("REQUEST_TIMEOUT", "MIN_TIMEOUT")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about how long one request may take: a busy machine stalls for longer."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("fencelock.primitives", "fencelock.client")):
            for limit in LIMITS:
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, 10.0)


@pytest.fixture(scope="session")
def shared_server(pytestconfig: pytest.Config) -> Callable[[str], str]:
    """Where this worker's place in a server is: `shared_server("etcd")`. To be asked for once."""
    if hasattr(pytestconfig, "workerinput"):
        address, worker = (pytestconfig.workerinput[key] for key in ("shared", "workerid"))
    else:
        address, worker = pytestconfig.stash[SHARED].address, "alone"
    return lambda kind: ask(address, kind, worker)


@pytest.fixture(scope="session")
def etcd_url(shared_server: Callable[[str], str]) -> str:
    return shared_server("etcd")


@pytest.fixture(scope="session")
def zookeeper_url(shared_server: Callable[[str], str]) -> str:
    """With a session that is longer than every ttl in the tests."""
    return shared_server("zookeeper") + "?session=600"


@pytest.fixture(scope="session")
def postgresql_url(shared_server: Callable[[str], str]) -> str:
    return shared_server("postgresql")


@pytest.fixture(scope="session")
def mysql_url(shared_server: Callable[[str], str]) -> str:
    return shared_server("mysql")


@pytest.fixture(scope="session")
def mysql_template(shared_server: Callable[[str], str]) -> Path:
    return Path(shared_server("mysql_template"))


# Servers of one worker, started when first asked for: one test at a time sees and counts what happens
# there, and does them no harm. Those of Redis are for everybody, because they cost next to nothing.


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("valkey"), binary=VALKEY) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSet]:
    with ClusterSet(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redlock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedlockSet(tmp_path_factory.mktemp("redlock")) as nodes:
        # Nothing happens to them, so who does not answer has no core at the moment.
        yield f"{nodes.url}?node_timeout=5"


@pytest.fixture(scope="session")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    # Nothing happens to it, so its members need not assure one another all the time that they live.
    folder = tmp_path_factory.mktemp("etcd")
    with EtcdCluster(folder, heartbeat_interval=300, election_timeout=1500) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def shared_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    with PostgresqlServer(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="session")
def shared_mysql(
    mysql_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MysqlServer]:
    with MysqlServer(tmp_path_factory.mktemp("mysql"), mysql_template) as server:
        yield server


# Private servers: for tests that stop, freeze, fill up or reconfigure them.


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisFactory]:
    """Start as many servers as a test asks for: `redis_server(appendonly="yes")`."""
    with ExitStack() as running:
        count = 0

        def start(
            *, binary: str = "redis-server", tls: bool = False, **settings: Setting
        ) -> RedisServer:
            nonlocal count
            count += 1
            server = RedisServer(tmp_path / f"redis-{count}", binary=binary, tls=tls, **settings)
            return running.enter_context(server)

        yield start


@pytest.fixture
def redis_sentinels(tmp_path: Path) -> Iterator[SentinelSet]:
    with SentinelSet(tmp_path) as sentinels:
        yield sentinels


@pytest.fixture
def etcd_private(tmp_path: Path) -> Iterator[EtcdCluster]:
    """A cluster whose members may be stopped, killed and frozen."""
    with EtcdCluster(tmp_path / "etcd") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fragile_redlock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedlockSet]:
    with RedlockSet(tmp_path_factory.mktemp("redlock")) as nodes:
        yield nodes


@pytest.fixture
def redlock_private(fragile_redlock: RedlockSet) -> Iterator[RedlockSet]:
    """Five nodes that no other test uses meanwhile, and that may be killed, frozen and emptied."""
    yield fragile_redlock
    fragile_redlock.mend()


@pytest.fixture(scope="module")
def fragile_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three Java machines take two seconds of work to start: it is mended instead, after each test."""
    with Ensemble(tmp_path_factory.mktemp("zookeeper"), tidy=1, syncLimit=8) as ensemble:
        yield ensemble


@pytest.fixture
def private_zookeeper(fragile_zookeeper: Ensemble) -> Iterator[Ensemble]:
    """An ensemble that no other test uses meanwhile, whose nodes may be stopped, killed and frozen.

    It misses a leader after less than two seconds, and tidies up every second. Names are to be one's own.
    """
    yield fragile_zookeeper
    fragile_zookeeper.mend()


@pytest.fixture
def postgresql_server(tmp_path: Path) -> Iterator[PostgresqlFactory]:
    """Start as many servers as a test asks for: `postgresql_server(max_connections=5)`."""
    with ExitStack() as running:
        count = 0

        def start(**settings: Setting) -> PostgresqlServer:
            nonlocal count
            count += 1
            return running.enter_context(
                PostgresqlServer(tmp_path / f"postgresql-{count}", **settings)
            )

        yield start


@pytest.fixture
def mysql_server(mysql_template: Path, tmp_path: Path) -> Iterator[MysqlFactory]:
    """Start as many servers as a test asks for: `mysql_server(max_connections=5)`."""
    with ExitStack() as running:
        count = 0

        def start(**settings: Setting) -> MysqlServer:
            nonlocal count
            count += 1
            return running.enter_context(
                MysqlServer(tmp_path / f"mysql-{count}", mysql_template, **settings)
            )

        yield start


@pytest.fixture
def tcp_proxy() -> Iterator[Callable[[int], TcpProxy]]:
    """Put a proxy in front of a port: `tcp_proxy(server.port)`."""
    with ExitStack() as running:
        yield lambda port: running.enter_context(TcpProxy(port))
