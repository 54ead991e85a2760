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

The order of arrival is the order of admission. That is why a ticket's order number can serve as its fence.
"""

from __future__ import annotations

from collections.abc import Sequence

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
