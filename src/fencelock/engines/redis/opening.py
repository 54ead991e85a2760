"""From a URL to an engine."""

from __future__ import annotations

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


def open_redis(url: Url, io: IO) -> RedisEngine:
    """`redis://`, `rediss://`, and both with `+sentinel` or `+cluster`; see docs/engines/redis.md."""
    secure, _, kind = url.scheme.partition("+")
    own = ("sentinel_password",) if kind == "sentinel" else ()
    url.only(*own, *(TLS_OPTIONS if secure == "rediss" else ()))
    tls = tls_of(url) if secure == "rediss" else None
    make: MakeNode = BlockingNode if io.blocking else MultiplexedNode
    hosts = [(host, port or (26379 if kind == "sentinel" else 6379)) for host, port in url.hosts]
    hosts = hosts or [("localhost", 6379)]
    group, database = "", url.path.strip("/")
    if kind == "sentinel":
        group, _, database = database.partition("/")
        if not group:
            raise ValueError(
                f"{url}: name the group to ask for, redis+sentinel://host:26379/mymaster"
            )
    login = Login(url.user, url.password, _number(url, database), tls, SCRIPTS, (MEMORY,))
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


def _number(url: Url, database: str) -> int:
    """The number of the database, 0 if none is given."""
    if not database:
        return 0
    if not (database.isascii() and database.isdigit()):
        raise ValueError(f"{url}: the database must be a number, as in redis://localhost/0")
    return int(database)
