"""Limits against abuse. Each is a setting, each refusal says which limit was reached.

They count per replica. Those per principal are not for everybody: who has no name can't be told apart.
What frees something, a release or a renewal, is refused last.
"""

from __future__ import annotations

import time

from fencelock.core.errors import Unsupported
from fencelock.core.names import check_name
from fencelock.engines.http.wire import AnyAct, Enter, Leave, Names, Renew, WireTicket
from fencelock.service.ledger import Ledger, Usage
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused
from fencelock.service.settings import Settings

_COST_OF_NAMES = 100
"""A listing scans the whole engine, so it counts as so many requests."""

BURST = 2.0
"""A principal that was silent may send the requests of so many seconds at once."""


class Limits:
    """Refuses what is too much. Raises `Refused` before the engine is asked."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._burst = BURST * settings.rate

    def admit(self, act: AnyAct, principal: Principal) -> Usage:
        """Refuse an act that comes too often, or that would wait or hold too much."""
        usage = self._ledger.usage(principal)
        if principal.credential:
            kind = type(act)
            frees = kind is Leave or kind is Renew
            if kind is Enter or kind is Renew:
                cost = len(act.tickets)  # type: ignore[union-attr]
            else:
                cost = _COST_OF_NAMES if kind is Names else 1
            self._charge(principal, usage, cost, frees)
        if type(act) is Enter:
            self._admit_tickets(act, principal, usage)
        return usage

    def admit_look(self, principal: Principal) -> None:
        """Refuse a request of a page that comes too often."""
        if principal.credential:
            self._charge(principal, self._ledger.usage(principal), 1, False)

    def _charge(self, principal: Principal, usage: Usage, cost: int, frees: bool) -> None:
        now = time.monotonic()
        rate = self._settings.rate
        credit = usage.credit + (now - usage.filled) * rate
        if credit > self._burst:
            credit = self._burst
        usage.filled = now
        if credit < (1.0 - self._burst if frees else 1.0):
            usage.credit = credit
            raise Refused(
                "limited",
                f"{principal.name} may send {rate} requests per second to this replica (`rate`)",
                retry_after=(1.0 - credit) / rate,
                limit="rate",
            )
        # A large request is paid for by those that follow.
        usage.credit = credit - cost

    def _admit_tickets(self, act: Enter, principal: Principal, usage: Usage) -> None:
        settings, ledger = self._settings, self._ledger
        waits = not act.if_free
        if waits and ledger.waiting >= settings.waits and _is_new(act, usage):
            detail = f"{ledger.waiting} tickets wait at this replica (`waits`)"
            raise Refused("overloaded", detail, retry_after=1.0, limit="waits")
        if not principal.credential:
            return
        held, most = len(usage.leases), settings.leases_per_principal
        if held + len(act.tickets) > most and _is_new(act, usage):
            self._refuse(principal, held, "leases", "leases_per_principal")
        most = settings.waits_per_principal
        if waits and len(usage.waits) >= most and _is_new(act, usage):
            self._refuse(principal, most, "waiting tickets", "waits_per_principal")

    def admit_park(self, principal: Principal) -> Usage:
        """Refuse a wait that would be one too many. Otherwise the caller counts it in `parks`."""
        usage, most = self._ledger.usage(principal), self._settings.waits_per_principal
        if principal.credential and usage.parks >= most:
            self._refuse(principal, most, "waiting requests", "waits_per_principal")
        return usage

    def _refuse(self, principal: Principal, count: int, what: str, setting: str) -> None:
        raise Refused(
            "limited",
            f"{principal.name} has {count} {what} at this replica (`{setting}`)",
            retry_after=1.0,
            limit=setting,
        )

    def check_ticket(self, ticket: WireTicket) -> str:
        """Check the size of a name and the ttl. Returns the name as the engines store it."""
        least, most = self._settings.min_ttl, self._settings.max_ttl
        if not least <= ticket.ttl <= most:
            raise Unsupported(
                f"the ttl must be between {least:g} and {most:g} seconds at this service, "
                f"not {ticket.ttl:g} (`min_ttl`, `max_ttl`)",
                longest_ttl=most if ticket.ttl > most else None,
            )
        return self.check_name(ticket.name)

    def check_name(self, name: str) -> str:
        """Check the size of a name. Returns the name as the engines store it."""
        most = self._settings.max_name
        if 0 < len(name) <= most and name.isascii() and name.isprintable():
            return name  # nearly always
        name = check_name(name)
        if len(name) > most or (not name.isascii() and len(name.encode()) > most):
            detail = f"names have {most} bytes at most at this service (`max_name`)"
            raise Refused("too-large", detail, limit="max_name")
        return name

    def wait(self, seconds: float) -> float:
        """How long one request may wait. When it ends, the client asks again."""
        return min(seconds, self._settings.max_wait)


def _is_new(act: Enter, usage: Usage) -> bool:
    """Whether a ticket is not known here: one that is, only looks again."""
    return any(each.id not in usage.leases and each.id not in usage.waits for each in act.tickets)
