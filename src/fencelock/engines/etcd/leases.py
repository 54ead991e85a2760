"""etcd's leases, on which tickets live: granted once, shared by all tickets of a ttl, kept alive.

A ticket's own ttl is counted by whoever stands behind it. The lease is what frees the tickets of a
process that died when nobody watched. It always outlives what was promised to its tickets.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.messages_pb2 import (
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
)
from fencelock.engines.etcd.troubles import CallFailed, LeaseGone
from fencelock.engines.etcd.wire import GRANT, KEEP_ALIVE, REVOKE, TIME_TO_LIVE, Method
from fencelock.io.contract import IO, Event

SPARE = 5
"""Seconds by which a lease is longer than the ttl of its tickets: so often it has to be kept alive."""

_DAY = 86_400
_TRACES = 2 * _DAY
"""Seconds that the lease for traces lives: it is used for its first day, so each trace for one more."""

_CLOSING = 1.0
"""Seconds that the end of a client may take."""


class Lease:
    """One lease. Its id is made here, so that a grant whose reply was lost can be repeated."""

    __slots__ = ("id", "seconds", "until")

    def __init__(self, seconds: int, id: int = 0) -> None:
        self.id = id or secrets.randbits(62) | 1
        self.seconds = seconds
        self.until = -math.inf
        """Until when it lives for sure, on our clock."""


class Leases:
    """The leases of one client, by their length."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self._cluster = cluster
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._leases: dict[int, Lease] = {}
        self._traces: Lease | None = None
        self._granting: dict[int, Event] = {}

    async def any_for(self, ttl: float, until: float) -> Lease:
        """The lease for tickets with this ttl, which may have to be kept alive: see `stale`."""
        return await self._obtain(math.ceil(ttl) + SPARE, until)

    async def covering(self, ttl: float, until: float) -> Lease:
        """A lease that a ticket can count on for a ttl from now."""
        return await self._fresh(math.ceil(ttl) + SPARE, ttl, until)

    async def traces(self, until: float) -> Lease:
        """The lease for the traces that holders leave: one a day, for all clients together.

        A client that ends without a word, like the one whose trace it is, must not leave a lease each.
        """
        id = trace_lease(int(time.time() // _DAY))
        lease = self._traces
        if lease is None or lease.id != id:
            lease = Lease(_TRACES, id)
            try:
                await self._ask_for(lease, until)
            except CallFailed as error:
                if not _is_there(error):
                    error.outcome = "not applied"  # what it is needed for was not sent
                    raise
            self._traces = lease
        return lease

    async def own(self, keep: float, until: float) -> Lease:
        """A lease for a single thing that is to last for so many seconds, and no longer."""
        lease = Lease(math.ceil(keep))
        try:
            await self._ask_for(lease, until)
        except CallFailed as error:
            if not _is_there(error):
                error.outcome = "not applied"  # what it is needed for was not sent
                raise
        return lease

    async def end(self, lease: int, until: float) -> None:
        """End a lease and all that lives on it, by its id."""
        await self._cluster.ask(REVOKE, LeaseRevokeRequest(ID=lease), until, repeatable=True)

    async def _fresh(self, seconds: int, need: float, until: float) -> Lease:
        known = self._leases.get(seconds)
        if known is not None and not self.stale(known, need, self._io.now()):
            return known
        while True:
            lease = await self._obtain(seconds, until)
            sent = self._io.now()
            if not self.stale(lease, need, sent):
                return lease
            method, request = self.keep_alive(lease)
            try:
                answer = await self._cluster.ask(method, request, until, repeatable=True)
            except CallFailed as error:
                error.outcome = "not applied"  # what it is needed for was not sent
                raise
            self.kept(lease, answer, sent)

    def stale(self, lease: Lease, need: float, now: float) -> bool:
        """Whether it has to be kept alive to live for so long from now."""
        return lease.until < now + need

    def keep_alive(self, lease: Lease) -> tuple[Method, Any]:
        return KEEP_ALIVE, LeaseKeepAliveRequest(ID=lease.id)

    def kept(self, lease: Lease, answer: Any, sent: float) -> bool:
        """Take in the answer to a request to keep it alive; False: it does not exist any more."""
        if answer.TTL <= 0:
            self.forget(lease)
            return False
        lease.until = max(
            lease.until, sent + answer.TTL
        )  # what was granted counts, not what we asked
        return True

    def forget(self, *leases: Lease) -> None:
        """These are not there any more; whoever needs one gets another."""
        with self._mutex:
            for lease in leases:
                if self._leases.get(lease.seconds) is lease:
                    del self._leases[lease.seconds]
                elif self._traces is lease:
                    self._traces = None

    async def revoke(self) -> None:
        """Give back the leases on which nothing lives. The others end by themselves."""
        until = self._io.now() + _CLOSING
        with self._mutex:
            leases = list(self._leases.values())
            self._leases.clear()
        with suppress(CallFailed):
            asked: list[tuple[Method, Any]] = [
                (TIME_TO_LIVE, LeaseTimeToLiveRequest(ID=lease.id, keys=True)) for lease in leases
            ]
            answers = await self._cluster.ask_all(asked, until)
            await self._cluster.ask_all(_unused(leases, answers), until)

    async def _obtain(self, seconds: int, until: float) -> Lease:
        while True:
            lease = self._leases.get(seconds)
            if lease is not None and lease.until > self._io.now():
                return lease
            mine = self._io.event()
            try:
                with self._mutex:
                    granting = self._granting.setdefault(seconds, mine)
                    if granting is mine:
                        lease = self._leases.setdefault(seconds, Lease(seconds))
                if lease is not None and granting is mine:
                    granted = lease.until > self._io.now()  # just now, by another one
                    return lease if granted else await self._grant(lease, until)
            finally:
                # Also if this one was interrupted before it began, for others wait for it. Without a call of
                # any method, so that no second interruption can come between.
                if seconds in self._granting and self._granting[seconds] is mine:
                    del self._granting[seconds]
                mine.set()
            if not await granting.wait(until - self._io.now()):
                raise CallFailed("no answer to a request for a lease", "not applied")

    async def _grant(self, lease: Lease, until: float) -> Lease:
        try:
            while True:
                sent = self._io.now()
                try:
                    answer = await self._ask_for(lease, until)
                except CallFailed as error:
                    if not _is_there(error):
                        raise
                    # An earlier request, of which we heard nothing, has arrived.
                    method, again = self.keep_alive(lease)
                    answer = await self._cluster.ask(method, again, until, repeatable=True)
                if self.kept(lease, answer, sent):
                    await self.traces(until)  # now, as long as those who come next wait for us
                    return lease
                lease = self._replaced(lease)
        except CallFailed as error:
            error.outcome = "not applied"  # what it was needed for was not sent
            raise

    async def _ask_for(self, lease: Lease, until: float) -> Any:
        request = LeaseGrantRequest(TTL=lease.seconds, ID=lease.id)
        return await self._cluster.ask(GRANT, request, until, repeatable=True)

    def _replaced(self, lease: Lease) -> Lease:
        with self._mutex:
            new = self._leases[lease.seconds] = Lease(lease.seconds)
        return new


@lru_cache(2)
def trace_lease(day: int) -> int:
    """The id of a day's lease for traces, the same for everybody."""
    return int.from_bytes(sha256(f"fencelock traces {day}".encode()).digest()[:8], "big") >> 2


def _is_there(error: CallFailed) -> bool:
    return "already exists" in str(error)


def _unused(leases: Iterable[Lease], answers: Iterable[Any]) -> list[tuple[Method, Any]]:
    return [
        (REVOKE, LeaseRevokeRequest(ID=lease.id))
        for lease, answer in zip(leases, answers, strict=True)
        if not isinstance(answer, CallFailed | LeaseGone) and not answer.keys
    ]
