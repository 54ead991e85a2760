"""What must be true of every run, simulated or real, whatever the network and the clocks did.

No promise says that two processes never both *think* they hold a lock after an engine has lost its
memory: no system can promise that. Then the promise is that no stale write is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fencelock.core.admission import fits
from fencelock.core.ticket import ALONE
from fencelock.torture.records import Grant, Record, Storage, Violation, Write

ROUNDING = 1e-6
"""In seconds: two moments that are as near as this are the same."""


def no_stale_write(record: Record, storage: Storage) -> Iterator[Violation]:
    """A store that checks fences never accepts a write that is older than one it has accepted."""
    newest: dict[str, Write] = {}
    for write in storage.writes:
        if not write.accepted:
            continue
        before = newest.get(write.name)
        if before is not None and (
            write.fence < before.fence
            or (write.fence == before.fence and write.holder != before.holder)
        ):
            text = (
                f"{write.name}: a write with fence {write.fence} was accepted after {before.fence}"
            )
            yield Violation(text, (before, write))
        newest[write.name] = write


def no_lost_update(record: Record, storage: Storage) -> Iterator[Violation]:
    """Read, add one, write: every accepted write adds to the very value that it replaced."""
    latest: dict[str, list[Write]] = {name: [] for name in record.names}
    for write in storage.writes:
        if write.accepted:
            if write.value != write.replaced + 1:
                text = (
                    f"{write.name}: {write.replaced} was replaced by {write.value} "
                    f"(fence {write.fence}), so an update is lost"
                )
                yield Violation(text, (*latest[write.name][-1:], write))
            latest[write.name].append(write)
    for name, accepted in latest.items():
        total, acknowledged = storage.value(name), record.acknowledged(name)
        if not acknowledged <= total == len(accepted):
            text = f"{name}: counts to {total} after {acknowledged} acknowledged increments"
            yield Violation(text, accepted[-1:])


def fences_grow(record: Record, storage: Storage) -> Iterator[Violation]:
    """A fence is above all fences that were granted before its ticket was made.

    Among leases that exclude one another it is above all that were granted before.
    """
    for name in record.names:
        grants = [grant for grant in record.grants if grant.attempt.name == name]
        yield from _fell(record, grants)
        yield from _not_above_those_before(record, grants)


def _fell(record: Record, grants: list[Grant]) -> Iterator[Violation]:
    before: Grant | None = None
    for grant in grants:
        if grant.attempt.share != ALONE:
            continue
        if before is not None and grant.fence <= before.fence:
            # A waiter that was admitted can learn of it after a wipe has let another one in.
            name, since = grant.attempt.name, grant.attempt.started
            if grant.fence == before.fence or not record.forgot(name, since, grant.granted):
                text = f"{name}: {grant} was granted after {before}"
                yield Violation(text, (before, grant))
        before = grant


def _not_above_those_before(record: Record, grants: list[Grant]) -> Iterator[Violation]:
    """Also for leases that are held together, whose holders learn of them in any order."""
    newest: Grant | None = None
    granted = iter(grants)
    following = next(granted, None)
    for grant in sorted(grants, key=lambda grant: grant.attempt.started):
        while following is not None and following.granted < grant.attempt.started:
            if newest is None or following.fence > newest.fence:
                newest = following
            following = next(granted, None)
        if newest is not None and grant.fence <= newest.fence:
            text = f"{grant.attempt.name}: {grant} asked after {newest} was granted"
            yield Violation(text, (newest, grant))


def one_believer(record: Record, storage: Storage) -> Iterator[Violation]:
    """While a holder relies on its lease, the engine admits no other ticket that does not fit beside it.

    This is true without a guard, if the clocks stay within their drift and the engine forgets nothing.
    """
    for name in record.names:
        grants = [grant for grant in record.grants if grant.attempt.name == name]
        holding: list[Grant] = []
        for later in sorted(grants, key=record.admitted):
            moment = record.admitted(later)
            holding = [each for each in holding if each.believed > moment + ROUNDING]
            if not fits(later.attempt.share, [each.attempt.share for each in holding]):
                since = min(each.attempt.started for each in holding)
                if not record.forgot(name, since, moment):
                    until = max(each.believed for each in holding if each is not later)
                    yield Violation(_overlap(holding, later, until - moment), (*holding, later))
            holding.append(later)


def _overlap(holding: list[Grant], later: Grant, seconds: float) -> str:
    these = " and ".join(map(str, holding))
    beside = f"{seconds:.4f} s" if seconds < math.inf else "for ever"
    return (
        f"{later.attempt.name}: {these} relied on the lease for {beside} after {later} was admitted"
    )
