"""Clients from the clients of other libraries: the same server, the same user, connections of our own."""

from __future__ import annotations

import inspect
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
import sqlalchemy
from redis.credentials import UsernamePasswordCredentialProvider
from sqlalchemy.ext.asyncio import create_async_engine

import fencelock
from fencelock.client.brought import url_of_psycopg, url_of_redis, url_of_sqlalchemy
from fencelock.client.options import ClientOptions
from tests.servers import HOST, ClusterSet, RedisFactory, SentinelSet
from tests.servers_mysql import MysqlServer
from tests.servers_postgresql import PostgresqlServer

SECRET = "geheim-41"


def meets(client: fencelock.Client, url: str) -> None:
    """The locks of this client are at the server with this URL, and it shows no password."""
    with client, fencelock.Client(url) as witness, client.lock("brought") as lease:
        assert witness.inspect("brought").holders[0].fence == lease.fence
    assert "geheim" not in repr(client)


@pytest.fixture
def socket_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fencelock-") as folder:
        yield Path(folder) / "redis.sock"


def test_redis(redis_server: RedisFactory, socket_path: Path) -> None:
    server = redis_server(requirepass=SECRET, unixsocket=socket_path)
    place = {"host": HOST, "port": server.port, "db": 2}
    provider = UsernamePasswordCredentialProvider("default", SECRET)
    url = f"{server.url}/2"
    for module in (redis, redis.asyncio):
        for brought in (
            module.Redis(**place, password=SECRET),
            module.Redis(**place, username="default", password=SECRET),
            module.Redis(**place, credential_provider=provider),
            module.Redis(unix_socket_path=str(socket_path), db=2, password=SECRET),
            module.from_url(url),
        ):
            meets(fencelock.Client.from_redis(brought), url)


async def test_redis_in_asyncio(redis_server: RedisFactory) -> None:
    server = redis_server(requirepass=SECRET)
    brought = redis.asyncio.Redis(host=HOST, port=server.port, password=SECRET)
    client = fencelock.AsyncClient.from_redis(brought, namespace="shop", ttl=5)
    async with client, client.lock("x") as lease:
        assert (lease.name, lease.ttl) == ("shop/x", 5)


def test_redis_with_tls(redis_server: RedisFactory) -> None:
    server = redis_server(tls=True, requirepass=SECRET)
    options = {"host": HOST, "port": server.port, "password": SECRET, "ssl": True}
    url = f"{server.url}?ca={server.certificate}"
    authority = str(server.certificate)
    for trust in ({"ssl_ca_certs": authority}, {"ssl_cert_reqs": "none"}):
        meets(fencelock.Client.from_redis(redis.Redis(**options, **trust)), url)  # type: ignore[arg-type]
    meets(fencelock.Client.from_redis(redis.from_url(server.url, ssl_ca_certs=authority)), url)
    stranger = fencelock.Client.from_redis(redis.Redis(**options))  # type: ignore[arg-type]
    with stranger, pytest.raises(fencelock.EngineError, match=r"(?i)certificate"):
        stranger.ping()


def test_redis_with_sentinels(redis_sentinels: SentinelSet) -> None:
    url = redis_sentinels.url
    group = url.rpartition("/")[2]
    hosts = [(HOST, each.port) for each in redis_sentinels.sentinels]
    for kind in (redis.sentinel.Sentinel, redis.asyncio.sentinel.Sentinel):
        sentinels = kind(hosts)
        meets(fencelock.Client.from_redis(sentinels.master_for(group)), url)


def test_redis_as_a_cluster(redis_cluster: ClusterSet) -> None:
    port = int(redis_cluster.url.rpartition(":")[2])
    with redis.RedisCluster(host=HOST, port=port) as brought:
        meets(fencelock.Client.from_redis(brought), redis_cluster.url)
    meets(
        fencelock.Client.from_redis(redis.asyncio.RedisCluster(host=HOST, port=port)),
        redis_cluster.url,
    )


class _OwnConnection(redis.Connection):
    """As a program may have it, for a tunnel."""


def test_what_can_not_be_taken_over_from_redis() -> None:
    pool = redis.ConnectionPool(connection_class=_OwnConnection)
    with pytest.raises(fencelock.Unsupported, match="a class of its own, _OwnConnection"):
        fencelock.Client.from_redis(redis.Redis(connection_pool=pool))
    with pytest.raises(fencelock.Unsupported, match="redis_connect_func"):
        fencelock.Client.from_redis(redis.Redis(redis_connect_func=print))
    pool = redis.ConnectionPool(connection_class=redis.SSLConnection, ssl_validate_ocsp=True)
    with pytest.raises(fencelock.Unsupported, match="ssl_validate_ocsp"):
        fencelock.Client.from_redis(redis.Redis(connection_pool=pool))
    with pytest.raises(TypeError, match="a client of redis-py, not str"):
        fencelock.Client.from_redis("redis://localhost")


def test_psycopg(shared_postgresql: PostgresqlServer) -> None:
    server = shared_postgresql
    with psycopg.connect(server.url) as brought:
        meets(fencelock.Client.from_psycopg(brought), server.url)
    place: dict[str, Any] = {"host": str(server.folder), "port": server.port, "user": server.user}
    with psycopg.connect(**place, password=server.password, dbname="postgres") as brought:
        url = url_of_psycopg(brought)
        assert url.hosts == ((str(server.folder), server.port),)
        assert server.password not in str(url)
        meets(fencelock.Client.from_psycopg(brought), server.url)
    strict = psycopg.connect(server.url, target_session_attrs="read-write")
    with strict, pytest.raises(fencelock.Unsupported, match="'target_session_attrs'"):
        fencelock.Client.from_psycopg(strict)
    with pytest.raises(TypeError, match="a connection of psycopg 3, not str"):
        fencelock.Client.from_psycopg(server.url)


