"""Requests of many tickets at once: those for one server go there in one write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import hiredis

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redis import requests
from fencelock.engines.redis.replies import standing_of
from fencelock.engines.redis.scripts import ENTER, LEAVE, RENEW
from fencelock.engines.redis.topology import Topology, Unserved
from fencelock.engines.resp.advice import first_word
from fencelock.engines.resp.link import Node
from fencelock.engines.resp.script import Script
from fencelock.engines.resp.wire import script_missing
from fencelock.io.contract import IO

MIN_TIMEOUT = 0.01
"""Minimum timeout of a request, in seconds. Less time than this counts as no time."""


def time_left(io: IO, timeout: float, started: float) -> float:
    """What is left of a timeout. Unchanged if hardly any was used: a new timeout of a socket is expensive."""
    used = io.now() - started
    return timeout if used < MIN_TIMEOUT else max(timeout - used, MIN_TIMEOUT)


class Batches:
    """Sends the requests of many tickets, and collects standings and failures."""

    def __init__(self, topology: Topology, io: IO) -> None:
        self._topology = topology
        self._io = io

    async def enter_free(
        self, tickets: Sequence[Ticket], timeout: float
    ) -> tuple[list[Standing], list[RequestFailed]]:
        """Take the names that are free. Returns standings and failures.

        It asks one server after the other. So nothing still asks after a cancellation, and after a refusal
        the next server is not asked for the tickets that come later.
        """
        calls = [requests.enter_if_free(ticket) for ticket in tickets]
        standings = [Standing(Place.REFUSED)] * len(tickets)
        end = len(tickets)
        started = self._io.now()
        groups, failures = await self._by_node(tickets, range(end), timeout)
        for node, indexes in groups.items():
            wanted = [index for index in indexes if index < end]
            if failures or not wanted:
                continue
            remaining = time_left(self._io, timeout, started)
            replies = await self._try_batch(node, ENTER, [calls[i] for i in wanted], remaining)
            for index, reply in zip(wanted, replies, strict=True):
                if isinstance(reply, RequestFailed):
                    failures.append(reply)
                    continue
                standings[index] = standing_of(reply)
                if standings[index].place is Place.REFUSED:
                    end = min(end, index)
        return standings, failures

    async def renew(
        self, tickets: Sequence[Ticket], timeout: float
    ) -> tuple[list[Standing | None], list[RequestFailed]]:
        """Renew what can be renewed. Returns standings and failures."""
        standings: list[Standing | None] = [None] * len(tickets)
        started = self._io.now()
        failures = await self._renew_round(tickets, standings, timeout)
        if any(first_word(failure) == "MOVED" for failure in failures):
            remaining = time_left(self._io, timeout, started)
            failures = await self._renew_round(tickets, standings, remaining)
        return standings, failures

    async def leave(
        self, tickets: Sequence[Ticket], timeout: float
    ) -> tuple[list[int | None], list[RequestFailed]]:
        """Take out released tickets. Returns 1, 0 or None (no answer) for each, and failures.

        It asks one server after the other, as `enter_free` does.
        """
        answers: list[int | None] = [None] * len(tickets)
        calls = [requests.leave(ticket, Departure.RELEASED) for ticket in tickets]
        started = self._io.now()
        failures = await self._leave_round(tickets, calls, answers, timeout)
        if any(first_word(failure) == "MOVED" for failure in failures):
            remaining = time_left(self._io, timeout, started)
            failures = await self._leave_round(tickets, calls, answers, remaining)
        return answers, failures

    async def _leave_round(
        self,
        tickets: Sequence[Ticket],
        calls: list[bytes],
        answers: list[int | None],
        timeout: float,
    ) -> list[RequestFailed]:
        """Take out the tickets that have no answer yet. Fills in answers."""
        started = self._io.now()
        unanswered = [index for index, answer in enumerate(answers) if answer is None]
        groups, failures = await self._by_node(tickets, unanswered, timeout)
        for node, indexes in groups.items():
            remaining = time_left(self._io, timeout, started)
            replies = await self._try_batch(node, LEAVE, [calls[i] for i in indexes], remaining)
            for index, reply in zip(indexes, replies, strict=True):
                if isinstance(reply, RequestFailed):
                    failures.append(reply)
                else:
                    answers[index] = reply
        return failures

    async def batch(
        self, node: Node, script: Script, calls: list[bytes], timeout: float
    ) -> list[Any]:
        """Call a script many times in one write. The answer to a call that was refused is a
        `RequestFailed`."""
        started = self._io.now()
        link = await node.take(timeout)
        try:
            left = time_left(self._io, timeout, started)
            replies = await link.ask(b"".join(calls), len(calls), left)
            if any(script_missing(reply) for reply in replies):
                # The first call brings the text. To repeat the other calls does no harm.
                again = script.with_text(b"".join(calls))
                left = time_left(self._io, timeout, started)
                replies = await link.ask(again, len(calls), left)
            return [
                self._topology.rejected(node, link, reply)
                if isinstance(reply, hiredis.ReplyError)
                else reply
                for reply in replies
            ]
        finally:
            node.give(link)

    async def _try_batch(
        self, node: Node, script: Script, calls: list[bytes], timeout: float
    ) -> list[Any]:
        """The same. If the request fails, the failure is the answer to each call."""
        try:
            return await self.batch(node, script, calls, timeout)
        except RequestFailed as error:
            self._topology.invalidate(node)
            return [error] * len(calls)

    async def _by_node(
        self, tickets: Sequence[Ticket], indexes: Iterable[int], timeout: float
    ) -> tuple[dict[Node, list[int]], list[RequestFailed]]:
        """Group tickets by the server of their name. Returns also why some have none."""
        groups: dict[Node, list[int]] = {}
        failures: list[RequestFailed] = []
        for index in indexes:
            name = tickets[index].name
            try:  # mostly known, and there may be thousands of tickets: no coroutine for each
                node = self._topology.known(name) or await self._topology.node(name, timeout)
            except Unserved as error:
                failures.append(error)
            except RequestFailed as error:
                return {}, [*failures, error]
            else:
                groups.setdefault(node, []).append(index)
        return groups, failures

    async def _renew_round(
        self, tickets: Sequence[Ticket], standings: list[Standing | None], timeout: float
    ) -> list[RequestFailed]:
        """Renew the tickets that have no standing yet, at all their servers at the same time."""
        started = self._io.now()
        unanswered = (index for index, standing in enumerate(standings) if standing is None)
        groups, failures = await self._by_node(tickets, unanswered, timeout)
        timeout = time_left(self._io, timeout, started)
        parts = [
            self._renew_at(node, tickets, indexes, standings, failures, timeout)
            for node, indexes in groups.items()
        ]
        # At the same time: a node that hangs must not use up the time of the others.
        others = [self._io.spawn(part, "fencelock-renew") for part in parts[1:]]
        if parts:
            await parts[0]
        for other in others:
            await other.join()
        return failures

    async def _renew_at(
        self,
        node: Node,
        tickets: Sequence[Ticket],
        indexes: list[int],
        standings: list[Standing | None],
        failures: list[RequestFailed],
        timeout: float,
    ) -> None:
        """Renew the tickets of one server in one write. Fills in standings and failures."""
        calls = [requests.renew(tickets[i]) for i in indexes]
        replies = await self._try_batch(node, RENEW, calls, timeout)
        for index, reply in zip(indexes, replies, strict=True):
            if isinstance(reply, RequestFailed):
                failures.append(reply)
            else:
                standings[index] = standing_of(reply)
