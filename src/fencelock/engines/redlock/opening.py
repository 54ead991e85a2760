"""From a URL to an engine."""

from __future__ import annotations

import logging

from fencelock.core.url import Url
from fencelock.engines.redlock.blocking import BlockingNodes
from fencelock.engines.redlock.engine import RedlockEngine
from fencelock.engines.redlock.multiplexed import MultiplexedNodes
from fencelock.engines.redlock.nodes import QUESTIONS
from fencelock.engines.redlock.protocol import LEAST_NODES
from fencelock.engines.redlock.scripts import SCRIPTS
from fencelock.engines.resp.blocking import BlockingNode
from fencelock.engines.resp.link import MakeNode
from fencelock.engines.resp.multiplexed import MultiplexedNode
from fencelock.engines.resp.wire import Login
from fencelock.engines.tls import TLS_OPTIONS, tls_of
from fencelock.io.contract import IO

log = logging.getLogger("fencelock.engine")

_NODE_TIMEOUT = 0.25
"""Seconds that a node gets to answer, unless the URL says otherwise."""


def open_redlock(url: Url, io: IO) -> RedlockEngine:
    """`redlock://a:6379,b:6379,c:6379`; see docs/engines/redlock.md."""
    secure = url.scheme == "redlocks"
    url.only("node_timeout", *(TLS_OPTIONS if secure else ()))
    hosts = [(host, port or 6379) for host, port in url.hosts]
    if len(hosts) < LEAST_NODES:
        raise ValueError(
            f"{url}: name at least {LEAST_NODES} servers, redlock://a,b,c: with fewer nobody is left "
            "when one fails; for one server use redis://"
        )
    if len(set(hosts)) < len(hosts):
        raise ValueError(f"{url}: a server is named twice")
    if len(hosts) % 2 == 0:
        log.warning(
            "%s: an even number of servers tolerates no more failures than one server less", url
        )
    tls = url.tls or (tls_of(url) if secure else None)
    login = Login(url.user, url.password, 0, tls, url.credentials, SCRIPTS, QUESTIONS)
    node_timeout = url.seconds("node_timeout", _NODE_TIMEOUT)
    make: MakeNode = BlockingNode if io.blocking else MultiplexedNode
    kind = BlockingNodes if io.blocking else MultiplexedNodes
    nodes = kind([make(host, port, login) for host, port in hosts], io, node_timeout)
    return RedlockEngine(nodes, str(url), io)
