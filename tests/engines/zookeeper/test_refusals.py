"""No server, another kind of server, no permission: the errors are clear and contain no secrets."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell
from tests.servers import HOST, _make_certificate, free_port
from tests.servers_zookeeper import Ensemble, ZooKeeperServer
from tests.waiting import eventually

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("secure"), size=1, tls=True) as ensemble:
        eventually(lambda: _shakes_hands(ensemble.nodes[0]), "the first handshake")
        yield ensemble


def _shakes_hands(node: ZooKeeperServer) -> bool:
    """On a busy machine, a server's first handshake takes longer than clients are willing to wait."""
    context = ssl.create_default_context(cafile=node.certificate)
    with suppress(OSError), socket.create_connection((HOST, node.secure_port), 20) as link:
        context.wrap_socket(link, server_hostname=HOST).close()
        return True
    return False


async def refused(cell: Cell, kind: type[Exception] = fencelock.EngineError) -> Any:
    client = cell.client()
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert time.monotonic() - begun < 60
    assert SECRET not in str(caught.value)
    return caught.value


async def test_no_server(open_cell: OpenCell) -> None:
    error = await refused(open_cell(f"zookeeper://kim:{SECRET}@{HOST}:{free_port()}"))
    assert "Connection refused: are the servers running there" in str(error)
    assert error.outcome == "not applied"


async def test_an_error_of_a_listing_is_about_no_name(open_cell: OpenCell) -> None:
    cell = open_cell(f"zookeeper://{HOST}:{free_port()}")
    client = cell.client()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.names("order:*"))
    assert caught.value.name is None


async def test_no_such_host(open_cell: OpenCell) -> None:
    error = await refused(open_cell("zookeeper://no-such-host.invalid"))
    assert "no host resolved" in str(error)
    assert error.outcome == "not applied"


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", None])
async def test_another_kind_of_server(open_cell: OpenCell, says: bytes | None) -> None:
    """A server that hangs up, a web server, and a server that says nothing."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            held = []
            with suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    held.append(link)
                    if says is not None:
                        link.recv(100)
                        link.sendall(says)
                        link.close()
            for link in held:
                link.close()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        error = await refused(open_cell(f"zookeeper://{HOST}:{listener.getsockname()[1]}"))
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
    assert error.outcome == "not applied"
    assert "connect" in str(error)
    assert "?" in str(error), "advice"


async def test_no_majority(private: Ensemble, open_cell: OpenCell) -> None:
    private.leader().kill()
    next(node for node in private.nodes if node.runs).kill()
    error = await refused(open_cell(private.url))
    assert error.outcome == "not applied"
    assert "majority" in str(error)


async def test_nodes_belong_to_the_user_of_the_url(
    zookeeper: Ensemble, open_cell: OpenCell
) -> None:
    root = f"/owned-{free_port()}-{time.monotonic_ns()}"
    cell = open_cell(f"zookeeper://kim:{SECRET}@{zookeeper.addresses}{root}")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    for stranger in (f"zookeeper://kim:wrong-{SECRET}@", "zookeeper://"):
        other = open_cell(f"{stranger}{zookeeper.addresses}{root}")
        error = await refused(other)
        assert "check the user and the password" in str(error)
        assert error.outcome == "not applied"
    lease.check()
    await cell.run(lease.release)


async def test_the_password_is_in_no_log(
    zookeeper: Ensemble, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    for name in list(logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(1)
    cell = open_cell(f"zookeeper://kim:{SECRET}@{zookeeper.addresses}/logged")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert lease.id not in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(client._context.engine.traits) + repr(lease)
    await cell.run(lease.release)


async def test_tls(secure: Ensemble, open_cell: OpenCell) -> None:
    node = secure.nodes[0]
    cell = open_cell(f"zookeepers://localhost:{node.secure_port}?ca={node.certificate}")
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await cell.run(lease.renew)
    await cell.run(lease.release)
    assert (await waiter).fence > lease.fence


async def test_tls_with_a_certificate_of_our_own(secure: Ensemble, open_cell: OpenCell) -> None:
    node = secure.nodes[0]
    pem = node.certificate
    cell = open_cell(f"zookeepers://localhost:{node.secure_port}?ca={pem}&cert={pem}&key={pem}")
    client = cell.client()
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())


async def test_an_authority_that_is_not_trusted(
    secure: Ensemble, open_cell: OpenCell, tmp_path: Path
) -> None:
    _make_certificate(tmp_path / "other.pem")
    port = secure.nodes[0].secure_port
    for options in ("", f"?ca={tmp_path}/other.pem"):
        error = await refused(open_cell(f"zookeepers://localhost:{port}{options}"))
        assert "?ca=FILE" in str(error)
        assert error.outcome == "not applied"
    cell = open_cell(f"zookeepers://localhost:{port}?verify=no")
    client = cell.client()
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())


async def test_tls_where_there_is_none_and_the_reverse(
    secure: Ensemble, open_cell: OpenCell
) -> None:
    node = secure.nodes[0]
    error = await refused(open_cell(f"zookeeper://{HOST}:{node.secure_port}"))
    assert "zookeepers://" in str(error)
    error = await refused(open_cell(f"zookeepers://{HOST}:{node.port}?ca={node.certificate}"))
    assert "zookeeper://" in str(error)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("zookeeper://localhost?sesion=5", "unknown option 'sesion'"),
        ("zookeeper://localhost?session=soon", "must be more than 0 seconds"),
        ("zookeeper://localhost?ca=x", "unknown option 'ca'"),
        ("zookeepers://localhost?ca=/nowhere", "can't read the certificate files"),
        ("zookeepers://localhost?verify=perhaps", "must be yes or no"),
        ("zookeepers://localhost?key=x", "needs the option cert"),
        (f"zookeeper://:{SECRET}@localhost", "needs both"),
        ("zookeeper://kim@localhost", "needs both"),
        ("zookeeper://localhost/a/../b", "must not contain"),
    ],
)
def test_urls_that_can_not_be_right(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        fencelock.Client(url)
    assert SECRET not in str(caught.value)
