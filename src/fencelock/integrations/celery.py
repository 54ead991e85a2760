"""Celery: tasks that run one at a time, and one beat for many machines."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Literal, Unpack

from celery import current_task

from fencelock.client import Client, Options
from fencelock.core.errors import EngineError, FencelockError, LeaseLost, LockTimeout
from fencelock.io.clock import now
from fencelock.primitives.election import Election
from fencelock.primitives.locked import Call, Decorator
from fencelock.primitives.term import Term

log = logging.getLogger("fencelock.celery")


def locked_task(
    client: Client,
    name: str,
    *,
    held: Literal["retry", "skip"] = "retry",
    **options: Unpack[Options],
) -> Decorator:
    """Decorate the function of a task: it runs under a lock, and does not occupy a worker while it waits.

    `name` and the parameter `lease` are as for `client.locked`, and so are the options, but `timeout` is 0
    if not given. If the lock is not free in time, the task is put back with Celery's own `retry`: the task's
    `default_retry_delay` and `max_retries` decide when and how often. With `held="skip"` the task ends
    instead, and its result is None.
    """
    if held not in ("retry", "skip"):
        raise ValueError(f"held must be 'retry' or 'skip', not {held!r}")
    options = {"timeout": 0.0, **options}
    client.lock("any name", **options)  # a wrong option is refused here

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        call = Call(name, function)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            began = False
            try:
                with client.lock(call.name(args, kwargs), **options) as lease:
                    began = True
                    args, kwargs = call.add_lease(args, kwargs, lease)
                    return function(*args, **kwargs)
            except LockTimeout as error:
                # It may be about another lock, or there may be no worker.
                if began or not current_task:
                    raise
                if held == "retry":
                    raise current_task.retry(exc=error) from error
                log.info("skipped: %s", error)
                return None

        return call.describe(wrapper)

    return decorate


class ElectedBeat:
    """Celery's beat on many machines: each keeps the schedule, and only the leader sends tasks.

    Mix it with any scheduler, and give it a candidate:

        class Beat(ElectedBeat, PersistentScheduler):
            election = client.election("beat", ttl=15)

    What comes due while another beat leads is left to that beat. But if that beat dies, nobody knows whether
    it was still sent. So the next leader sends what came due after the last sign of life: at least once.
    """

    election: Election

    look_every = 5.0
    """Seconds after which a beat that does not lead tries again."""

    patience = 1.0
    """Seconds for which a task that is due is left to the leader. If the leader resigns meanwhile, it may not
    have sent the task, so the next leader does."""

    _term: Term | None = None
    _leader_until = math.inf
    """When it will be clear that the leader of now was alive now; infinite if nobody is known to lead."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._owed: dict[str, tuple[Any, float]] = {}
        """What came due while this beat did not lead, each with the `_leader_until` of that moment."""
        self._left: dict[str, float] = {}
        """What is due and left to the leader for the moment, each with the time when that is over."""
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the next task that is due, if this beat leads. Returns how long to sleep."""
        if not self._leads():
            self._campaign()
        interval: float = super().tick(*args, **kwargs)  # type: ignore[misc]  # the scheduler's
        return interval if self._term is not None else min(interval, self.look_every)

    def is_due(self, entry: Any) -> tuple[bool, float]:
        """Whether a task is due, and when to look again. A beat that does not lead is a little behind."""
        due, again = super().is_due(entry)  # type: ignore[misc]
        if due and not self._leads():
            moment = now()
            if moment < self._left.setdefault(entry.name, moment + self.patience):
                return False, self.patience
        self._left.pop(entry.name, None)
        return due, again

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send a task that is due, if this beat leads at this moment."""
        if self._leads():
            super().apply_entry(entry, producer)  # type: ignore[misc]
        else:
            self._owed[entry.name] = (entry, self._leader_until)

    def close(self) -> None:
        """Resign: another beat takes over at its next look."""
        term, self._term = self._term, None
        try:
            if term is not None:
                term.release()
        except FencelockError as error:  # given up; or a signal came in the middle of a request
            log.warning("beat could not resign in order: %s", error)
        finally:
            super().close()  # type: ignore[misc]

    def _leads(self) -> bool:
        if self._term is None:
            return False
        try:
            self._term.check()
        except LeaseLost as error:
            log.error("this beat sends no more tasks: %s", error)
            self._term, self._leader_until = None, math.inf
            return False
        return True

    def _campaign(self) -> None:
        """Lead if nobody does. Never waits: the schedule must be kept in the meantime."""
        try:
            self._term = self.election.campaign(timeout=0)
        except LockTimeout as error:
            ends = error.holder.expires_in if error.holder else 0.0
            # Some engines need another look or two to find that a lease has expired.
            self._leader_until = now() + ends + 2 * self.look_every
            # If it leads for longer than was known then, it was alive when the task came due, and sent it.
            self._owed = {
                name: (entry, min(until, self._leader_until))
                for name, (entry, until) in self._owed.items()
                if until > now()
            }
        except EngineError as error:
            log.warning("no task is sent, because nobody can be elected: %s", error)
            self._leader_until = math.inf
        else:
            self._elected(self._term)

    def _elected(self, term: Term) -> None:
        log.info("this beat leads, term %s", term.fence)
        owed, self._owed = self._owed, {}
        for entry, until in owed.values():
            if term.abandoned or until == math.inf:
                self.apply_entry(entry, self.producer)  # type: ignore[attr-defined]
