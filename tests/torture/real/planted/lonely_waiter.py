"""A worker whose waiting tickets are not renewed: not by the keeper, and not by looking again."""

import math

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.redis.engine import RedisEngine
from fencelock.primitives.claim import Claim
from fencelock.primitives.context import Context
from fencelock.torture.real.worker import Worker, main

enter = RedisEngine.enter


def keep(self: Context, claim: Claim) -> None:
    """It should renew the ticket from now on."""


async def planted(self: RedisEngine, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
    standing = await enter(self, ticket, if_free=if_free, timeout=timeout)
    return standing._replace(recheck=math.inf) if standing.place is Place.WAITING else standing


class Impatient(Worker):
    def _patience(self) -> float:
        return 4 * self.job.ttl  # a test has no time to wait for a ticket that is gone


if __name__ == "__main__":
    Context.keep = keep  # type: ignore[method-assign]
    RedisEngine.enter = planted  # type: ignore[method-assign]
    main(Impatient)
