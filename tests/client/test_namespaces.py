"""Namespaces: which there are, what names become, and who sees what. Every engine: conformance/."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

import fencelock
from fencelock.guards import SqlGuard
from tests.service.company import serving


@pytest.mark.parametrize("namespace", ["", "a/b", "a b", "*", "ä", "x" * 65, "a\n"])
def test_what_is_no_namespace(namespace: str) -> None:
    with pytest.raises(ValueError, match="a namespace is 1 to 64 ASCII letters, digits"):
        fencelock.Client("memory://", namespace=namespace)


@pytest.mark.parametrize("url", ["memory://x?namespace=", "redis://h?namespace=a%2Fb"])
def test_what_is_no_namespace_in_a_url(url: str) -> None:
    with pytest.raises(ValueError, match="a namespace is 1 to 64 ASCII letters, digits"):
        fencelock.Client(url)


def test_a_namespace_is_no_other_type() -> None:
    with pytest.raises(TypeError, match="a namespace must be a str, not int"):
        fencelock.Client("memory://", namespace=3)  # type: ignore[arg-type]


def test_the_url_and_the_argument_must_agree() -> None:
    assert fencelock.Client("memory://x?namespace=shop", namespace="shop").namespace == "shop"
    assert fencelock.Client("memory://x").namespace is None
    with pytest.raises(ValueError, match="namespace is 'bank', but that in its URL is 'shop'"):
        fencelock.Client("memory://x?namespace=shop", namespace="bank")


def test_a_name_is_checked_before_and_after() -> None:
    client = fencelock.Client("memory://", namespace="shop")
    with pytest.raises(ValueError, match="must not be empty"):
        client.lock("")
    assert client.lock("x" * 507).name == "shop/" + "x" * 507
    with pytest.raises(ValueError, match="at most 512 bytes of UTF-8, but this one has 513"):
        client.lock("x" * 508)
    with pytest.raises(ValueError, match="each name once"):
        client.lock_all(["x", "x"])


def test_a_client_without_a_namespace_sees_all() -> None:
    url = f"memory://{uuid4().hex}"
    root, shop = fencelock.Client(url), fencelock.Client(f"{url}?namespace=shop")
    with shop.lock("order:42") as lease:
        assert (root.names(), shop.names()) == (["shop/order:42"], ["order:42"])
        assert root.inspect("shop/order:42").holders[0].fence == lease.fence
        assert root.inspect("order:42").holders == ()
        with pytest.raises(fencelock.LockTimeout, match="'shop/order:42' is not free"):
            fencelock.Client(url, namespace="shop").lock("order:42").acquire(timeout=0)


def test_patterns_of_routes_are_for_the_names_in_the_namespace() -> None:
    orders, rest = f"memory://{uuid4().hex}", f"memory://{uuid4().hex}"
    routes = {"order:*": orders, "*": rest}
    shop = fencelock.Client(routes, namespace="shop")
    with shop.lock("order:42"), shop.lock("report"):
        assert fencelock.Client(orders).names() == ["shop/order:42"]
        assert fencelock.Client(rest).names() == ["shop/report"]
        assert shop.names() == ["order:42", "report"]
    with pytest.raises(ValueError, match="a route can't have a namespace of its own"):
        fencelock.Client({"*": f"{rest}?namespace=shop"})


def test_a_guard_keeps_namespaces_apart() -> None:
    shop, bank = (
        fencelock.Client(f"memory://{uuid4().hex}", namespace=each) for each in ("shop", "bank")
    )
    guard = SqlGuard()
    older = shop.lock("account:7").acquire()
    newer = bank.lock("account:7").acquire()
    assert older.fence < newer.fence
    with closing(sqlite3.connect(":memory:")) as accounts:
        guard.create(accounts)
        for lease in (newer, older):
            with accounts:
                guard.check(accounts, lease)
            assert guard.newest(accounts, lease.name) == lease.fence


def test_the_rights_of_a_service_are_for_full_names(tmp_path: Path) -> None:
    from fencelock.service.tokens import new_token

    file = tmp_path / "tokens.toml"
    token = new_token(file, "shop", {"lock": ["shop/*"], "read": ["shop/*"]}, 3600.0)
    with serving(tmp_path, "--tokens", str(file)) as replica:
        url = str(replica.url).replace("http://", f"http://{token}@")
        with fencelock.Client(f"{url}?namespace=shop") as shop, shop.lock("x"):
            assert shop.names() == ["x"]
        bank = fencelock.Client(url, namespace="bank")
        with bank, pytest.raises(fencelock.EngineError, match="the right 'lock' for 'bank/x'"):
            bank.lock("x").acquire()