def test_sqlalchemy_on_postgresql(shared_postgresql: PostgresqlServer) -> None:
    server = shared_postgresql
    url = sqlalchemy.make_url(server.url.replace("postgresql:", "postgresql+psycopg:"))
    options = {"connect_args": {"application_name": "shop", "sslmode": "disable"}}
    meets(fencelock.Client.from_sqlalchemy(sqlalchemy.create_engine(url, **options)), server.url)
    meets(fencelock.Client.from_sqlalchemy(create_async_engine(url)), server.url)

    rotating = sqlalchemy.create_engine(url.set(password="of yesterday"))

    @sqlalchemy.event.listens_for(rotating, "do_connect")
    def with_new_password(_: Any, __: Any, ___: Any, given: dict[str, Any]) -> None:
        given["password"] = server.password

    meets(fencelock.Client.from_sqlalchemy(rotating), server.url)
    with rotating.connect() as connection:  # it connects as ever
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    rotating.dispose()


def test_sqlalchemy_and_the_environment_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it we would ask another server."""
    empty = sqlalchemy.create_engine("postgresql+psycopg://")
    whole = sqlalchemy.create_engine("postgresql+psycopg://me@h:1/app")
    for key, value in {"HOST": "db", "PORT": "7", "USER": "ann", "DATABASE": "shop"}.items():
        monkeypatch.setenv(f"PG{key}", value)
    assert str(url_of_sqlalchemy(empty)) == "postgresql://ann@db:7/shop"
    assert str(url_of_sqlalchemy(whole)) == "postgresql://me@h:1/app"
    monkeypatch.setenv("PGSERVICE", "shop")
    with pytest.raises(fencelock.Unsupported, match="service file"):
        url_of_sqlalchemy(empty)


def test_sqlalchemy_on_mysql(shared_mysql: MysqlServer) -> None:
    server = shared_mysql
    url = sqlalchemy.make_url(server.url.replace("mysql:", "mysql+pymysql:"))
    meets(fencelock.Client.from_sqlalchemy(sqlalchemy.create_engine(url)), server.url)
    socket = {"connect_args": {"unix_socket": str(server.settings["socket"])}}
    meets(fencelock.Client.from_sqlalchemy(sqlalchemy.create_engine(url, **socket)), server.url)
    meets(
        fencelock.Client.from_sqlalchemy(create_async_engine(url.set(drivername="mysql+asyncmy"))),
        server.url,
    )


def test_sqlalchemy_on_sqlite(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    for engine in (
        sqlalchemy.create_engine(f"sqlite:///{file}"),
        create_async_engine(f"sqlite+aiosqlite:///{file}"),
    ):
        meets(fencelock.Client.from_sqlalchemy(engine), f"sqlite:///{file}.locks")
    assert not file.exists()
    with pytest.raises(fencelock.Unsupported, match="this one is in memory or has a URI"):
        fencelock.Client.from_sqlalchemy(sqlalchemy.create_engine("sqlite://"))


@pytest.mark.parametrize(
    ("tls", "options"),
    [
        ({"ca": "a.pem"}, {"sslrootcert": "a.pem", "sslmode": "verify-full"}),
        (
            {"ca": "a.pem", "cert": "c", "key": "k", "check_hostname": False},
            {"sslrootcert": "a.pem", "sslcert": "c", "sslkey": "k", "sslmode": "verify-ca"},
        ),
        ({"check_hostname": False}, {"sslmode": "require"}),
    ],
    ids=["authority", "certificate", "none"],
)
def test_the_tls_of_mysql_drivers(tls: dict[str, Any], options: dict[str, str]) -> None:
    engine = sqlalchemy.create_engine("mysql+pymysql://u:p@h/db", connect_args={"ssl": tls})
    assert url_of_sqlalchemy(engine).options == options


def test_several_hosts_of_postgresql() -> None:
    engine = sqlalchemy.create_engine(
        f"postgresql+psycopg://me:{SECRET[:6]}@/app?host=a:1&host=b:2&sslmode=verify-full&sslrootcert=x"
    )
    url = url_of_sqlalchemy(engine)
    assert str(url) == "postgresql://me:***@a:1,b:2/app"
    assert url.options == {"sslmode": "verify-full", "sslrootcert": "x"}


def test_what_can_not_be_taken_over_from_sqlalchemy() -> None:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://h/db", connect_args={"sslpassword": SECRET}
    )
    with pytest.raises(fencelock.Unsupported, match="'sslpassword'") as caught:
        fencelock.Client.from_sqlalchemy(engine)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"))
    with pytest.raises(fencelock.Unsupported, match="a way of its own"):
        fencelock.Client.from_sqlalchemy(engine)
    with pytest.raises(TypeError, match="an engine of SQLAlchemy, not str"):
        fencelock.Client.from_sqlalchemy("sqlite://")


def test_every_option_of_a_client_can_be_given() -> None:
    own = set(inspect.signature(fencelock.Client).parameters) - {"url", "credentials"}
    assert set(ClientOptions.__optional_keys__) == own


def test_the_client_of_redis_is_only_looked_at() -> None:
    assert str(url_of_redis(redis.Redis(host="h", password=SECRET))) == "redis://:***@h:6379/0"
