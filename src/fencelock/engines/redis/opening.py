"""From a URL to an engine."""

from __future__ import annotations

from ssl import SSLContext

from fencelock.core.url import Url
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.scripts import SCRIPTS
from fencelock.engines.redis.topology import Cluster, Sentinel, Single
from fencelock.engines.resp.blocking import BlockingNode
from fencelock.engines.resp.facts import MEMORY
from fencelock.engines.resp.link import MakeNode
from fencelock.engines.resp.multiplexed import MultiplexedNode
from fencelock.engines.resp.wire import Login
from fencelock.engines.tls import TLS_OPTIONS, tls_of
from fencelock.io.contract import IO

_OWN_OPTIONS = {"sentinel": ("sentinel_password",), "unix": ("db",)}


def open_redis(url: Url, io: IO) -> RedisEngine:
    """`redis://`, `rediss://`, both with `+sentinel` or `+cluster`, and `redis+unix://`; see
    docs/engines/redis.md."""
    secure, _, kind = url.scheme.partition("+")
    url.only(*_OWN_OPTIONS.get(kind, ()), *(TLS_OPTIONS if secure == "rediss" else ()))
    tls = url.tls or (tls_of(url) if secure == "rediss" else None)
    make: MakeNode = BlockingNode if io.blocking else MultiplexedNode
    hosts = [(host, port or (26379 if kind == "sentinel" else 6379)) for host, port in url.hosts]
    hosts = hosts or [("localhost", 6379)]
    if kind == "unix":
        if url.hosts or not url.path.strip("/"):
            raise ValueError(f"{url}: name the path of the socket, redis+unix:///run/redis.sock")
        login = _login(url, url.options.get("db", ""), None)
        return RedisEngine(Single(make(url.path, 0, login)), str(url), io)
    group, database = "", url.path.strip("/")
    if kind == "sentinel":
        group, _, database = database.partition("/")
        if not group:
            raise ValueError(
                f"{url}: name the group to ask for, redis+sentinel://host:26379/mymaster"
            )
    login = _login(url, database, tls)
    if kind == "sentinel":
        sentinel_login = Login(password=url.options.get("sentinel_password"), tls=tls)
        sentinels = [make(host, port, sentinel_login) for host, port in hosts]
        return RedisEngine(Sentinel(make, sentinels, group, login, io), str(url), io)
    if kind == "cluster":
        if login.database:
            raise ValueError(f"{url}: a cluster has only database 0: leave the number out")
        return RedisEngine(Cluster(make, hosts, login, io), str(url), io)
    if len(hosts) > 1:
        raise ValueError(
            f"{url}: one host only; for several use redis+sentinel:// or redis+cluster://"
        )
    return RedisEngine(Single(make(*hosts[0], login)), str(url), io)


def _login(url: Url, database: str, tls: SSLContext | None) -> Login:
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"{url}: the database must be a number, as in redis://localhost/0")
    number = int(database or 0)
    return Login(url.user, url.password, number, tls, url.credentials, SCRIPTS, (MEMORY,))
