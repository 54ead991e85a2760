"""The one rule under all primitives: who in a queue of tickets may hold.

The first in the queue is admitted when it fits beside those who hold, then the next, and so on until
one does not fit: nobody overtakes one who waits. A ticket fits if nobody holds, or if all who hold are
of its own group and the group has permits left for it:

- mutex and writer: no group, so they hold alone;
- readers: one group, and there is always room;
- semaphore(n): a group with n permits, of which a ticket takes one or more. Another n is another group.

Order of arrival is order of admission, so the order number serves as the fence.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Share


def fits(share: Share, holding: Sequence[Share]) -> bool:
    """Whether a ticket may hold beside those who hold now. They are of one group, for each fitted."""
    if not holding:
        return True
    if not share.group or share.group != holding[0].group:
        return False
    return sum(other.weight for other in holding) + share.weight <= share.permits
