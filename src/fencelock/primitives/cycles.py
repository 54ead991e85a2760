"""detect: find out which transaction waits for which, and let the youngest of a circle give way.

A transaction that waits puts up a *signpost*: it holds a name of its own, and `Owner.data` there says what it
waits for. So a transaction can walk from the transactions ahead of it to what these wait for, and on. If it
comes upon itself, that is a circle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fencelock.core.backoff import Backoff
from fencelock.core.deadlock import Stamp, ahead, signpost_of
from fencelock.core.ticket import Owner, Ticket
from fencelock.primitives.claim import Claim
from fencelock.primitives.policies import Policy
from fencelock.primitives.waiting import new_id, stand, withdraw


class Waiting(NamedTuple):
    """One transaction in a circle."""

    owner: Owner
    name: str
    """What it waits for. The next transaction in the circle holds that, or waits for it ahead of this one."""
    stamp: Stamp


class Detect(Policy):
    """Wait. From time to time look for a circle; the youngest transaction in it gives way."""

    _signpost: Claim | None = None
    _look_at = math.inf

    async def attend(self, claim: Claim) -> float:
        if not self._transaction.age:
            self._transaction.age = claim.fence
        if self._signpost is None:
            await self._put_up(claim)
        elif claim.context.io.now() >= self._look_at:
            cycle = await self._find(claim)
            # Its parts were read one after the other, so it may never have existed as a whole: look twice.
            if cycle and await self._find(claim) == cycle:
                youngest = max((one.stamp.age, one.stamp.id) for one in cycle)
                if youngest == (self._transaction.age, self._transaction.id):
                    raise self._victim(claim.ticket.name, _told(cycle), cycle)
            self._look_at = claim.context.io.now() + self._pause.next()
        return self._look_at

    async def settle(self) -> None:
        signpost, self._signpost = self._signpost, None
        if signpost is not None:
            await withdraw(signpost, 0.0)

    async def _put_up(self, claim: Claim) -> None:
        ticket, io = claim.ticket, claim.context.io
        owner = ticket.owner._replace(data=f"{claim.fence} {ticket.name}")
        sign = Ticket(signpost_of(self._transaction.id), new_id(), ticket.ttl, owner)
        self._signpost = signpost = Claim(
            claim.context, sign, object(), claim.flexible, internal=True
        )
        self.undo.append(signpost)
        await stand(signpost)
        self._pause = Backoff(0.1, 2.0, io.random)
        self._look_at = io.now() + self._pause.next()

    async def _find(self, claim: Claim) -> list[Waiting]:
        """The circle that this transaction stands in, itself first. Empty if there is none."""
        ticket = claim.ticket
        start = Waiting(
            ticket.owner._replace(data=""), ticket.name, self._transaction.stamp._replace(attempt=0)
        )
        paths = [([start], claim.fence)]
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
                signs = (await self._inspect(signpost_of(stamp.id))).holders
                if signs:
                    number, _, name = signs[0].owner.data.partition(" ")
                    step = Waiting(
                        contender.owner._replace(data=""), name, stamp._replace(attempt=0)
                    )
                    paths.append(([*path, step], int(number)))
        return []


def _told(cycle: list[Waiting]) -> str:
    steps = [f"{one.owner} (transaction {one.stamp.id}) waits for {one.name!r}" for one in cycle]
    return f"a deadlock: {', behind '.join(steps)}, behind {cycle[0].owner}"
