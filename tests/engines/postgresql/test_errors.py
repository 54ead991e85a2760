"""Errors say what is wrong and what to do about it, without secrets."""

import socket
import threading
from pathlib import Path

import pytest
import sqlalchemy

import fencelock
from fencelock.core.url import Url
from fencelock.engines.postgresql.urls import target_of
from tests.conformance.cells import Cell, OpenCell
from tests.servers import HOST, free_port
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.waiting import PATIENCE

SECRET = "open-sesame"


async def refusal(cell: Cell, *, silent: bool = False) -> str:
    """The error of a client that wants a lock there."""
    client = cell.client()
    while True:
        with pytest.raises(fencelock.EngineError) as caught:
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=5))
        text = str(caught.value)
        if silent or "no answer" not in text:
            break  # else the machine is too busy to refuse in time
    assert caught.value.outcome == "not applied"
    assert caught.value.name == cell.name
    assert SECRET not in text
    assert "\n" not in text
    return text


async def test_a_wrong_password(server: PostgresqlServer, open_cell: OpenCell) -> None:
    text = await refusal(open_cell(server.url_of(server.user, SECRET)))
    assert "password authentication failed" in text
    assert "check the user and the password" in text


async def test_a_wrong_database(server: PostgresqlServer, open_cell: OpenCell) -> None:
    text = await refusal(open_cell(server.url_of(server.user, server.password, "nowhere")))
    assert 'database "nowhere" does not exist' in text
    assert "check the user and the database" in text


async def test_no_server_there(open_cell: OpenCell) -> None:
    text = await refusal(open_cell(f"postgresql://user:{SECRET}@{HOST}:{free_port()}/db"))
    assert "onnection refused" in text
    assert "is the server running there" in text


async def test_a_host_that_does_not_exist(open_cell: OpenCell) -> None:
    text = await refusal(open_cell("postgresql://no-such-host.invalid/db"))
    assert "can't look up the host" in text


