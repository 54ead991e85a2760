"""Errors say what is wrong and what to do about it, without secrets."""

import socket
import subprocess
import threading
from pathlib import Path

import pytest
import sqlalchemy

import fencelock
from fencelock.core.url import Url
from fencelock.engines.mysql.urls import target_of
from tests.conformance.cells import Cell, OpenCell
from tests.servers import HOST, free_port
from tests.servers_mysql import DATABASE, MysqlFactory, MysqlServer
from tests.waiting import PATIENCE

SECRET = "open-sesame"


async def refusal(cell: Cell) -> str:
    """The error of a client that wants a lock there."""
    client = cell.client()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=5))
    assert caught.value.outcome == "not applied"
    assert caught.value.name == cell.name
    text = str(caught.value)
    assert SECRET not in text
    assert "\n" not in text
    return text


def add_user(server: MysqlServer, name: str, *rights: str) -> None:
    server.execute(f"CREATE OR REPLACE USER {name} IDENTIFIED BY '{SECRET}'")
    for right in rights:
        server.execute(f"GRANT {right} ON {DATABASE}.* TO {name}")


async def test_a_wrong_password(server: MysqlServer, open_cell: OpenCell) -> None:
    text = await refusal(open_cell(server.url_of(server.user, SECRET)))
    assert "Access denied for user" in text
    assert "check the user and the password" in text


async def test_a_wrong_database(server: MysqlServer, open_cell: OpenCell) -> None:
    text = await refusal(open_cell(server.url_of("admin", server.password, "nowhere")))
    assert "Unknown database 'nowhere'" in text
    assert "check the database in the URL" in text


async def test_a_database_of_another_user(server: MysqlServer, open_cell: OpenCell) -> None:
    text = await refusal(open_cell(server.url_of(server.user, server.password, "mysql")))
    assert "check the user and the database" in text


async def test_no_server_there(open_cell: OpenCell) -> None:
    text = await refusal(open_cell(f"mysql://user:{SECRET}@{HOST}:{free_port()}/db"))
    assert "is the server running there" in text


async def test_a_host_that_does_not_exist(open_cell: OpenCell) -> None:
    text = await refusal(open_cell("mysql://no-such-host.invalid/db"))
    assert "is this its address" in text


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
                    connection.sendall(says)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        text = await refusal(open_cell(f"mysql://{HOST}:{listener.getsockname()[1]}/db"))
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert "is this a MySQL or MariaDB server at all?" in text


async def test_one_that_never_answers(open_cell: OpenCell) -> None:
    with socket.create_server((HOST, 0)) as listener:
        text = await refusal(open_cell(f"mysql://{HOST}:{listener.getsockname()[1]}/db"))
    assert "no answer" in text or "timed out" in text
    assert "is the server running there" in text


async def test_a_user_who_may_create_nothing(bare_server: MysqlServer, open_cell: OpenCell) -> None:
    add_user(bare_server, "app", "SELECT, INSERT, UPDATE, DELETE, EXECUTE")
    text = await refusal(open_cell(bare_server.url_of("app", SECRET)))
    assert "are not there, and this user may not create them" in text
    assert "fencelock schema mysql" in text


async def test_a_user_who_may_only_read(server: MysqlServer, open_cell: OpenCell) -> None:
    add_user(server, "reader", "SELECT, EXECUTE")
    text = await refusal(open_cell(server.url_of("reader", SECRET)))
    assert "command denied" in text
    assert "fencelock schema mysql" in text


async def test_a_server_that_may_only_be_read(
    mysql_server: MysqlFactory, open_cell: OpenCell
) -> None:
    server = mysql_server()
    cell = open_cell(server.url)
    await take(cell)
    server.execute("SET GLOBAL read_only = 1")
    text = await refusal(open_cell(server.url))
    assert "name the server that is written to" in text


async def take(cell: Cell) -> None:
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)


async def test_no_more_connections(mysql_server: MysqlFactory, open_cell: OpenCell) -> None:
    server = mysql_server(max_connections=10)
    cell, other = open_cell(server.url), open_cell(server.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    hogs = [server.connect() for _ in range(9)]
    hogs.append(server.connect())  # one more than there may be, for an administrator
    try:
        text = await refusal(other)
        assert "Too many connections" in text
        assert "max_connections" in text
        await cell.run(lease.renew)  # who has a connection goes on
    finally:
        for hog in hogs:
            hog.close()
    await cell.run(lease.release)


async def test_a_clock_that_stands_still(mysql_server: MysqlFactory, open_cell: OpenCell) -> None:
    server = mysql_server(sysdate_is_now=1)
    assert "start it without --sysdate-is-now" in await refusal(open_cell(server.url))


async def test_logs_have_no_secrets(
    own_server: MysqlServer, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=0.5).acquire)
    server.stop()
    await cell.run(lambda: lease.lost.wait(PATIENCE))
    assert "could not renew" in caplog.text
    assert "innodb_flush_log_at_trx_commit is 2" in caplog.text
    assert server.password not in caplog.text
    assert lease.id not in caplog.text


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        ("localhost/a/b", "name one database"),
        ("a,b/db", "name one server"),
        ("localhost/db?prefx=x", "unknown option 'prefx'"),
        ("localhost/db?prefix=A-B", "option prefix"),
        ("localhost/db?connections=0", "option connections"),
        ("localhost/db?socket=/run/x", "a host or a socket"),
        ("localhost/db?sslmode=maybe", "option sslmode"),
        ("localhost/db?sslmode=disable&sslrootcert=x", "of no use"),
        ("localhost/db?sslrootcert=/nowhere", "certificate files"),
    ],
)
def test_urls_that_make_no_sense(rest: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        fencelock.Client(f"mysql://user:{SECRET}@{rest}")
    assert SECRET not in str(caught.value)


def test_what_a_url_says() -> None:
    target = target_of(Url.parse("mysql://me:pass%40word@a:1/app?prefix=locks&connections=3"))
    assert (target.prefix, target.connections) == ("locks", 3)
    wanted = {"host": "a", "port": 1, "user": "me", "password": "pass@word", "database": "app"}
    assert wanted.items() <= target.settings.items()
    assert "pass" not in target.where.replace("***", "")


async def test_a_unix_socket(server: MysqlServer, open_cell: OpenCell) -> None:
    credentials = f"{server.user}:{server.password}"
    url = f"mysql://{credentials}@/{DATABASE}?socket={server.settings['socket']}"
    await take(open_cell(url))


async def test_tls(mysql_server: MysqlFactory, open_cell: OpenCell, tmp_path: Path) -> None:
    key, certificate = make_certificate(tmp_path)
    server = mysql_server(ssl_cert=certificate, ssl_key=key)
    server.execute(f"ALTER USER {server.user} REQUIRE SSL")
    await take(open_cell(f"{server.url}?sslmode=verify-ca&sslrootcert={certificate}"))
    await take(open_cell(f"{server.url}?sslmode=require"))
    ssl = {"ca": str(certificate), "check_hostname": False}
    url = server.url.replace("mysql:", "mysql+pymysql:")
    brought = sqlalchemy.create_engine(url, connect_args={"ssl": ssl})
    with fencelock.Client.from_sqlalchemy(brought) as client:
        assert client.ping() > 0
    text = await refusal(open_cell(f"{server.url}?sslmode=verify-ca"))
    assert "?sslrootcert=FILE" in text
    await refusal(open_cell(server.url))  # "Access denied" is all that the server says


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    )
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True, timeout=60)
    return key, certificate
