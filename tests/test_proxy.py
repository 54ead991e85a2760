"""The proxy breaks what a test tells it to break, and nothing else."""

import socket
from collections.abc import Callable, Iterator
from time import monotonic

import pytest
import redis

from tests.proxy import TcpProxy, resp_replies
from tests.servers import HOST, RedisFactory, RedisServer, connect
from tests.waiting import eventually

TcpProxyFactory = Callable[[int], TcpProxy]


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
def proxy(server: RedisServer, tcp_proxy: TcpProxyFactory) -> TcpProxy:
    return tcp_proxy(server.port)


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, proxy.port), timeout=5) as connection:
        yield connection


def ask(connection: socket.socket, request: str) -> bytes:
    connection.sendall(f"{request}\r\n".encode())
    return connection.recv(4096)


def test_forwards_and_counts(proxy: TcpProxy, client: socket.socket) -> None:
    assert ask(client, "PING") == b"+PONG\r\n"
    assert (proxy.connections, proxy.bytes_to_server, proxy.bytes_to_client) == (1, 6, 7)


def test_a_cut_request_was_applied(
    server: RedisServer, proxy: TcpProxy, client: socket.socket
) -> None:
    cut = proxy.cut_after_request()
    assert ask(client, "INCR n") == b""
    assert cut.is_set()
    assert server.execute("GET", "n") == "1"


def test_one_packet_is_damaged(proxy: TcpProxy, client: socket.socket) -> None:
    damaged = proxy.damage(b"marked")
    assert ask(client, "ECHO other") == b"$5\r\nother\r\n"
    assert not damaged.is_set()
    assert ask(client, "ECHO marked") == b"\xff\xff\xff\xff\xffarked\r\n"
    assert damaged.is_set()
    assert ask(client, "ECHO marked") == b"$6\r\nmarked\r\n"


def test_only_the_chosen_request_is_cut(proxy: TcpProxy, client: socket.socket) -> None:
    cut = proxy.cut_after_request(3)
    assert ask(client, "INCR n") == b":1\r\n"
    assert ask(client, "INCR n") == b":2\r\n"
    assert not cut.is_set()
    assert ask(client, "INCR n") == b""
    with socket.create_connection((HOST, proxy.port), timeout=5) as another:
        assert ask(another, "INCR n") == b":4\r\n"


def test_a_push_is_not_a_reply() -> None:
    count = resp_replies()
    assert count(b">3\r\n+message\r\n+channel\r\n+text\r\n") == 0
    assert count(b">1\r\n+invalidate\r\n+OK\r\n#f\r\n$3\r\nab") == 2
    assert count(b"c\r\n") == 1


def test_mute(server: RedisServer, proxy: TcpProxy, client: socket.socket) -> None:
    proxy.mute()
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        ask(client, "INCR n")
    eventually(lambda: server.execute("GET", "n") == "1", "the request to arrive")


def test_black_hole(server: RedisServer, proxy: TcpProxy, client: socket.socket) -> None:
    assert ask(client, "PING") == b"+PONG\r\n"
    proxy.black_hole()
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        ask(client, "INCR n")
    with socket.create_connection((HOST, proxy.port), timeout=0.1) as late:
        with pytest.raises(TimeoutError):
            ask(late, "INCR n")
        proxy.heal()
        assert late.recv(1) == b""
    assert client.recv(1) == b""
    assert server.execute("GET", "n") is None


def test_refuse_and_heal(proxy: TcpProxy, client: socket.socket) -> None:
    assert ask(client, "PING") == b"+PONG\r\n"
    proxy.refuse()
    assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port))
    proxy.heal()
    with socket.create_connection((HOST, proxy.port), timeout=5) as again:
        assert ask(again, "PING") == b"+PONG\r\n"


def test_delay(proxy: TcpProxy, client: socket.socket) -> None:
    proxy.delay(0.05)
    began = monotonic()
    assert ask(client, "PING") == b"+PONG\r\n"
    assert monotonic() - began >= 0.1  # there and back


def test_a_dead_server_is_a_closed_connection(server: RedisServer, proxy: TcpProxy) -> None:
    server.kill()
    with socket.create_connection((HOST, proxy.port), timeout=5) as connection:
        assert connection.recv(1) == b""


def test_a_real_client_sees_a_lost_connection(server: RedisServer, proxy: TcpProxy) -> None:
    with connect(f"redis://{HOST}:{proxy.port}") as client:
        client.ping()
        proxy.cut_after_request()
        with pytest.raises(redis.ConnectionError):
            client.incr("n")
    assert server.execute("GET", "n") == "1"
