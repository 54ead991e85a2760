"""URLs whose servers a proxy can stand before."""

import pytest

from fencelock.torture.real.addresses import is_local, proxied, servers_of, why_no_proxy


@pytest.mark.parametrize(
    ("url", "through"),
    [
        ("redis://h", "redis://127.0.0.1:1"),
        ("redis://u:p%40ss@h:7/2?x=1", "redis://u:p%40ss@127.0.0.1:1/2?x=1"),
        ("redlock://a,b:2,[::1]:3", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"),
        ("postgresql://me@db/app?sslmode=prefer", "postgresql://me@127.0.0.1:1/app?sslmode=prefer"),
        ("http://token@h:8080", "http://token@127.0.0.1:1"),
        ("zookeeper://a:1,b:2/place", "zookeeper://127.0.0.1:1,127.0.0.1:2/place"),
    ],
)
def test_the_url_of_proxies(url: str, through: str) -> None:
    count = len(servers_of(url))
    assert proxied(url, list(range(1, count + 1))) == through
    assert not why_no_proxy(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///x.db", "no network"),
        ("redis+sentinel://a,b,c/main", "their own addresses"),
        ("redis+cluster://a", "their own addresses"),
        ("rediss://h", "certificate"),
        ("etcds://h", "certificate"),
    ],
)
def test_where_no_proxy_can_stand(url: str, why: str) -> None:
    assert servers_of(url) == []
    assert why in why_no_proxy(url)


def test_which_servers_are_on_this_machine() -> None:
    assert all(
        map(
            is_local,
            ("redis://localhost", "etcd://127.0.0.1,127.9.9.9", "sqlite:///x", "redis://[::1]:1"),
        )
    )
    assert not any(
        map(is_local, ("redis://10.0.0.1", "etcd://127.0.0.1,db", "redis://localhost.evil"))
    )
