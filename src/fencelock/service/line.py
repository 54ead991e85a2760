"""One line: the WebSocket of one client, with all its requests and wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, get_args

from aiohttp import WSMsgType, web

from fencelock.core.ticket import Place, Ticket
from fencelock.engines.http.wire import (
    GOING_AWAY,
    Answer,
    AnyAct,
    Enter,
    Hello,
    Leave,
    Park,
    Problem,
    Reply,
    Request,
    Unpark,
    Wake,
    WireTicket,
    decode_request,
    encode,
)
from fencelock.service.acts import Acts
from fencelock.service.connections import Connection
from fencelock.service.counters import Counters
from fencelock.service.principals import Principal
from fencelock.service.problems import problem, problem_of

HEARTBEAT = 15.0
"""Seconds between two pings."""

NOT_ALLOWED = 1008
"""The code with which a line is closed whose token has ended (RFC 6455: policy violation)."""

_ROUTES = {act: f"line {act.__name__.lower()}" for act in get_args(AnyAct)}
"""The names of the acts in metrics."""


class Line:
    """Answers requests in any order, each as soon as it can. Parks the tickets that wait."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        connection: Connection,
        acts: Acts,
        principal: Principal,
        counters: Counters,
        pipeline: int,
    ) -> None:
        self._socket = socket
        self._connection = connection
        self._acts = acts
        self.principal = principal
        """Who has this line. It is replaced when the rights change."""
        self._counters = counters
        self._pipeline = pipeline
        """How many requests may be under way at once."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._parked: dict[str, tuple[Ticket, asyncio.Task[None]]] = {}
        """The tickets whose wake-up this line waits for, by id."""
        self._waits = 0
        """Requests under way that only wait. They have a limit of their own."""
        self._ending: Problem | None = None
        """What is answered to requests that come while the line ends."""
        self._beat: asyncio.TimerHandle | None = None

    async def serve(self, hello: Hello) -> None:
        """Answer until the client or the service closes the line."""
        try:
            await self._send(hello)
            self._beat = asyncio.get_running_loop().call_later(HEARTBEAT, self._ping)
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT:
                    break
                request = decode_request(message.data)
                if self._ending is not None:
                    await self._send(Reply(request.seq, Answer(problem=self._ending)))
                    continue
                self._start(self._answer(request))
                while len(self._under_way) - self._waits >= self._pipeline:
                    await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
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

    @property
    def ending(self) -> bool:
        """Whether the line is being closed."""
        return self._ending is not None

    async def drain(self) -> None:
        """Finish what is under way, and send the client elsewhere."""
        detail = "ask another replica"
        await self._end(GOING_AWAY, problem("draining", detail, outcome="not applied"))

    async def expel(self) -> None:
        """Finish what is under way, and close the line: its token has expired, or was revoked."""
        detail = "the token of this line has ended"
        await self._end(NOT_ALLOWED, problem("unauthorized", detail, outcome="not applied"))

    async def _end(self, code: int, why: Problem) -> None:
        self._ending = why
        await self._finish()
        # The client relies on it: what was not answered before this was not carried out.
        await self._socket.close(code=code, message=why.detail.encode())

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
        act, acts, principal, began = request.act, self._acts, self.principal, monotonic()
        concerned = _concerned(act)
        for id in concerned:
            if id in acts.entering:
                await self._entered(id)
            if id in self._parked:
                await self._unpark(id)
            elif id in acts.waits:
                await acts.end_wait(id)
        if type(act) is Enter:
            acts.entering.update(dict.fromkeys(concerned))
        try:
            answer = await (
                self._wait(act, principal) if type(act) is Park else acts.perform(act, principal)
            )
        except Exception as error:
            answer = Answer(problem=problem_of(error))
        finally:
            if type(act) is Enter:
                for id in concerned:
                    over = acts.entering.pop(id, None)
                    if over is not None:
                        over.set_result(None)
        if type(act) is Enter:  # first, so that the next request for the ticket finds it parked
            self._park_waiting(act, answer, principal)
        await self._send(Reply(request.seq, answer))
        code = 200 if answer.problem is None else answer.problem.status
        self._counters.served(_ROUTES[type(act)], code, monotonic() - began)

    async def _entered(self, id: str) -> None:
        """Wait for the end of the requests by which this ticket enters."""
        entering = self._acts.entering
        while id in entering:
            over = entering[id]
            if over is None:
                over = entering[id] = asyncio.get_running_loop().create_future()
            await asyncio.shield(over)

    # --- waiting tickets

    async def _wait(self, act: Park, principal: Principal) -> Answer:
        self._waits += 1
        try:
            return await self._acts.perform(act, principal)
        finally:
            self._waits -= 1

    def _park_waiting(self, act: Enter, answer: Answer, principal: Principal) -> None:
        for ticket, standing in zip(act.tickets, answer.standings or (), strict=False):
            if standing is not None and standing.place is Place.WAITING:
                waiting = self._acts.ticket(ticket, principal)
                if self._socket.closed:
                    self._acts.engine.unpark(waiting)
                else:
                    task = asyncio.create_task(self._wake_up(ticket, waiting, principal))
                    self._parked[waiting.id] = waiting, task

    async def _wake_up(self, wire: WireTicket, ticket: Ticket, principal: Principal) -> None:
        """Push the wake-up of a ticket, once."""
        try:
            standing = await self._acts.park(ticket, ticket.ttl)
            wake = Wake(ticket.id, standing)
            if standing is not None:
                self._acts.ledger.woken(wire, standing, principal)
        except Exception as error:
            wake = Wake(ticket.id, problem=problem_of(error))
        self._parked.pop(ticket.id, None)
        await self._send(wake)

    async def _unpark(self, id: str) -> None:
        """Wait for the wake-up of this ticket no more."""
        parked = self._parked.pop(id, None)
        if parked is not None:
            ticket, task = parked
            task.cancel()
            await asyncio.wait([task])
            self._acts.engine.unpark(ticket)  # in case it had not begun to wait

    async def _send(self, message: Hello | Reply | Wake) -> None:
        """Send a message, as soon as the client reads."""
        if self._connection.is_stuck:
            await self._connection.flowing()
        with suppress(ConnectionError):  # the client is gone, and asks again elsewhere
            await self._socket.send_frame(encode(message), WSMsgType.TEXT)


def _concerned(act: AnyAct) -> Sequence[str]:
    """The tickets that need not be parked any more when this act comes: what it brings is newer."""
    if type(act) is Enter:
        return [each.id for each in act.tickets]
    if type(act) is Leave or type(act) is Park:
        return (act.ticket.id,)
    return (act.id,) if type(act) is Unpark else ()
