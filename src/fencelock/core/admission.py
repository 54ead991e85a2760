"""The rule under all primitives: which tickets in the queue of a name may hold it.

Tickets are admitted from the front of the queue. The first ticket is admitted if it fits beside the
current holders, then the second, and so on. Admission stops at the first ticket that does not fit, so no
ticket overtakes a waiting one.

A ticket fits if nobody holds the name. It also fits if all holders belong to its own group and the group
has enough permits left. The group of a ticket says what kind of lock it is (`ticket.Share`):

- A mutex and a writer have no group. They hold alone.
- Readers are one group. Their weight is 0, so any number of readers fits.
- The holders of a semaphore are a group with a number of permits. Each holder takes one or more of them.
  Semaphores with different numbers of permits are different groups.
- The tickets of a rate are a group of the same kind. Once admitted they are never renewed, and nobody
  releases them: they expire after a fixed time (`Share.lasts`). So there are never more admissions in any
  span of that length than the group has permits.

The order of arrival is the order of admission. That is why a ticket's order number can serve as its fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencelock.core.ticket import Share


def fits(share: Share, holding: Sequence[Share]) -> bool:
    """Whether a ticket may hold beside the current holders.

    The current holders always belong to one group, because each of them passed this test.
    """
    if not holding:
        return True
    if not share.group or share.group != holding[0].group:
        return False
    return sum(other.weight for other in holding) + share.weight <= share.permits


def room_at(share: Share, holding: Iterable[tuple[Share, float]]) -> float:
    """When enough holders of a rate have expired for one more ticket; at least one of them has to.

    `holding`: the holders and when each expires, the first to expire first. If they are another group, the
    first of them counts: nobody knows which of those will be renewed.
    """
    holders = list(holding)
    used = sum(other.weight for other, _ in holders)
    for other, expires in holders:
        used -= other.weight
        if other.group != share.group or used + share.weight <= share.permits:
            return expires
    return holders[-1][1]
