"""Which servers a URL names, and the same URL with other addresses: those of our proxies."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.url import Url
from fencelock.servers.process import HOST

_PORTS = {
    "redis": 6379,
    "redlock": 6379,
    "etcd": 2379,
    "zookeeper": 2181,
    "postgresql": 5432,
    "mysql": 3306,
    "http": 80,
}


def servers_of(url: str) -> list[tuple[str, int]]:
    """The servers behind which a proxy can stand; none where the engine would not use it.

    With Sentinel and Cluster, the servers tell clients their own addresses. With TLS, a certificate is for
    the name of its server, and not for the address of our proxy.
    """
    parsed = Url.parse(url)
    if parsed.scheme not in _PORTS:
        return []
    hosts = parsed.hosts or (("localhost", None),)
    return [(host, port or _PORTS[parsed.scheme]) for host, port in hosts]


def why_no_proxy(url: str) -> str:
    """Why no proxy can stand before the servers of a URL; empty if it can."""
    scheme = Url.parse(url).scheme
    if servers_of(url):
        return ""
    if scheme in ("sqlite", "memory"):
        return "there is no network"
    if "+" in scheme:
        return "its servers tell their clients their own addresses, past our proxy"
    return "with TLS, the certificate is not for our proxy"


def proxied(url: str, ports: Sequence[int]) -> str:
    """The same URL with the addresses of proxies on this machine."""
    scheme, _, rest = url.partition("://")
    ends = [at for mark in "/?#" if (at := rest.find(mark)) >= 0]
    netloc = rest[: min(ends, default=len(rest))]
    credentials = netloc[: netloc.rfind("@") + 1]
    hosts = ",".join(f"{HOST}:{port}" for port in ports)
    return f"{scheme}://{credentials}{hosts}{rest[len(netloc) :]}"


def is_local(url: str) -> bool:
    """Whether all servers of a URL are on this machine."""
    parsed = Url.parse(url)
    hosts = [] if parsed.scheme == "memory" else [host for host, _ in parsed.hosts]
    return all(host == "localhost" or host.startswith("127.") or host == "::1" for host in hosts)
