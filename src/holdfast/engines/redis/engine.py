"""The Redis engine: one Lua script per operation, wake-ups pushed over RESP3.

Efficiency locks: an asynchronous failover can forget an acknowledged lease. The fence, which only
grows, lets a storage reject the holder that does not know it yet.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

import hiredis

from holdfast.core.errors import EngineError
from holdfast.core.names import matches
from holdfast.core.ticket import Contender, Inspection, Owner, Place, Standing, Ticket
from holdfast.core.url import Url
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.redis.blocking import BlockingNode
from holdfast.engines.redis.link import Link, Node
from holdfast.engines.redis.multiplexed import MultiplexedNode
from holdfast.engines.redis.resp import (
    ENTER,
    EVICT,
    INSPECT,
    LEAVE,
    RENEW,
    Broken,
    Command,
    Login,
    Script,
)
from holdfast.engines.redis.topology import Cluster, MakeNode, Sentinel, Single, Topology, ask
from holdfast.io.contract import IO

# What Redis says when it did not carry out a command, and what to do about it.
_ADVICE = {
    "WRONGPASS": "check the user and the password in the URL",
    "NOAUTH": "the server wants a password: put it in the URL, redis://:password@host",
    "NOPERM": "let the ACL user run scripts, publish and subscribe on holdfast:* keys and channels",
    "READONLY": "this is a replica: use the master's address, or a redis+sentinel:// URL",
    "LOADING": "the server is still loading its data: try again in a moment",
    "MASTERDOWN": "the server lost its master: wait for the failover",
    "CLUSTERDOWN": "the cluster is not complete: look at its nodes",
    "TRYAGAIN": "the slot is moving between nodes: try again in a moment",
    "MOVED": "this is a node of a cluster: use a redis+cluster:// URL",
    "ASK": "the slot is moving between nodes: try again in a moment",
    "OOM": "the server's memory is full: raise maxmemory, keep maxmemory-policy noeviction",
    "MISCONF": "the server can't write to its disk: look at its log",
    "BUSY": "a script blocks the server: look at it with SCRIPT KILL",
    "NOREPLICAS": "too few replicas are in reach",
}
# After these the server is not what we took it for: look for the right one before the next request.
_WRONG_SERVER = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK")


_PLACES = tuple(Place)
_BATCH = 500


class RedisEngine(Engine):
    """Queues on Redis or Valkey."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs): grows across restarts without persistence; "
            "falls only if the record is lost and the clock is set back; "
            "a failover may hand out one fence twice, so guards compare (fence, id)"
        ),
        clock="the Redis server's wall clock",
    )

    def __init__(self, topology: Topology, where: str, io: IO) -> None:
        self._topology = topology
        self._where = where
        self._io = io
        self._parked: dict[str, tuple[Node, Link]] = {}

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        tag = _tag(ticket.name)
        try:
            node, link = await self._take(ticket, tag, timeout)
            waiting = False
            try:
                command = ENTER.call(
                    _keys(tag),
                    ticket.id,
                    _us(ticket.ttl),
                    link.channel,
                    ticket.owner.pack(),
                    int(if_free),
                )
                standing = _standing(await self._call(node, link, ENTER, command, timeout))
                waiting = standing.place is Place.WAITING
                return standing
            finally:
                if waiting:
                    self._parked[ticket.id] = node, link
                else:
                    node.give(link, ticket.id)
        except Broken as error:
            raise self._translated(error, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        groups: dict[Node, list[int]] = {}
        standings: list[Standing | None] = [None] * len(tickets)
        failure: Broken | None = None
        try:
            for index, ticket in enumerate(tickets):
                node = await self._topology.node(_tag(ticket.name), timeout)
                groups.setdefault(node, []).append(index)
        except Broken as error:
            raise self._translated(error, None) from error
        for node, indexes in groups.items():
            try:
                await self._renew_at(node, tickets, indexes, standings, timeout)
            except Broken as error:
                self._topology.mistrust(node)
                failure = error
        if failure is not None and not any(standings):
            raise self._translated(failure, None) from failure
        return standings

    async def leave(self, ticket: Ticket, *, timeout: float) -> bool:
        return bool(await self._ask(ticket.name, LEAVE, timeout, ticket.id))

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        node, link = self._parked[ticket.id]
        try:
            wake_up = await node.listen(link, ticket.id, until - self._io.now())
        except Broken as error:
            self.unpark(ticket)
            self._topology.mistrust(node)
            raise self._translated(error, ticket.name) from error
        return None if wake_up is None else _standing(wake_up.split())

    def unpark(self, ticket: Ticket) -> None:
        parked = self._parked.pop(ticket.id, None)
        if parked is not None:
            node, link = parked
            node.give(link, ticket.id)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        last, abandoned, held_us, standing, *tickets = await self._ask(
            name, INSPECT, timeout, limit
        )
        contenders = [
            Contender(Owner.unpack(owner.decode()), int(fence), int(joined) / 1e6, int(left) / 1e6)
            for fence, left, joined, owner in tickets
        ]
        holders = tuple(one._replace(since=int(held_us) / 1e6) for one in contenders[:1])
        return Inspection(
            name,
            holders,
            tuple(contenders[1:]),
            standing - len(holders),
            int(last),
            abandoned == b"1",
        )

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        found: list[str] = []
        try:
            for node in await self._topology.masters(timeout):
                names = [name for name in await self._scan(node, timeout) if matches(name, pattern)]
                for start in range(0, len(names), _BATCH):
                    found += await self._in_use(node, names[start : start + _BATCH], timeout)
        except Broken as error:
            raise self._translated(error, None) from error
        return sorted(found)

    async def evict(self, name: str, *, timeout: float) -> bool:
        return bool(await self._ask(name, EVICT, timeout))

    async def close(self) -> None:
        await self._topology.close()

    # --- one request

    async def _take(self, ticket: Ticket, tag: str, timeout: float) -> tuple[Node, Link]:
        """The link on which the ticket already waits, or a free one."""
        parked = self._parked.pop(ticket.id, None)
        if parked is not None:
            return parked
        node = await self._topology.node(tag, timeout)
        try:
            return node, await node.take(timeout, ticket.id)
        except Broken:
            self._topology.mistrust(node)
            raise

    async def _ask(self, name: str, script: Script, timeout: float, *args: str | int) -> Any:
        """Call a script for a name that waits for nothing."""
        tag = _tag(name)
        try:
            node = await self._topology.node(tag, timeout)
            try:
                link = await node.take(timeout)
            except Broken:
                self._topology.mistrust(node)
                raise
            try:
                command = script.call(_keys(tag), *args)
                return await self._call(node, link, script, command, timeout)
            finally:
                node.give(link)
        except Broken as error:
            raise self._translated(error, name) from error

    async def _call(
        self, node: Node, link: Link, script: Script, command: Command, timeout: float
    ) -> Any:
        try:
            reply = await link.call(script, command, timeout)
        except Broken:
            self._topology.mistrust(node)
            raise
        if isinstance(reply, hiredis.ReplyError):
            raise self._rejected(node, link, reply)
        return reply

    def _rejected(self, node: Node, link: Link, reply: hiredis.ReplyError) -> Broken:
        word = str(reply).partition(" ")[0]
        if word in _WRONG_SERVER:
            link.close()
            self._topology.mistrust(node)
        return Broken(str(reply), "not applied" if word in _ADVICE else "unknown")

    async def _renew_at(
        self,
        node: Node,
        tickets: Sequence[Ticket],
        indexes: list[int],
        standings: list[Standing | None],
        timeout: float,
    ) -> None:
        """Renew the tickets of one server in one write, and note down how each stands."""
        commands = [
            RENEW.call(_keys(_tag(tickets[i].name)), tickets[i].id, _us(tickets[i].ttl))
            for i in indexes
        ]
        for index, reply in zip(
            indexes, await self._batch(node, RENEW, commands, timeout), strict=True
        ):
            standings[index] = _standing(reply)

    async def _batch(
        self, node: Node, script: Script, commands: list[Command], timeout: float
    ) -> list[Any]:
        link = await node.take(timeout)
        try:
            replies = await link.exchange(commands, timeout)
            if any(_forgotten(reply) for reply in replies):
                again = [
                    script.spell_out(commands[0]),
                    *commands[1:],
                ]  # the first one brings the text
                replies = await link.exchange(again, timeout)
            for reply in replies:
                if isinstance(reply, hiredis.ReplyError):
                    raise self._rejected(node, link, reply)
            return replies
        finally:
            node.give(link)

    async def _scan(self, node: Node, timeout: float) -> list[str]:
        names: set[str] = set()
        cursor = b"0"
        while True:
            command = ("SCAN", cursor, "MATCH", "holdfast:{*}:q", "COUNT", _BATCH)
            answer = await ask(node, command, timeout)
            assert isinstance(answer, list)
            cursor, keys = answer
            names.update(_name(key.decode()) for key in keys)
            if cursor == b"0":
                return sorted(names)

    async def _in_use(self, node: Node, names: list[str], timeout: float) -> list[str]:
        """Those whose queue is not just left over from processes that died."""
        commands = [INSPECT.call(_keys(_tag(name)), 0) for name in names]
        answers = await self._batch(node, INSPECT, commands, timeout)
        return [name for name, answer in zip(names, answers, strict=True) if answer[3] > 0]

    def _translated(self, error: Broken, name: str | None) -> EngineError:
        """The one place where Redis's failures become ours."""
        advice = _ADVICE.get(str(error).partition(" ")[0])
        if advice is None and error.outcome == "not applied":
            advice = "is the server running there, and is this its address?"
        elif advice is None:
            advice = "whether the request was carried out is not known"
        return EngineError(f"{self._where}: {error}: {advice}", outcome=error.outcome, name=name)


def _standing(reply: Sequence[Any]) -> Standing:
    place, fence, abandoned, recheck_us = reply
    return Standing(
        _PLACES[int(place)], int(fence), abandoned in (b"1", "1"), int(recheck_us) / 1e6
    )


def _forgotten(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


# In a Cluster the part of a key in braces decides where it lives, so a name's own braces are written
# differently: all keys of a name share a slot, and no two names share a key.
def _tag(name: str) -> str:
    if "}" in name or "%" in name:
        return name.replace("%", "%25").replace("}", "%7D")
    return name


def _keys(tag: str) -> tuple[str, str]:
    key = f"holdfast:{{{tag}}}"
    return key, key + ":q"


def _name(queue_key: str) -> str:
    tag = queue_key.removeprefix("holdfast:{").removesuffix("}:q")
    return tag.replace("%7D", "}").replace("%25", "%")


def open_redis(url: Url, io: IO) -> RedisEngine:
    """`redis://`, `rediss://`, and both with `+sentinel` or `+cluster`; see docs/engines/redis.md."""
    secure, _, kind = url.scheme.partition("+")
    url.only(*_OPTIONS[kind], *(_TLS_OPTIONS if secure == "rediss" else ()))
    tls = _tls(url) if secure == "rediss" else None
    make: MakeNode = BlockingNode if io.blocking else MultiplexedNode
    hosts = [(host, port or (26379 if kind == "sentinel" else 6379)) for host, port in url.hosts]
    hosts = hosts or [("localhost", 6379)]
    if kind == "sentinel":
        group, _, database = url.path.strip("/").partition("/")
        if not group:
            raise ValueError(
                f"{url}: name the group to ask for, redis+sentinel://host:26379/mymaster"
            )
        sentinel_login = Login(password=url.options.get("sentinel_password"), tls=tls)
        sentinels = [make(host, port, sentinel_login) for host, port in hosts]
        login = Login(url.user, url.password, _database(url, database), tls)
        return RedisEngine(Sentinel(make, sentinels, group, login), str(url), io)
    login = Login(url.user, url.password, _database(url, url.path.strip("/")), tls)
    if kind == "cluster":
        return RedisEngine(Cluster(make, hosts, login), str(url), io)
    if len(hosts) > 1:
        raise ValueError(
            f"{url}: one host only; for several use redis+sentinel:// or redis+cluster://"
        )
    return RedisEngine(Single(make(*hosts[0], login)), str(url), io)


_OPTIONS = {"": (), "sentinel": ("sentinel_password",), "cluster": ()}
_TLS_OPTIONS = ("ca", "cert", "key", "verify")


def _database(url: Url, text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{url}: the database must be a number, as in redis://localhost/0")
    return int(text)


def _tls(url: Url) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=url.options.get("ca"))
        if "cert" in url.options:
            context.load_cert_chain(url.options["cert"], url.options.get("key"))
    except OSError as error:
        raise ValueError(f"{url}: can't read the certificate files: {error}") from error
    if url.options.get("verify") == "no":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
