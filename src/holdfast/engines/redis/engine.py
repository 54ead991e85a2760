"""The Redis engine: one Lua script per operation, wake-ups pushed over RESP3.

Efficiency locks: an asynchronous failover can forget an acknowledged lease. The fence, which only
grows, lets a storage reject the holder that does not know it yet.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import hiredis

from holdfast.core.errors import EngineError
from holdfast.core.names import matches
from holdfast.core.ticket import Departure, Inspection, Place, Standing, Ticket
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.redis import requests
from holdfast.engines.redis.keys import RECORDS, keys_and_note_of, keys_of, name_of, note_of, tag_of
from holdfast.engines.redis.many import Many, time_left
from holdfast.engines.redis.scripts import ENTER, EVICT, INSPECT, LEAVE, RECALL, REMEMBER
from holdfast.engines.redis.topology import Topology, ask
from holdfast.engines.redis.words import inspection_of, ms, standing_of
from holdfast.engines.resp.advice import explained, first_word
from holdfast.engines.resp.link import Link, Node
from holdfast.engines.resp.script import Script
from holdfast.engines.resp.wire import Broken, forgotten
from holdfast.io.contract import IO

_BATCH = 500

_Parked = tuple[str, Node, Link]
"""A ticket that waits: its name's tag, and where the wake-up will arrive."""

_Taken = tuple[Node, Link, float]
"""Where a request goes, and how long it may take now."""


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
        sharing=True,
        notes=True,
    )

    def __init__(self, topology: Topology, where: str, io: IO) -> None:
        self._topology = topology
        self._where = where
        self._io = io
        self._many = Many(topology, io)
        self._parked: dict[str, _Parked] = {}
        self._rousing = threading.Lock()
        """While somebody's link is cut from outside, it must not go to anybody else."""
        topology.on_news = self._resettle

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        tag = tag_of(ticket.name)
        waiting = False
        try:
            node, link, timeout = self._resume(ticket, tag, timeout) or await self._take(
                tag, timeout, ticket.id
            )
            try:
                call = requests.enter(ticket, link.channel, if_free=if_free)
                standing = standing_of(await self._call(node, link, ENTER, call, timeout))
                waiting = standing.place is Place.WAITING
                return standing
            finally:
                if waiting:
                    self._parked[ticket.id] = tag, node, link
                else:
                    node.give(link, ticket.id)
        except Broken as error:
            raise self._translated(error, ticket.name) from error

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        standings, failures = await self._many.enter_free(tickets, timeout)
        if failures:
            error = self._translated(failures[0], tickets[0].name if len(tickets) == 1 else None)
            if any(failure.outcome == "unknown" for failure in failures) or any(
                standing.place is Place.ADMITTED for standing in standings
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
        tag, node, link = parked
        try:
            wake_up = await node.listen(link, ticket.id, until - self._io.now())
        except Broken as error:
            self.unpark(ticket)
            if not self._topology.moved(tag, node):
                self._topology.mistrust(node)
            raise self._translated(error, ticket.name) from error
        return None if wake_up is None else standing_of([int(word) for word in wake_up.split()])

    def unpark(self, ticket: Ticket) -> None:
        parked = self._unparked(ticket.id)
        if parked is not None:
            _, node, link = parked
            node.give(link, ticket.id)

    def rouse(self, ticket: Ticket) -> None:
        with self._rousing:
            parked = self._parked.get(ticket.id)
            if parked is not None:
                _, node, link = parked
                node.rouse(link, ticket.id)

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
        except Broken as error:
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
            for id, (tag, node, link) in list(self._parked.items()):
                if self._topology.moved(tag, node):
                    node.dismiss(link, id)

    # --- one request

    def _resume(self, ticket: Ticket, tag: str, timeout: float) -> _Taken | None:
        """The link on which a ticket already waits, or one that is ready."""
        parked = self._unparked(ticket.id)
        if parked is not None:
            _, node, link = parked
            if not link.broken and not self._topology.moved(tag, node):
                return node, link, timeout
            node.give(link, ticket.id)
        return self._ready(tag, timeout, ticket.id)

    def _unparked(self, id: str) -> _Parked | None:
        if id not in self._parked:  # as of almost all
            return None
        with self._rousing:
            return self._parked.pop(id, None)

    def _ready(self, tag: str, timeout: float, waiter: str = "") -> _Taken | None:
        """The node for a name and a link to it, if both are at hand: as they almost always are."""
        node = self._topology.known(tag)
        link = None if node is None else node.ready(waiter)
        return None if node is None or link is None else (node, link, timeout)

    async def _take(self, tag: str, timeout: float, waiter: str = "") -> _Taken:
        """The same, whatever it takes."""
        started = self._io.now()
        node = await self._topology.node(tag, timeout)
        try:
            link = await node.take(timeout, waiter)
        except Broken:
            self._topology.mistrust(node)
            raise
        return node, link, time_left(self._io, timeout, started)

    async def _ask(self, name: str, script: Script, call: bytes, timeout: float) -> Any:
        """Call a script on behalf of somebody who waits for nothing."""
        tag = tag_of(name)
        started = self._io.now()
        redirected = False
        try:
            while True:
                node, link, left = self._ready(tag, timeout) or await self._take(tag, timeout)
                try:
                    return await self._call(node, link, script, call, left)
                except Broken as error:
                    if redirected or first_word(error) != "MOVED":
                        raise
                    redirected = True
                    timeout = time_left(self._io, timeout, started)
                finally:
                    node.give(link)
        except Broken as error:
            raise self._translated(error, name) from error

    async def _call(
        self, node: Node, link: Link, script: Script, call: bytes, timeout: float
    ) -> Any:
        """Call a script; if the server has forgotten it, bring it along."""
        try:
            (reply,) = await link.exchange(call, 1, timeout)
            if forgotten(reply):
                (reply,) = await link.exchange(script.spell_out(call), 1, timeout)
        except Broken:
            self._topology.mistrust(node)
            raise
        if isinstance(reply, hiredis.ReplyError):
            raise self._topology.rejected(node, link, reply)
        return reply

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
            if not isinstance(answer, Broken):
                used += [name] if answer[2] else []
            elif first_word(answer) != "WRONGTYPE":  # that one is not ours
                raise answer
        return used

    def _translated(self, error: Broken, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)
