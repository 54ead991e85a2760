"""A line to a service without our client: what engines/http/wire.py says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import uuid4

import aiohttp

from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.http.wire import (
    PATH,
    SUBPROTOCOL,
    Answer,
    AnyAct,
    Enter,
    Hello,
    Leave,
    Renew,
    Reply,
    Request,
    Wake,
    WireStanding,
    WireTicket,
    decode_message,
    encode,
)
from tests.waiting import PATIENCE


def ticket(name: str, ttl: float = 30.0) -> WireTicket:
    """A new ticket of somebody."""
    return WireTicket.pack(Ticket(name, uuid4().hex, ttl, Owner("host", 1, "tests")))


class RawLine:
    """One WebSocket. It asks one thing at a time, and keeps the wake-ups that come meanwhile."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, hello: Hello) -> None:
        self.hello = hello
        self._socket = socket
        self._numbers = count()
        self._wakes: list[Wake] = []

    async def ask(self, act: AnyAct) -> Answer:
        seq = next(self._numbers)
        await self._socket.send_str(encode(Request(seq, act)).decode())
        while not isinstance(message := await receive(self._socket), Reply):
            assert isinstance(message, Wake)
            self._wakes.append(message)
        assert message.seq == seq
        return message.answer

    async def enter(self, asking: WireTicket) -> WireStanding:
        answer = await self.ask(Enter([asking], timeout=5.0))
        assert answer.standings, answer.problem
        (standing,) = answer.standings
        assert standing is not None
        return standing

    async def renew(self, asking: WireTicket) -> Place:
        answer = await self.ask(Renew([asking], timeout=5.0))
        assert answer.standings, answer.problem
        assert answer.standings[0] is not None
        return answer.standings[0].place

    async def leave(self, asking: WireTicket) -> bool:
        answer = await self.ask(Leave(asking, timeout=5.0))
        assert answer.problem is None, answer.problem
        return bool(answer.done)

    async def wake(self) -> Wake:
        """The next wake-up."""
        if self._wakes:
            return self._wakes.pop(0)
        message = await receive(self._socket)
        assert isinstance(message, Wake)
        return message

    async def closed(self) -> int:
        """The code with which the service closes the line. Wake-ups may come before."""
        while (message := await self._receive()).type is aiohttp.WSMsgType.TEXT:
            pass
        assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        return self._socket.close_code or 0

    async def _receive(self) -> aiohttp.WSMessage:
        return await asyncio.wait_for(self._socket.receive(), PATIENCE)


async def receive(socket: aiohttp.ClientWebSocketResponse) -> Any:
    return decode_message(await asyncio.wait_for(socket.receive_str(), PATIENCE))


@asynccontextmanager
async def raw_line(url: str) -> AsyncIterator[RawLine]:
    """Open a line to this service."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url + PATH, protocols=[SUBPROTOCOL]) as socket,
    ):
        assert socket.protocol == SUBPROTOCOL
        yield RawLine(socket, await receive(socket))
