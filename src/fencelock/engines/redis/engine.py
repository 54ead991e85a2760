"""The Redis engine: one Lua script per operation, wake-ups pushed over RESP3.

Efficiency locks: an asynchronous failover can forget an acknowledged lease. The fence, which only grows,
lets a storage reject the holder that does not know it yet. The files of this folder:

- `opening`: from a URL to the engine. `engine`: the operations of the contract.
- `requests`, `replies`: calls of the scripts as bytes, and what the scripts reply. `keys`: the keys of a
  name.
- `scripts`, `lua/`: what runs in the server; `lua/record.lua` explains what is stored.
- `batches`: requests of many tickets at once.
- `topology`: which server is responsible for a name (one server, Sentinel, Cluster).

The connections are in `engines/resp/`.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import ADMITTED, WAITING, Departure, Inspection, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redis import requests
from fencelock.engines.redis.batches import MIN_TIMEOUT, Batches, time_left
from fencelock.engines.redis.keys import RECORDS, keys_of, name_of, note_of, tag_of
from fencelock.engines.redis.replies import inspection_of, pushed_standing, standing_of
from fencelock.engines.redis.scripts import ENTER, EVICT, INSPECT, LEAVE, RECALL, REMEMBER
from fencelock.engines.redis.topology import Topology, ask, ask_many
from fencelock.engines.resp.advice import explained, first_word
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.script import Script
from fencelock.engines.resp.wire import Rejected, script_missing
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines.diagnosis import Server

_BATCH = 500
"""Keys per part of a listing."""

_FREE = 32
"""The record of a name that nobody holds has fewer bytes. The id of a holder alone has as many."""

_Parked = tuple[str, Node, Link]
"""A ticket that waits: its name, and the link on which the wake-up will arrive."""


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
        supports_rates=True,
        supports_notes=True,
        portable=True,
    )

    def __init__(self, topology: Topology, where: str, io: IO) -> None:
        self._topology = topology
        self._where = where
        self._io = io
        self._batches = Batches(topology, io)
        self._only = topology.only
        self._parked: dict[str, _Parked] = {}
        self._parked_lock = threading.Lock()
        """Held while another thread ends a `park`: until then its link must not go to anybody else."""
        topology.on_change = self._dismiss_moved

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
                # `type() is` costs less than `isinstance`, but mypy does not follow it here: hence Any.
                replies: Any = link.exchange(call, 1, timeout)
                if type(replies) is not list:
                    replies = await replies
                reply = replies[0]
                if isinstance(reply, hiredis.ReplyError):
                    reply = await self._with_text(node, link, reply, ENTER.with_text(call), timeout)
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
        standings, failures = await self._batches.enter_free(tickets, timeout)
        if failures:
            error = self._engine_error(failures[0], tickets[0].name if len(tickets) == 1 else None)
            if any(failure.outcome == "unknown" for failure in failures) or any(
                standing.place is ADMITTED for standing in standings
            ):
                error.outcome = "unknown"
            raise error from failures[0]
        return standings

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings, failures = await self._batches.renew(tickets, timeout)
        if failures and not any(standings):
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._engine_error(failures[0], name) from failures[0]
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        call = requests.leave(ticket, departure)
        return bool(await self._ask(ticket.name, LEAVE, call, timeout))

    async def leave_all(self, tickets: Sequence[Ticket], *, timeout: float) -> list[bool]:
        answers, failures = await self._batches.leave(tickets, timeout)
        if failures:
            error = self._engine_error(failures[0], None)
            if any(answer is not None for answer in answers) or any(
                failure.outcome == "unknown" for failure in failures
            ):
                error.outcome = "unknown"
            raise error from failures[0]
        return [bool(answer) for answer in answers]

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        parked = self._parked.get(ticket.id)
        if parked is None:  # its link broke meanwhile
            return None
        name, node, link = parked
        try:
            wake_up = await link.listen(ticket.id, until - self._io.now())
        except RequestFailed as error:
            self.unpark(ticket)
            moved = self._topology.moved(name, node)
            raise self._failed(error, None if moved else node, name) from error
        return None if wake_up is None else pushed_standing(wake_up)

    def unpark(self, ticket: Ticket) -> None:
        parked = self._take_parked(ticket.id) if ticket.id in self._parked else None
        if parked is not None:
            _, node, link = parked
            node.give(link, ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        with self._parked_lock:
            parked = self._parked.get(ticket.id)
            if parked is not None:
                _, _, link = parked
                link.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        call = requests.remember(ticket, text, keep)
        return bool(await self._ask(ticket.name, REMEMBER, call, timeout))

    async def recall(self, name: str, *, timeout: float) -> str | None:
        call = RECALL.call(note_of(tag_of(name)))
        text: bytes | None = await self._ask(name, RECALL, call, timeout)
        return None if text is None else text.decode()

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        call = INSPECT.call(keys_of(tag_of(name)), str(limit))
        return inspection_of(name, await self._ask(name, INSPECT, call, timeout))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        used: set[str] = set()
        async for node, candidates in self._scan(timeout):
            names = [name for name in candidates if matches(name, pattern)]
            try:
                used.update(await self._in_use(node, names, timeout) if names else ())
            except RequestFailed as error:
                raise self._engine_error(error, None) from error
        return sorted(used)

    async def candidates(self, *, timeout: float) -> AsyncIterator[list[str]]:
        async for _, names in self._scan(timeout):
            yield names

    async def evict(self, name: str, *, timeout: float) -> bool:
        call = EVICT.call(keys_of(tag_of(name)))
        return bool(await self._ask(name, EVICT, call, timeout))

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        from fencelock.engines.resp.diagnosis import PING, TIME, describe  # few programs need it

        return [
            await describe(
                node,
                self._io,
                timeout,
                role=role,
                serves=role == "master",
                questions=questions,
                time=PING if role == "sentinel" else TIME,
            )
            for role, node, questions in await self._topology.members(timeout)
        ]

    async def close(self) -> None:
        with self._parked_lock:
            for id, (_, _, link) in list(self._parked.items()):
                link.dismiss(id)
        await self._topology.close()

    def _dismiss_moved(self) -> None:
        """End each `park` at a server that is not responsible any more: no wake-up would come."""
        with self._parked_lock:
            for id, (name, node, link) in list(self._parked.items()):
                if self._topology.moved(name, node):
                    link.dismiss(id)

    # --- one request

    def _resume(self, id: str, name: str) -> tuple[Node, Link] | tuple[None, None]:
        """The link on which a ticket already waits, if it is still good."""
        parked = self._take_parked(id)
        if parked is None:
            return None, None
        _, node, link = parked
        if not link.broken and not self._topology.moved(name, node):
            return node, link
        node.give(link, id)
        return None, None

    def _take_parked(self, id: str) -> _Parked | None:
        with self._parked_lock:
            return self._parked.pop(id, None)

    async def _take(self, name: str, timeout: float, waiter: str = "") -> tuple[Node, Link, float]:
        """Find the node of a name and connect to it. Returns also the time that is left for a request."""
        started = self._io.now()
        node = self._only or await self._topology.node(name, timeout)
        try:
            link = await node.take(timeout, waiter)
        except RequestFailed:
            self._topology.invalidate(node)
            raise
        return node, link, time_left(self._io, timeout, started)

    async def _ask(self, name: str, script: Script, call: bytes, timeout: float) -> Any:
        """Call a script for a ticket that does not wait."""
        redirected = self._only is not None  # a single server can't redirect us
        until = 0.0 if redirected else self._io.now() + timeout
        while True:
            node = self._only or self._topology.known(name)
            try:
                link = None if node is None else node.ready()
                if node is None or link is None:
                    node, link, timeout = await self._take(name, timeout)
                try:
                    replies: Any = link.exchange(call, 1, timeout)
                    if type(replies) is not list:
                        replies = await replies
                    reply = replies[0]
                    if isinstance(reply, hiredis.ReplyError):
                        again = script.with_text(call)
                        reply = await self._with_text(node, link, reply, again, timeout)
                    return reply
                finally:
                    node.give(link)
            except RequestFailed as error:
                if redirected or first_word(error) != "MOVED":
                    raise self._failed(error, node, name) from error
                redirected = True
                timeout = max(until - self._io.now(), MIN_TIMEOUT)

    async def _with_text(
        self, node: Node, link: Link, error: hiredis.ReplyError, call: bytes, timeout: float
    ) -> Any:
        """After an error: if the server does not know the script, send the call with the script's text."""
        reply: Any = error
        if script_missing(error):
            (reply,) = await link.ask(call, 1, timeout)
        if isinstance(reply, hiredis.ReplyError):
            raise self._topology.rejected(node, link, reply)
        return reply

    def _failed(self, error: RequestFailed, node: Node | None, name: str) -> EngineError:
        if node is not None and not isinstance(error, Rejected):
            self._topology.invalidate(node)
        return self._engine_error(error, name)

    def _engine_error(self, error: RequestFailed, name: str | None) -> EngineError:
        """The one place where a failed request becomes an `EngineError`."""
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)

    async def _scan(self, timeout: float) -> AsyncIterator[tuple[Node, list[str]]]:
        """The names whose record says that they are held, or were when their holder died; part by part."""
        try:
            for node in await self._topology.masters(timeout):
                cursor = b""
                while cursor != b"0":
                    scan = ("SCAN", cursor or b"0", "MATCH", RECORDS, "COUNT", str(_BATCH))
                    answer = await ask(node, scan, timeout)
                    assert isinstance(answer, list)
                    cursor, keys = answer
                    yield node, await _held(node, keys, timeout)
        except RequestFailed as error:
            raise self._engine_error(error, None) from error

    async def _in_use(self, node: Node, names: list[str], timeout: float) -> list[str]:
        """The names that are held or waited for. The others have only dead tickets."""
        calls = [INSPECT.call(keys_of(tag_of(name)), "0") for name in names]
        used: list[str] = []
        for name, answer in zip(
            names, await self._batches.batch(node, INSPECT, calls, timeout), strict=True
        ):
            if not isinstance(answer, RequestFailed):
                used += [name] if answer[2] else []
            elif first_word(answer) != "WRONGTYPE":  # a key of another program
                raise answer
        return used


async def _held(node: Node, keys: list[bytes], timeout: float) -> list[str]:
    """The names of these records that have a holder."""
    if not keys:
        return []
    lengths = await ask_many(node, [("STRLEN", key) for key in keys], timeout)
    return [name_of(key) for key, length in zip(keys, lengths, strict=True) if _may_be_held(length)]


def _may_be_held(length: object) -> bool:
    """Whether the record with this length, or with this error, may have a holder."""
    if isinstance(length, hiredis.ReplyError):
        # Without the right to ask for lengths, each record is looked at. A key of another program is none.
        return not str(length).startswith("WRONGTYPE")
    return type(length) is int and length > _FREE
