"""detect: find out who waits for whom, and let the youngest of a circle give way.

Whoever waits says so with a *signpost*: a name of its transaction, whose note says what it waits for. So
one can walk from the transactions ahead to what these wait for, and on, until one comes upon oneself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fencelock.core.backoff import Backoff
from fencelock.core.deadlock import Stamp, ahead
from fencelock.core.ticket import Owner, Ticket
from fencelock.primitives.kept import Kept
from fencelock.primitives.policies import Policy
from fencelock.primitives.waiting import new_id, stand, withdraw


class Waiting(NamedTuple):
    """One transaction in a circle."""

    owner: Owner
    name: str
    """What it waits for, which the next one in the circle has, or waits for ahead of it."""
    stamp: Stamp


class Detect(Policy):
    """Wait; from time to time look for a circle, and give way if one is the youngest in it."""

    _signpost: Kept | None = None
    _look_at = math.inf

    async def attend(self, kept: Kept) -> float:
        if not self._transaction.age:
            self._transaction.age = kept.fence
        if self._signpost is None:
            await self._put_up(kept)
        elif self._now() >= self._look_at:
            cycle = await self._find(kept)
            # What was read one after the other need not have been true at one moment: look twice.
            if cycle and await self._find(kept) == cycle:
                youngest = max((one.stamp.age, one.stamp.id) for one in cycle)
                if youngest == (self._transaction.age, self._transaction.id):
                    raise self._victim(kept.ticket.name, _told(cycle), cycle)
            self._look_at = self._now() + self._pause.next()
        return self._look_at

    async def settle(self) -> None:
        signpost, self._signpost = self._signpost, None
        if signpost is not None:
            await withdraw(self._keeper, signpost, 0.0)

    async def _put_up(self, kept: Kept) -> None:
        note = f"{kept.fence} {kept.ticket.name}"
        owner = kept.ticket.owner._replace(data=note)
        ticket = Ticket(_signpost_of(self._transaction.id), new_id(), kept.ticket.ttl, owner)
        self._signpost = signpost = Kept(ticket, object(), kept.flexible)
        self.undo.append(signpost)
        await stand(self._keeper, signpost)
        self._pause = Backoff(0.1, 2.0, self._keeper.io.random)
        self._look_at = self._now() + self._pause.next()

    async def _find(self, kept: Kept) -> list[Waiting]:
        """The circle that this transaction stands in, itself first; empty if there is none."""
        ticket = kept.ticket
        start = Waiting(
            ticket.owner._replace(data=""), ticket.name, self._transaction.stamp._replace(attempt=0)
        )
        paths = [([start], kept.fence)]
        visited = {start.stamp.id}
        while paths:
            path, fence = paths.pop()
            seen = await self._inspect(path[-1].name)
            for contender, stamp in ahead(seen, fence):
                if stamp.id == start.stamp.id:
                    return path
                if stamp.id in visited:
                    continue
                visited.add(stamp.id)
                signs = (await self._inspect(_signpost_of(stamp.id))).holders
                if signs:
                    number, _, name = signs[0].owner.data.partition(" ")
                    step = Waiting(
                        contender.owner._replace(data=""), name, stamp._replace(attempt=0)
                    )
                    paths.append(([*path, step], int(number)))
        return []


def _signpost_of(id: str) -> str:
    return f"tx {id} (waits)"


def _told(cycle: list[Waiting]) -> str:
    steps = [f"{one.owner} (transaction {one.stamp.id}) waits for {one.name!r}" for one in cycle]
    return f"a deadlock: {', behind '.join(steps)}, behind {cycle[0].owner}"
