"""One line: the WebSocket of one client, with all its requests and wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from aiohttp import WSMsgType, web

from fencelock.core.ticket import Place, Ticket
from fencelock.engines.http.wire import (
    GOING_AWAY,
    Answer,
    AnyAct,
    Enter,
    Hello,
    Leave,
    Reply,
    Request,
    Unpark,
    Wake,
    decode_request,
    encode,
)
from fencelock.service.acts import Acts
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused, problem_of

HEARTBEAT = 15.0
"""Seconds between two pings."""


class Line:
    """Answers requests in any order, each as soon as it can. Parks the tickets that wait."""

    def __init__(self, socket: web.WebSocketResponse, acts: Acts, principal: Principal) -> None:
        self._socket = socket
        self._acts = acts
        self._principal = principal
        self._under_way: set[asyncio.Task[None]] = set()
        self._parked: dict[str, tuple[Ticket, asyncio.Task[None]]] = {}
        """The tickets whose wake-up this line waits for, by id."""
        self._draining = False
        self._beat: asyncio.TimerHandle | None = None

    async def serve(self, hello: Hello) -> None:
        """Answer until the client or the service closes the line."""
        try:
            await self._send(hello)
            self._beat = asyncio.get_running_loop().call_later(HEARTBEAT, self._ping)
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT:
                    break
                self._start(self._answer(decode_request(message.data)))
        finally:
            if self._beat is not None:
                self._beat.cancel()
            await self._finish()

    def _ping(self) -> None:
        """Keep the line open in proxies that cut what is silent. No answer is needed: nobody reads an idle
        line of a blocking client. TCP itself notices a client that is gone."""
        self._start(self._send_ping())
        self._beat = asyncio.get_running_loop().call_later(HEARTBEAT, self._ping)

    async def _send_ping(self) -> None:
        with suppress(ConnectionError):
            await self._socket.ping()

    async def drain(self) -> None:
        """Finish what is under way, and send the client elsewhere."""
        self._draining = True
        await self._finish()
        # The client relies on it: what was not answered before this was not carried out.
        await self._socket.close(code=GOING_AWAY, message=b"draining")

    async def _finish(self) -> None:
        """Wait for no wake-up any more. Let requests end: the engine may have them already."""
        for id in list(self._parked):
            await self._unpark(id)
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answer(self, request: Request) -> None:
        act, acts = request.act, self._acts
        concerned = _concerned(act)
        for id in concerned:
            if id in acts.entering:
                await self._entered(id)
            if id in acts.parked:
                await acts.parked[id]()
        if type(act) is Enter:
            acts.entering.update(dict.fromkeys(concerned))
        try:
            if self._draining:
                raise Refused("draining", "ask another replica", retry_after=0.0)
            answer = await acts.perform(act, self._principal)
        except Exception as error:
            answer = Answer(problem=problem_of(error))
        finally:
            if type(act) is Enter:
                for id in concerned:
                    over = acts.entering.pop(id, None)
                    if over is not None:
                        over.set_result(None)
        if type(act) is Enter:  # first, so that the next request for the ticket finds it parked
            self._park_waiting(act, answer)
        await self._send(Reply(request.seq, answer))

    async def _entered(self, id: str) -> None:
        """Wait for the end of the requests by which this ticket enters."""
        entering = self._acts.entering
        while id in entering:
            over = entering[id]
            if over is None:
                over = entering[id] = asyncio.get_running_loop().create_future()
            await asyncio.shield(over)

    # --- waiting tickets

    def _park_waiting(self, act: Enter, answer: Answer) -> None:
        for ticket, standing in zip(act.tickets, answer.standings or (), strict=False):
            if standing is not None and standing.place is Place.WAITING:
                waiting = ticket.unpack()
                if self._socket.closed:
                    self._acts.engine.unpark(waiting)
                else:
                    task = asyncio.create_task(self._wake_up(waiting))
                    self._parked[waiting.id] = waiting, task
                    self._acts.parked[waiting.id] = partial(self._unpark, waiting.id)

    async def _wake_up(self, ticket: Ticket) -> None:
        """Push the wake-up of a ticket, once."""
        try:
            wake = Wake(ticket.id, await self._acts.park(ticket, ticket.ttl))
        except Exception as error:
            wake = Wake(ticket.id, problem=problem_of(error))
        self._forget(ticket.id)
        self._acts.engine.unpark(ticket)
        await self._send(wake)

    async def _unpark(self, id: str) -> None:
        """Wait for the wake-up of this ticket no more."""
        parked = self._forget(id)
        if parked is not None:
            ticket, task = parked
            task.cancel()
            await asyncio.wait([task])
            self._acts.engine.unpark(ticket)

    def _forget(self, id: str) -> tuple[Ticket, asyncio.Task[None]] | None:
        parked = self._parked.pop(id, None)
        if parked is not None:
            self._acts.parked.pop(id, None)
        return parked

    async def _send(self, message: Hello | Reply | Wake) -> None:
        with suppress(ConnectionError):  # the client is gone, and asks again elsewhere
            await self._socket.send_frame(encode(message), WSMsgType.TEXT)


def _concerned(act: AnyAct) -> Sequence[str]:
    """The tickets that need not be parked any more when this act comes: what it brings is newer."""
    if type(act) is Enter:
        return [each.id for each in act.tickets]
    if type(act) is Leave:
        return (act.ticket.id,)
    return (act.id,) if type(act) is Unpark else ()
