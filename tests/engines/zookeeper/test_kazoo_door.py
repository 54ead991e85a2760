"""What we use of kazoo's inside: if kazoo changes it, a test here says so before anything else breaks."""

import ast
import inspect
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kazoo
import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Exists, GetData

import fencelock.engines.zookeeper
from fencelock.engines.zookeeper import kazoo_door, requests
from fencelock.engines.zookeeper.kazoo_door import Connection
from fencelock.engines.zookeeper.urls import Settings

FOLDER = Path(fencelock.engines.zookeeper.__file__).parent

OVERRIDDEN = {
    ConnectionHandler: {
        "_connect": ["host", "hostip", "port"],
        "_connect_attempt": ["host", "hostip", "port", "retry"],
        "_connect_loop": ["retry"],
        "_expand_client_hosts": [],
        "_read": ["length", "timeout"],
        "_read_header": ["timeout"],
        "_read_socket": ["read_timeout"],
        "_read_watch_event": ["buffer", "offset"],
        "_send_request": ["read_timeout", "connect_timeout"],
        "_write": ["msg", "timeout"],
        "zk_loop": [],
    },
    KazooClient: {"_notify_pending": ["state"]},
}
"""The methods that kazoo calls and we replace, with their parameters."""

CONNECTION = {"_connection_routine", "_read_sock", "_socket", "_write_sock", "_xid"}
"""The attributes of kazoo's connection that we use."""

CLIENT = {
    "_conn_retry",
    "_connection",
    "_pending",
    "_session_callback",
    "_session_id",
    "_stopped",
}
"""The attributes of kazoo's client that we use."""


def changed(what: str) -> str:
    return (
        f"kazoo {kazoo.__version__} has changed {what}: "
        "src/fencelock/engines/zookeeper/kazoo_door.py relies on it"
    )


@pytest.fixture
def connection() -> Any:
    settings = Settings([("localhost", 1)], "/fencelock", 4.0, None, None)
    return Connection(settings, lambda: None, lambda _kind, _path: None)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in OVERRIDDEN.items() for name in names]
)
def test_kazoo_has_the_methods_that_we_replace(kind: Any, name: str) -> None:
    what = f"{kind.__name__}.{name}"
    assert hasattr(kind, name), changed(what)
    parameters = list(inspect.signature(getattr(kind, name)).parameters)[1:]
    assert parameters == OVERRIDDEN[kind][name], changed(what)


def test_kazoo_calls_the_methods_that_we_replace() -> None:
    for kind, names in OVERRIDDEN.items():
        source = inspect.getsource(kind)
        for name in names:
            assert re.search(rf"self\.{name}\b", source), changed(
                f"when {kind.__name__}.{name} is called"
            )


def test_kazoo_has_the_attributes_that_we_use() -> None:
    client = KazooClient()
    for name in CLIENT:
        assert hasattr(client, name), changed(f"KazooClient.{name}")
    for name in CONNECTION:
        assert hasattr(client._connection, name), changed(f"ConnectionHandler.{name}")
    assert isinstance(client._pending, deque), changed("KazooClient._pending")
    assert hasattr(client._stopped, "is_set"), changed("KazooClient._stopped")


def test_the_lists_above_are_complete() -> None:
    tree = ast.parse(Path(kazoo_door.__file__).read_text())
    theirs = private(vars(KazooClient())) | private(vars(KazooClient()._connection))
    theirs |= private(dir(KazooClient)) | private(dir(ConnectionHandler)) | {"zk_loop"}
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert functions & theirs == {name for names in OVERRIDDEN.values() for name in names}
    assert (attributes(tree) - functions) & theirs == CONNECTION | CLIENT


def test_no_other_module_uses_private_names_of_kazoo() -> None:
    for path in FOLDER.glob("*.py"):
        if path.name != "kazoo_door.py":
            used = attributes(ast.parse(path.read_text()), of_self=False)
            assert not used & (CONNECTION | CLIENT), (
                f"{path.name}: only kazoo_door.py may use these"
            )


def test_our_names_do_not_hide_those_of_kazoo(connection: Any) -> None:
    kazoos = set(vars(KazooClient()._connection))
    theirs = private({*kazoos, *dir(ConnectionHandler)})
    ours = private({*(vars(connection).keys() - kazoos), *vars(Connection)})
    assert ours & theirs == set(OVERRIDDEN[ConnectionHandler]) - {"zk_loop"}


def private(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def attributes(tree: ast.AST, *, of_self: bool = True) -> set[str]:
    """The names of all attributes that a module uses."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (of_self or not (isinstance(node.value, ast.Name) and node.value.id == "self"))
    }


def test_a_watch_is_what_kazoo_would_send() -> None:
    for kind, ours in (
        (Exists, requests.exists("/a/path", watch=True)),
        (GetData, requests.get("/a/path", watch=True)),
    ):
        theirs = kind("/a/path", lambda _: None).serialize()
        assert ours.serialize() == theirs, changed(f"{kind.__name__}.serialize")
