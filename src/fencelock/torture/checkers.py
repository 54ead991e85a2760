"""The invariants: what must be true of every run, whatever the network and the clocks did.

No invariant says that two processes never both *think* they hold a lock after an engine has lost its
memory: no system can promise that. Then the promise is that no stale write is accepted. Each checker
yields a sentence for each violation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from fencelock.observe.events import Granted, Lost
from fencelock.primitives.claim import EVICTED, EXPIRED, OVERHELD, RAN_OUT
from fencelock.primitives.schedule import RENEW_AT
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import MIN_TIMEOUT
from fencelock.torture import promises
from fencelock.torture.history import Attempt, History, Stay
from fencelock.torture.promises import no_lost_update, no_stale_write, one_believer
from fencelock.torture.records import Violation
from fencelock.torture.storage import GuardedCounters
from fencelock.torture.stories import odd_stories

# All in seconds.
_PROMPT = 0.01
"""What happens "at once" may take a few steps of the process."""
_HANDOFF = 0.05
"""From the start of a release until the next ticket holds, when no message is lost."""
_CLEANUP = 0.5
"""How long the clean-up of an attempt may take, beyond a quarter of its ttl."""

Checker = Callable[[History, GuardedCounters], Iterator[str | Violation]]


def fences_grow(history: History, counters: GuardedCounters) -> Iterator[str | Violation]:
    """Fences strictly grow in the order of admission, also when the engine lost its memory."""
    newest: dict[str, int] = {}
    for stay in history.admissions:
        if stay.fence <= newest.get(stay.name, 0):
            yield f"{stay.name}: fence {stay.fence} was admitted after {newest[stay.name]}"
        newest[stay.name] = max(stay.fence, newest.get(stay.name, 0))
    yield from promises.fences_grow(history, counters)


def first_come_first_served(history: History, counters: GuardedCounters) -> Iterator[str]:
    """No ticket that stays in the queue is overtaken."""
    for stay in history.admissions:
        for other in history.stays:
            if (
                other.name == stay.name
                and other.joined < stay.joined
                and other.admitted > stay.admitted
                and other.left > stay.admitted + promises.ROUNDING
            ):
                yield f"{stay.name}: {stay.label} was admitted before {other.label}, which came first"


def loss_is_noticed(history: History, counters: GuardedCounters) -> Iterator[str]:
    """A lease that is not renewed is lost at its deadline and not later, and its holder is told."""
    for grant in history.grants:
        for oddity in sorted(set(grant.oddities)):
            yield f"{grant} {oddity}"
        awake = history.awake_at(grant.attempt.process, grant.believed_until, _PROMPT)
        due = awake + _PROMPT
        if awake > grant.believed_until:
            # The process may have been stopped while it sent a renewal. Then it waits for the answer
            # first; check() does not.
            due += grant.lease.ttl * RENEW_AT
        if min(grant.closed, grant.told) > due and due < history.ended_at:
            late = min(grant.closed, grant.told) - grant.believed_until
            yield f"{grant} was told {late:.4f} s after its deadline that it is lost"


def no_loss_without_cause(history: History, counters: GuardedCounters) -> Iterator[str]:
    """A lease is not lost unless the engine forgot it or could not be reached in time."""
    for grant in history.grants:
        if grant.told > grant.closed or grant.told == math.inf:
            continue
        name = grant.attempt.name
        if grant.reason == EVICTED and not history.forgot(name, grant.attempt.started, grant.told):
            yield f"{grant} was told that the engine has forgotten it, which is not so"
        elif grant.reason in (OVERHELD, RAN_OUT):
            continue  # `bounds_are_kept`
        elif grant.reason != EVICTED and grant.granted > history.settled_at:
            yield f"{grant} was lost although nothing was wrong: {grant.reason}"


def bounds_are_kept(history: History, counters: GuardedCounters) -> Iterator[str]:
    """A lease ends by its `max_hold`, neither sooner nor later, and runs out only if nobody renews it."""
    for grant in history.grants:
        attempt = grant.attempt
        most = math.inf if attempt.max_hold is None else attempt.max_hold / attempt.rate
        if grant.believed_until > grant.granted + most + promises.ROUNDING:
            yield f"{grant} was believed for longer than its max_hold"
        if grant.reason == OVERHELD and grant.told < grant.granted + most - _PROMPT:
            yield f"{grant} was lost to its max_hold before the time"
        if grant.reason == RAN_OUT and attempt.renew:
            yield f"{grant} ran out, although it was to be renewed"


def nothing_leaked(history: History, counters: GuardedCounters) -> Iterator[str]:
    """Nothing is left of an attempt that is over, and no ticket that still waits is forgotten."""
    yield from history.leftovers
    for stay in history.stays:
        attempt = history.attempts[stay.label]
        if stay.by != "entered":
            yield f"{stay.name}: {attempt.label} was put into the queue although it did not ask"
        if attempt.process in history.crashes:
            continue
        # Without faults a ticket stays exactly as long as it is wanted.
        gone = min(stay.left, stay.expires)
        closed = history.closed.get(attempt.process, math.inf)
        # A request that was on its way or lost when its client closed can't be cleaned up.
        stray = closed < history.settled_at or (closed < math.inf and stay.joined > attempt.ended)
        if attempt.ended < math.inf and not stray and not stay.again:
            wanted_until = max(attempt.ended, history.settled_at, stay.joined)
            allowed = min(wanted_until + attempt.ttl / 4 + _CLEANUP, closed)
            if gone > allowed:
                yield f"{stay.name}: {attempt.label} stayed in the queue after it was over"
        elapsed = stay.left - history.settled_at
        forgotten = stay.cause == "expired" and elapsed > attempt.ttl and attempt.ended > stay.left
        if forgotten and attempt.renew:
            yield f"{stay.name}: {attempt.label} was forgotten while it was still wanted"


def progress(history: History, counters: GuardedCounters) -> Iterator[str]:
    """When the faults have stopped, every live worker gets the lock within its ttl and a bit."""
    attempts = history.attempts.values()
    longest = max((attempt.ttl for attempt in attempts), default=0.0)
    veterans = [attempt for attempt in attempts if attempt.started < history.calm_at]
    ends = [attempt.ended for attempt in veterans if attempt.ended < math.inf]
    aftermath = max([history.settled_at + longest, *ends])
    for attempt in attempts:
        if attempt.process in history.crashes:
            continue
        if attempt.outcome == "unfinished":
            yield f"{attempt.name}: {attempt.label} of {attempt.process} never ended"
            continue
        if attempt.last and attempt.outcome not in ("done", "lost", "closed"):
            yield f"{attempt.name}: {attempt.label} did not get the lock but {attempt.outcome}"
        if attempt.outcome == "engine error" and attempt.started > history.settled_at:
            yield f"{attempt.name}: {attempt.label} met an engine error although nothing was wrong"
        if attempt.outcome in ("cancelled", "closed"):
            continue
        waited, handoffs = _idle_wait(history, attempt)
        bound = handoffs * _HANDOFF
        if any(
            stay.name == attempt.name and history.attempts[stay.label].ended < stay.joined
            for stay in history.stays
        ):
            bound += longest  # a late request put in a ticket that ended only with its ttl
        if attempt.started < aftermath:
            # What is left of the faults: requests that hang, tickets of crashed processes, and waiters
            # whose wake-up will never come because the engine forgot where to send it.
            bound += longest + history.settled_at - history.calm_at
        if waited > bound:
            yield (
                f"{attempt.name}: {attempt.label} of {attempt.process} waited {waited:.3f} s "
                "although nobody held the lock"
            )


def _idle_wait(history: History, attempt: Attempt) -> tuple[float, int]:
    """How long an attempt waited after the faults while nobody held, and the number of hand-offs."""
    cursor = max(attempt.started, history.calm_at)
    idle, handoffs = 0.0, 1
    for grant in history.grants:
        if grant.attempt.name != attempt.name or grant.granted >= attempt.got:
            continue
        if grant.closed > cursor:
            idle += max(0.0, grant.granted - cursor)
            cursor = max(cursor, min(grant.closed, attempt.got))
            handoffs += 1
    return idle + max(0.0, attempt.got - cursor), handoffs


def within_budget(history: History, counters: GuardedCounters) -> Iterator[str]:
    """An acquire ends within its timeout, and a frozen engine is reported soon."""
    joined = {stay.label for stay in history.stays}
    for attempt in history.attempts.values():
        if attempt.outcome in ("cancelled", "closed", "unfinished"):
            continue
        budget = attempt.timeout
        if attempt.outcome == "engine error" and attempt.label not in joined:
            budget = min(budget, REQUEST_TIMEOUT)
        if attempt.timeout == 0.0:
            budget = REQUEST_TIMEOUT  # one request, but a true answer
        # The last look, the clean-up and the question for the holder may all hang.
        allowed = _HANDOFF if attempt.started > history.settled_at else 3 * MIN_TIMEOUT
        allowed += sum(end - start for start, end in history.pauses.get(attempt.process, ()))
        over = attempt.got - attempt.started - budget / attempt.rate - allowed
        if over > _PROMPT:
            yield f"{attempt.name}: {attempt.label} overran its timeout by {over:.3f} s"


def abandonment_is_told(history: History, counters: GuardedCounters) -> Iterator[str]:
    """A lease says that the name was abandoned if the last holder did not release, and only then."""
    expected: dict[tuple[str, int], bool] = {}
    previous: dict[str, Stay] = {}
    for stay in history.admissions:
        before = previous.get(stay.name)
        abandoned = before is not None and before.cause in ("expired", "evicted", "lost")
        if before is not None and before.cause == "withdrawn":  # it did no work, so nothing changed
            abandoned = expected[stay.name, before.fence]
        if before is not None and any(
            before.left <= wipe <= stay.admitted for wipe in history.wipes
        ):
            abandoned = False  # the engine has forgotten how it ended
        expected[stay.name, stay.fence] = abandoned
        previous[stay.name] = stay
    for grant in history.grants:
        told = expected.get((grant.attempt.name, grant.fence), grant.abandoned)
        if grant.abandoned != told:
            yield f"{grant} was told abandoned={grant.abandoned}, which is wrong"


def events_are_true(history: History, counters: GuardedCounters) -> Iterator[str]:
    """Observers hear a whole story of each ticket: one `Granted` for each grant, one `Lost` for each loss."""
    granted: Counter[tuple[str, int]] = Counter()
    lost: Counter[tuple[str, int]] = Counter()
    for process, events in history.events.items():
        for oddity in odd_stories(events, over=process not in history.crashes):
            yield f"{process}: {oddity}"
        for event in events:
            if isinstance(event, Granted):
                granted[event.owner.label, event.fence] += 1
            elif isinstance(event, Lost):
                lost[event.owner.label, event.fence] += 1
    for grant in history.grants:
        process, known = grant.attempt.process, (grant.attempt.label, grant.fence)
        if process not in history.events or process in history.crashes:
            continue
        if granted[known] != 1:
            yield f"{grant}: observers heard of {granted[known]} grants"
        if lost[known] != (grant.reason in (EVICTED, EXPIRED, OVERHELD, RAN_OUT)):
            yield f"{grant}: observers heard of {lost[known]} losses, its holder of {grant.reason!r}"


CHECKERS: tuple[Checker, ...] = (
    no_stale_write,
    no_lost_update,
    fences_grow,
    one_believer,
    first_come_first_served,
    loss_is_noticed,
    no_loss_without_cause,
    bounds_are_kept,
    nothing_leaked,
    progress,
    within_budget,
    abandonment_is_told,
    events_are_true,
)


def violations(history: History, counters: GuardedCounters) -> list[str]:
    """Everything that went wrong in a run, each with the name of the invariant that it breaks."""
    return [
        f"{checker.__name__}: {violation}"
        for checker in CHECKERS
        for violation in checker(history, counters)
    ]
