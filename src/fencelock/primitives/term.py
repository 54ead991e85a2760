"""A term of office: the lease of a leader, and its ticket at the bell."""

from __future__ import annotations

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Ticket
from fencelock.primitives.blocks import Undo
from fencelock.primitives.claim import WITHDRAWN, Claim
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.waiting import MIN_TIMEOUT, new_id, stand, withdraw


class Bell:
    """The ticket of a leader at its bell. Not a part of the term, which must be able to end without it."""

    def __init__(self, name: str, term: Claim) -> None:
        self._name = name
        self._term = term
        self._claim: Claim | None = None

    async def ring(self, undo: list[Undo]) -> None:
        """Wake the observers, and stand at the bell until there is something new."""
        term = self._term.ticket
        ticket = Ticket(self._name, new_id(), term.ttl, term.owner._replace(data=""))
        claim = Claim(self._term.context, ticket, object(), self._term.flexible, internal=True)
        undo.append(claim)
        before, self._claim = self._claim, claim
        if before is not None:
            undo.append(before)
            if before.reason is None:
                await withdraw(before, MIN_TIMEOUT)
        await stand(claim)
        if self._claim is not claim or claim.reason is not None or self._term.reason is not None:
            claim.context.give_up(claim, WITHDRAWN)  # there is something newer, or the term is over

    async def leave(self) -> None:
        """Wake the observers: the term is over."""
        if self._claim is not None and self._claim.reason is None:
            await withdraw(self._claim, MIN_TIMEOUT)
        self.give_up()  # in case `ring` was interrupted while it left

    def give_up(self) -> None:
        """Let the sweeper wake the observers."""
        if self._claim is not None:
            self._claim.context.give_up(self._claim, WITHDRAWN)


class BaseTerm(BaseLease):
    """What a term of office is, blocking or not: a lease, and a ticket at the bell."""

    _bell: Bell

    def _begin(self, bell: str) -> None:
        self._bell = Bell(bell, self._claim)
        self._on_loss(self._bell.give_up)  # if the term is lost, the observers hear of it at once

    def detach(self) -> str:
        """A term can't be handed over: its candidate leads, and nobody else."""
        raise Unsupported(
            f"the term of a leader of {self.name!r} can't be detached: resign(), and let the other process "
            "campaign",
            name=self.name,
        )

    async def _release(self, there: bool | None = None) -> None:
        try:
            await super()._release(there)
        except BaseException:
            self._bell.give_up()
            raise
        await self._bell.leave()

    def _give_up(self) -> None:
        super()._give_up()
        self._bell.give_up()

    def _drop(self) -> None:
        super()._drop()
        self._context.soon(self._bell.give_up)


class Term(BaseTerm, Lease):
    """A lease on an office. Its fence is the number of the term; its release is the resignation."""


class AsyncTerm(BaseTerm, AsyncLease):
    """A lease on an office. Its fence is the number of the term; its release is the resignation."""
