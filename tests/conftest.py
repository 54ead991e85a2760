"""Fixtures that hand out real servers. servers.py says what a test can do to them."""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fencelock.testing.conformance.cells import be_patient
from tests.proxy import TcpProxy
from tests.servers import (
    VALKEY,
    ClusterSet,
    RedisFactory,
    RedisServer,
    SentinelSet,
)
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlFactory, MysqlServer
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_service import Replica
from tests.servers_shared import SharedServers, ask
from tests.servers_zookeeper import Ensemble

pytest_plugins = ["tests.unsteady", "tests.browser"]


def pytest_collection_finish() -> None:
    """Thousands of tests and their imports stay until the end: the garbage collector can ignore them."""
    gc.collect()
    gc.freeze()


# Servers of the whole run, for tests that need only a URL. Other workers use them at the same time.
# Each test uses its own names, and no test damages these servers.

SHARED = pytest.StashKey[SharedServers]()


def pytest_configure(config: pytest.Config) -> None:
    # A program that a shell runs in the background ignores these signals, and its children would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        config.stash[SHARED] = SharedServers()
        config.add_cleanup(config.stash[SHARED].close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["shared"] = node.config.stash[SHARED].address


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about the timeout of one request: a busy machine stalls for longer."""
    be_patient(monkeypatch)


@pytest.fixture(scope="session")
def shared_server(pytestconfig: pytest.Config) -> Callable[[str], str]:
    """Return the URL of this worker's place in a shared server: `shared_server("etcd")`. Call it once."""
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
    """A ZooKeeper whose session is longer than every ttl in the tests."""
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


# Servers of one worker, started at their first use. One test at a time uses them: it can count what happens
# there, and does not damage them. Redis servers cost almost nothing, so all tests use these.


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
        # No test stops these servers, so a server that does not answer only waits for a free core.
        yield f"{nodes.url}?node_timeout=5"


@pytest.fixture(scope="session")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    # No test stops its members, so they don't need short heartbeats.
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


@pytest.fixture(scope="session")
def replica_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Replica]]:
    """The worker's own replica in front of an engine: `replica_of("redis")`. No test damages it."""
    replicas: dict[str, Replica] = {}
    with ExitStack() as running:

        def start(engine: str) -> Replica:
            if engine not in replicas:
                folder = tmp_path_factory.mktemp(f"service-{engine}")
                file = f"sqlite:///{folder}/locks.db"
                url = file if engine == "sqlite" else request.getfixturevalue(f"{engine}_url")
                replicas[engine] = running.enter_context(Replica(folder, url))
            return replicas[engine]

        yield start


# Private servers: for tests that stop, freeze, fill up or reconfigure them.


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisFactory]:
    """Start as many servers as a test asks for: `redis_server(appendonly="yes")`."""
    with ExitStack() as running:
        count = 0

        def start(**options: Any) -> RedisServer:
            nonlocal count
            count += 1
            return running.enter_context(RedisServer(tmp_path / f"redis-{count}", **options))

        yield start


@pytest.fixture
def private_replica(redis_url: str, tmp_path: Path) -> Iterator[Replica]:
    """A lock service that the test may stop, kill and freeze."""
    with Replica(tmp_path / "replica", redis_url) as replica:
        yield replica


@pytest.fixture
def redis_sentinels(tmp_path: Path) -> Iterator[SentinelSet]:
    with SentinelSet(tmp_path) as sentinels:
        yield sentinels


@pytest.fixture
def etcd_private(tmp_path: Path) -> Iterator[EtcdCluster]:
    """A cluster whose members the test may stop, kill and freeze."""
    with EtcdCluster(tmp_path / "etcd") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fragile_redlock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedlockSet]:
    with RedlockSet(tmp_path_factory.mktemp("redlock")) as nodes:
        yield nodes


@pytest.fixture
def redlock_private(fragile_redlock: RedlockSet) -> Iterator[RedlockSet]:
    """Five nodes that no other test uses meanwhile. The test may kill, freeze and empty them."""
    yield fragile_redlock
    fragile_redlock.mend()


@pytest.fixture(scope="module")
def fragile_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Starting three Java machines takes two seconds of work, so each test's damage is repaired instead."""
    with Ensemble(tmp_path_factory.mktemp("zookeeper"), tidy=1, syncLimit=8) as ensemble:
        yield ensemble


@pytest.fixture
def private_zookeeper(fragile_zookeeper: Ensemble) -> Iterator[Ensemble]:
    """An ensemble that no other test uses meanwhile. The test may stop, kill and freeze its nodes.

    It notices a missing leader after less than two seconds, and tidies up every second. Each test must use
    its own names.
    """
    yield fragile_zookeeper
    fragile_zookeeper.mend()


@pytest.fixture
def postgresql_server(tmp_path: Path) -> Iterator[PostgresqlFactory]:
    """Start as many servers as a test asks for: `postgresql_server(max_connections=5)`."""
    with ExitStack() as running:
        count = 0

        def start(**options: Any) -> PostgresqlServer:
            nonlocal count
            count += 1
            return running.enter_context(
                PostgresqlServer(tmp_path / f"postgresql-{count}", **options)
            )

        yield start


@pytest.fixture
def mysql_server(mysql_template: Path, tmp_path: Path) -> Iterator[MysqlFactory]:
    """Start as many servers as a test asks for: `mysql_server(max_connections=5)`."""
    with ExitStack() as running:
        count = 0

        def start(**options: Any) -> MysqlServer:
            nonlocal count
            count += 1
            return running.enter_context(
                MysqlServer(tmp_path / f"mysql-{count}", mysql_template, **options)
            )

        yield start


@pytest.fixture
def tcp_proxy() -> Iterator[Callable[[int], TcpProxy]]:
    """Put a proxy in front of a port: `tcp_proxy(server.port)`."""
    with ExitStack() as running:
        yield lambda port: running.enter_context(TcpProxy(port))
