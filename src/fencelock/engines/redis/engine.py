"""The Redis engine: one Lua script per operation, wake-ups pushed over RESP3.

Efficiency locks: an asynchronous failover can forget an acknowledged lease. The fence, which only
grows, lets a storage reject the holder that does not know it yet.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import hiredis

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import ADMITTED, WAITING, Departure, Inspection, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redis import requests
from fencelock.engines.redis.keys import (
    RECORDS,
    keys_and_note_of,
    keys_of,
    name_of,
    note_of,
    tag_of,
)
from fencelock.engines.redis.many import LEAST, Many, time_left
from fencelock.engines.redis.scripts import ENTER, EVICT, INSPECT, LEAVE, RECALL, REMEMBER
from fencelock.engines.redis.topology import Topology, ask
from fencelock.engines.redis.words import inspection_of, ms, news_of, standing_of
from fencelock.engines.resp.advice import explained, first_word
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.script import Script
from fencelock.engines.resp.wire import Rejected, forgotten
from fencelock.io.contract import IO

_BATCH = 500

_Parked = tuple[str, Node, Link]
"""A ticket that waits: its name, and where the wake-up will arrive."""


class RedisEngine(Engine):
    """Queues on Redis or Valkey."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs): falls if the previous one is forgotten (data lost, "
            "a failover, an idle hour) and the clock that then counts is behind: set back, or another "
            "server's; a failover may hand out one fence twice, so guards compare (fence, id)"
        ),
        clock="the Redis server's wall clock",
        supports_sharing=True,
        supports_notes=True,
    )

    def __init__(self, topology: Topology, where: str, io: IO) -> None:
        self._topology = topology
        self._where = where
        self._io = io
        self._many = Many(topology, io)
        self._only = topology.only
        self._parked: dict[str, _Parked] = {}
        self._rousing = threading.Lock()
        """While somebody's link is cut from outside, it must not go to anybody else."""
        topology.on_news = self._resettle

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        name, id, waiting = ticket.name, ticket.id, False
        node, link = self._resume(id, name) if id in self._parked else (None, None)
        try:
            if link is None:
                node = self._only or self._topology.known(name)
                link = None if node is None else node.ready(id)
            if node is None or link is None:
                node, link, timeout = await self._take(name, timeout, id)
            try:
                call = requests.enter(ticket, link.packed_channel, if_free=if_free)
                replies = link.exchange(call, 1, timeout)
                if not isinstance(replies, list):
                    replies = await replies
                reply = replies[0]
                if isinstance(reply, hiredis.ReplyError):
                    reply = await self._insist(node, link, reply, ENTER.spell_out(call), timeout)
                standing = standing_of(reply)
                waiting = standing.place is WAITING
                return standing
            finally:
                if waiting:
                    self._parked[id] = name, node, link
                else:
                    node.give(link, id)
        except RequestFailed as error:
            raise self._failed(error, node, name) from error

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        standings, failures = await self._many.enter_free(tickets, timeout)
        if failures:
            error = self._translated(failures[0], tickets[0].name if len(tickets) == 1 else None)
            if any(failure.outcome == "unknown" for failure in failures) or any(
                standing.place is ADMITTED for standing in standings
            ):
                error.outcome = "unknown"
            raise error from failures[0]
        return standings

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings, failures = await self._many.renew(tickets, timeout)
        if failures and not any(standings):
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._translated(failures[0], name) from failures[0]
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        call = requests.leave(ticket, departure)
        return bool(await self._ask(ticket.name, LEAVE, call, timeout))

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        parked = self._parked.get(ticket.id)
        if parked is None:  # the link on which it waited broke meanwhile
            return None
        name, node, link = parked
        try:
            wake_up = await node.listen(link, ticket.id, until - self._io.now())
        except RequestFailed as error:
            self.unpark(ticket)
            if not self._topology.moved(name, node):
                self._topology.mistrust(node)
            raise self._translated(error, name) from error
        return None if wake_up is None else news_of(wake_up)

    def unpark(self, ticket: Ticket) -> None:
        parked = self._unparked(ticket.id) if ticket.id in self._parked else None
        if parked is not None:
            _, node, link = parked
            node.give(link, ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        with self._rousing:
            parked = self._parked.get(ticket.id)
            if parked is not None:
                _, node, link = parked
                node.interrupt(link, ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        keys = keys_and_note_of(tag_of(ticket.name))
        call = REMEMBER.call(keys, ticket.id, text, ms(keep))
        return bool(await self._ask(ticket.name, REMEMBER, call, timeout))

    async def recall(self, name: str, *, timeout: float) -> str | None:
        call = RECALL.call(note_of(tag_of(name)))
        text: bytes | None = await self._ask(name, RECALL, call, timeout)
        return None if text is None else text.decode()

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        call = INSPECT.call(keys_of(tag_of(name)), str(limit))
        return inspection_of(name, await self._ask(name, INSPECT, call, timeout))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        found: list[str] = []
        try:
            for node in await self._topology.masters(timeout):
                names = [name for name in await self._scan(node, timeout) if matches(name, pattern)]
                for start in range(0, len(names), _BATCH):
                    found += await self._in_use(node, names[start : start + _BATCH], timeout)
        except RequestFailed as error:
            raise self._translated(error, None) from error
        return sorted(found)

    async def evict(self, name: str, *, timeout: float) -> bool:
        call = EVICT.call(keys_of(tag_of(name)))
        return bool(await self._ask(name, EVICT, call, timeout))

    async def close(self) -> None:
        with self._rousing:
            for id, (_, node, link) in list(self._parked.items()):
                node.dismiss(link, id)
        await self._topology.close()

    def _resettle(self) -> None:
        """Those who wait at a server that is no longer responsible would wait in vain."""
        with self._rousing:
            for id, (name, node, link) in list(self._parked.items()):
                if self._topology.moved(name, node):
                    node.dismiss(link, id)

    # --- one request

    def _resume(self, id: str, name: str) -> tuple[Node, Link] | tuple[None, None]:
        """The link on which a ticket already waits, if it is still good."""
        parked = self._unparked(id)
        if parked is None:
            return None, None
        _, node, link = parked
        if not link.broken and not self._topology.moved(name, node):
            return node, link
        node.give(link, id)
        return None, None

    def _unparked(self, id: str) -> _Parked | None:
        with self._rousing:
            return self._parked.pop(id, None)

    async def _take(self, name: str, timeout: float, waiter: str = "") -> tuple[Node, Link, float]:
        """The node for a name and a link to it, whatever it takes, and how long a request may take now."""
        started = self._io.now()
        node = await self._topology.node(name, timeout)
        try:
            link = await node.take(timeout, waiter)
        except RequestFailed:
            self._topology.mistrust(node)
            raise
        return node, link, time_left(self._io, timeout, started)

    async def _ask(self, name: str, script: Script, call: bytes, timeout: float) -> Any:
        """Call a script on behalf of somebody who waits for nothing."""
        redirected = self._only is not None  # there is nobody else to whom it could send us
        until = 0.0 if redirected else self._io.now() + timeout
        while True:
            node = self._only or self._topology.known(name)
            try:
                link = None if node is None else node.ready()
                if node is None or link is None:
                    node, link, timeout = await self._take(name, timeout)
                try:
                    replies = link.exchange(call, 1, timeout)
                    if not isinstance(replies, list):
                        replies = await replies
                    reply = replies[0]
                    if isinstance(reply, hiredis.ReplyError):
                        longer = script.spell_out(call)
                        reply = await self._insist(node, link, reply, longer, timeout)
                    return reply
                finally:
                    node.give(link)
            except RequestFailed as error:
                if redirected or first_word(error) != "MOVED":
                    raise self._failed(error, node, name) from error
                redirected = True
                timeout = max(until - self._io.now(), LEAST)

    async def _insist(
        self, node: Node, link: Link, error: hiredis.ReplyError, call: bytes, timeout: float
    ) -> Any:
        """If the server has forgotten a script, bring it along; else say what is wrong."""
        reply: Any = error
        if forgotten(error):
            (reply,) = await link.ask(call, 1, timeout)
        if isinstance(reply, hiredis.ReplyError):
            raise self._topology.rejected(node, link, reply)
        return reply

    def _failed(self, error: RequestFailed, node: Node | None, name: str) -> EngineError:
        if node is not None and not isinstance(error, Rejected):
            self._topology.mistrust(node)
        return self._translated(error, name)

    async def _scan(self, node: Node, timeout: float) -> list[str]:
        names: set[str] = set()
        cursor = b"0"
        while True:
            command = ("SCAN", cursor, "MATCH", RECORDS, "COUNT", str(_BATCH))
            answer = await ask(node, command, timeout)
            assert isinstance(answer, list)
            cursor, keys = answer
            names.update(name_of(key) for key in keys)
            if cursor == b"0":
                return sorted(names)

    async def _in_use(self, node: Node, names: list[str], timeout: float) -> list[str]:
        """Those that somebody holds: others are only remembered, or left over from processes that died."""
        calls = [INSPECT.call(keys_of(tag_of(name)), "0") for name in names]
        used: list[str] = []
        for name, answer in zip(
            names, await self._many.batch(node, INSPECT, calls, timeout), strict=True
        ):
            if not isinstance(answer, RequestFailed):
                used += [name] if answer[2] else []
            elif first_word(answer) != "WRONGTYPE":  # that one is not ours
                raise answer
        return used

    def _translated(self, error: RequestFailed, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)