@pytest.mark.parametrize("says", [b"-ERR unknown command\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_something_else_is_there(says: bytes, open_cell: OpenCell) -> None:
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(says)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        text = await refusal(open_cell(f"postgresql://{HOST}:{listener.getsockname()[1]}/db"))
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert "is this a PostgreSQL server at all?" in text


async def test_one_that_never_answers(open_cell: OpenCell) -> None:
    with socket.create_server((HOST, 0)) as listener:
        url = f"postgresql://{HOST}:{listener.getsockname()[1]}/db"
        text = await refusal(open_cell(url), silent=True)
    assert "no answer" in text


async def test_a_user_who_may_create_nothing(server: PostgresqlServer, open_cell: OpenCell) -> None:
    add_role(server, "app")
    text = await refusal(open_cell(server.url_of("app", SECRET)))
    assert "the schema 'fencelock' is not there, and this user may not create it" in text
    assert "fencelock schema postgresql" in text


async def test_a_user_who_may_only_read(server: PostgresqlServer, open_cell: OpenCell) -> None:
    await take(open_cell(server.url))  # there is a schema
    add_role(server, "reader")
    server.execute("GRANT USAGE ON SCHEMA fencelock TO reader")
    server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA fencelock TO reader")
    text = await refusal(open_cell(server.url_of("reader", SECRET)))
    assert "permission denied" in text
    assert "fencelock schema postgresql" in text


async def test_a_user_whose_transactions_are_read_only(
    server: PostgresqlServer, open_cell: OpenCell
) -> None:
    await take(open_cell(server.url))
    add_role(server, "careful")
    server.execute("ALTER ROLE careful SUPERUSER")
    server.execute("ALTER ROLE careful SET default_transaction_read_only = on")
    url = server.url_of("careful", SECRET)
    assert "default_transaction_read_only" in await refusal(open_cell(url))


def add_role(server: PostgresqlServer, name: str) -> None:
    server.execute(
        f"DO $$ BEGIN CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )


async def take(cell: Cell) -> None:
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)


async def test_no_more_connections(
    postgresql_server: PostgresqlFactory, open_cell: OpenCell
) -> None:
    server = postgresql_server(max_connections=6, superuser_reserved_connections=0)
    add_role(server, "app")
    server.execute("GRANT CREATE ON DATABASE postgres TO app")
    cell, other = (open_cell(server.url_of("app", SECRET)) for _ in range(2))
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    hogs = [server.connect() for _ in range(5)]
    try:
        text = await refusal(other)
        assert "too many clients" in text
        assert "max_connections" in text
        await cell.run(lease.renew)  # who has a connection goes on
    finally:
        for hog in hogs:
            hog.close()
    await cell.run(lease.release)


async def test_logs_have_no_secrets(
    own_server: PostgresqlServer, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=0.5).acquire)
    server.stop()
    await cell.run(lambda: lease.lost.wait(PATIENCE))
    assert "could not renew" in caplog.text
    assert server.password not in caplog.text
    assert lease.id not in caplog.text


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        ("localhost/a/b", "name one database"),
        ("localhost/db?shema=x", "unknown option 'shema'"),
        ("localhost/db?schema=A-B", "option schema"),
        ("localhost/db?connections=0", "option connections"),
        ("localhost/db?host=/run", "name host and port once"),
        ("/db?port=x", "option port"),
    ],
)
def test_urls_that_make_no_sense(rest: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        fencelock.Client(f"postgresql://user:{SECRET}@{rest}")
    assert SECRET not in str(caught.value)


def test_what_a_url_says() -> None:
    url = "postgresql://me:pass%40word@a:1,b/app?schema=locks&sslmode=verify-full&connections=3"
    target = target_of(Url.parse(url))
    assert [str(host) for host in target.hosts] == ["a:1", "b:5432"]
    assert (target.schema, target.connections) == ("locks", 3)
    conninfo = target.conninfo(target.hosts[0], None, direct=True)
    for part in ("user=me", "password=pass@word", "dbname=app", "sslmode=verify-full"):
        assert part in conninfo
    assert "pass" not in target.where.replace("***", "")


def test_a_unix_socket(server: PostgresqlServer) -> None:
    folder, port = server.folder, server.port
    credentials = f"{server.user}:{server.password}"
    url = f"postgresql://{credentials}@/postgres?host={folder}&port={port}"
    with fencelock.Client(url) as client, client.lock("a") as lease:
        assert lease.fence > 0


def test_tls(postgresql_server: PostgresqlFactory, tmp_path: Path) -> None:
    server = postgresql_server()
    switch_tls_on(server)
    certificate = server.data / "server.crt"
    authority = tmp_path / "authority.pem"
    authority.write_bytes(certificate.read_bytes())
    brought = sqlalchemy.create_engine(
        server.url.replace("postgresql:", "postgresql+psycopg:"),
        connect_args={"sslmode": "verify-ca", "sslrootcert": str(authority)},
    )
    for client in (
        fencelock.Client(f"{server.url}?sslmode=verify-ca&sslrootcert={authority}"),
        fencelock.Client.from_sqlalchemy(brought),
    ):
        with client, client.lock("a"):
            ((tls,),) = server.execute(
                "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                "WHERE application_name = 'fencelock'"
            )
        assert tls is True
    with (
        fencelock.Client(f"{server.url}?sslmode=verify-ca&sslrootcert=system") as client,
        pytest.raises(fencelock.EngineError, match="sslrootcert"),
    ):
        client.lock("a").acquire()


def switch_tls_on(server: PostgresqlServer) -> None:
    key = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    files = ("-keyout", str(server.data / "server.key"), "-out", str(server.data / "server.crt"))
    server.run("/usr/bin/openssl", *key, *files)
    server.stop()
    server.settings["ssl"] = "on"
    server.start()
