"""`/v1/events`: what this replica sees, as server-sent events for a live page.

Nothing is kept for later consumers. A consumer that reads too slowly is cut, and one that comes back is
told to look at the whole state again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any

import msgspec
from aiohttp import web

from fencelock.observe.audience import Audience
from fencelock.observe.events import Broken, Event, GaveUp, Granted, Lost, Queued, Released
from fencelock.observe.observer import Recorder
from fencelock.service.answers import event_stream
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused

HEARTBEAT = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the stream."""

MAX_UNREAD = 64 * 1024
"""A consumer that has left this many bytes unread is cut."""

_encode = msgspec.json.Encoder().encode


class _Consumer:
    """Somebody that reads the events of the names it may see."""

    def __init__(self, principal: Principal, transport: asyncio.Transport) -> None:
        self.principal = principal
        self._ended = False
        self._transport = transport
        self._unread = bytearray()
        self._news = asyncio.Event()

    def offer(self, text: bytes) -> None:
        """Give it an event to read. Never waits."""
        if len(self._unread) + len(text) > MAX_UNREAD:
            self._transport.abort()  # also ends a write that waits for it
            self._unread.clear()
            self._ended = True
        else:
            self._unread += text
        self._news.set()

    @property
    def gone(self) -> bool:
        """Whether its connection is closed. The stream itself notices that with the next heartbeat."""
        return self._transport.is_closing()

    def end(self) -> None:
        """It gets what is there, and then the end."""
        self._ended = True
        self._news.set()

    async def next(self) -> bytes | None:
        """What it has not read yet; nothing if the heartbeat is due, and None if it is over."""
        if not self._unread:
            if self._ended:
                return None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), HEARTBEAT)
        self._news.clear()
        unread, self._unread = self._unread, bytearray()
        return bytes(unread)


class Hub(Recorder):
    """Passes what happens on to the consumers. Without consumers nobody tells it anything."""

    def __init__(self, audience: Audience, replica: str, limit: int) -> None:
        self._audience = audience
        self._replica = replica
        self._limit = limit
        self._consumers: set[_Consumer] = set()
        self._number = 0

    def record(self, kind: type[Event], fields: tuple[Any, ...], since: object = None, /) -> None:
        """Pass an event on to those that may read the name."""
        show = _SHOWN.get(kind)
        if show is not None:
            word, details = show(fields)
            self._publish(word, fields[0], details)

    def drain(self) -> None:
        """Tell everybody to look elsewhere, and end."""
        self._publish("draining", None, {})
        for consumer in self._consumers:
            consumer.end()

    def _publish(self, word: str, name: str | None, details: dict[str, Any]) -> None:
        self._number += 1
        text = self._event(word, details if name is None else {"name": name, **details})
        for consumer in self._consumers:
            if name is None or consumer.principal.may("read", name):
                consumer.offer(text)

    def _event(self, word: str, data: dict[str, Any]) -> bytes:
        head = f"event: {word}\nid: {self._replica}-{self._number}\ndata: "
        return head.encode() + _encode(data) + b"\n\n"

    async def stream(
        self,
        request: web.Request,
        principal: Principal,
        again: Callable[[Principal], Principal | None],
    ) -> web.StreamResponse:
        """Answer a request with all events from now on. `again` says whether it may still be answered."""
        for consumer in self._consumers:
            if consumer.gone:
                consumer.end()
        if sum(not consumer.gone for consumer in self._consumers) >= self._limit:
            detail = f"{self._limit} consumers read the events of this replica already"
            raise Refused("limited", detail, retry_after=HEARTBEAT)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)  # the request has just come
        transport.set_write_buffer_limits(high=MAX_UNREAD // 4)
        # The kernel's own buffer would grow to megabytes.
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, MAX_UNREAD)
        response = event_stream()
        consumer = _Consumer(principal, transport)
        self._join(consumer)
        try:
            with suppress(ConnectionError):
                await response.prepare(request)
                await response.write(self._greeting(request))
                while (unread := await consumer.next()) is not None:
                    if not unread:
                        present = again(consumer.principal)
                        if present is None:  # its token has expired, or was revoked
                            break
                        consumer.principal = present
                    await response.write(unread or b": still here\n\n")
        finally:
            self._leave(consumer)
        return response

    def _greeting(self, request: web.Request) -> bytes:
        """The first event: whether something may have been missed since the last one that was read."""
        last = request.headers.get("Last-Event-ID")
        missed = last is not None and last != f"{self._replica}-{self._number}"
        hello = self._event("hello", {"replica": self._replica, "look_again": missed})
        return b"retry: 2000\n" + hello

    def _join(self, consumer: _Consumer) -> None:
        if not self._consumers:
            self._audience.join(self)
        self._consumers.add(consumer)

    def _leave(self, consumer: _Consumer) -> None:
        self._consumers.discard(consumer)
        if not self._consumers:
            self._audience.quit(self)


Shown = tuple[str, dict[str, Any]]


def _ticket(fields: tuple[Any, ...]) -> dict[str, Any]:
    """What all events of a ticket show. Never its id."""
    _, _, kind, owner, number = fields[:5]
    shown = {"host": owner.host, "pid": owner.pid, "label": owner.label}
    return {"kind": kind, "owner": shown, "ticket": number}


def _waiting(fields: tuple[Any, ...]) -> Shown:
    return "waiting", _ticket(fields)


def _granted(fields: tuple[Any, ...]) -> Shown:
    *_, waited, fence, abandoned = fields
    more = {"fence": str(fence), "waited": waited, "abandoned": abandoned}
    return "granted", {**_ticket(fields), **more}


def _gave_up(fields: tuple[Any, ...]) -> Shown:
    return "left", {**_ticket(fields), "waited": fields[-1]}


def _released(fields: tuple[Any, ...]) -> Shown:
    """Or it is silent: it expired, or its client asks another replica."""
    *_, fence, held_for, silent = fields
    word = "silent" if silent else "released"
    return word, {**_ticket(fields), "fence": str(fence), "held_for": held_for}


def _lost(fields: tuple[Any, ...]) -> Shown:
    *_, fence, held_for, reason = fields
    more = {"fence": str(fence), "held_for": held_for, "reason": reason}
    return "lost", {**_ticket(fields), **more}


def _broken(fields: tuple[Any, ...]) -> Shown:
    *_, owner, fence = fields
    return "broken", {"by": owner.label, "fence": str(fence)}


_SHOWN: dict[type[Event], Callable[[tuple[Any, ...]], Shown]] = {
    Queued: _waiting,
    Granted: _granted,
    GaveUp: _gave_up,
    Released: _released,
    Lost: _lost,
    Broken: _broken,
}
