"""Fixtures that hand out real servers. See servers.py for what one can do to them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

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
from tests.servers_mysql import MysqlFactory, MysqlServer, make_template
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_zookeeper import Ensemble

# Shared servers: one per worker, started when first asked for. Tests keep out of each other's way
# by using names of their own, and do these servers no harm.


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
        yield nodes.url


@pytest.fixture(scope="session")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    # Nothing happens to it, so its members need not assure one another all the time that they live.
    folder = tmp_path_factory.mktemp("etcd")
    with EtcdCluster(folder, heartbeat_interval=300, election_timeout=1500) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def etcd_url(etcd_cluster: EtcdCluster) -> str:
    return etcd_cluster.url


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def zookeeper_url(zookeeper: Ensemble) -> str:
    """With a session that is longer than every ttl in the tests."""
    return f"{zookeeper.url}/tests?session=600"


@pytest.fixture(scope="session")
def shared_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    with PostgresqlServer(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_url(shared_postgresql: PostgresqlServer) -> str:
    return shared_postgresql.url


@pytest.fixture(scope="session")
def mysql_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("mysql-template"))


@pytest.fixture(scope="session")
def shared_mysql(
    mysql_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MysqlServer]:
    with MysqlServer(tmp_path_factory.mktemp("mysql"), mysql_template) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_url(shared_mysql: MysqlServer) -> str:
    return shared_mysql.url


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


@pytest.fixture
def redlock_private(tmp_path: Path) -> Iterator[RedlockSet]:
    """Five nodes that may be killed, frozen and emptied."""
    with RedlockSet(tmp_path / "redlock") as nodes:
        yield nodes


@pytest.fixture
def private_zookeeper(tmp_path: Path) -> Iterator[Ensemble]:
    """It misses a leader after less than two seconds, and tidies up every second."""
    with Ensemble(tmp_path / "zookeeper", tidy=1, syncLimit=8) as ensemble:
        yield ensemble


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
