"""etcd's leases, on which tickets live: granted once, shared by all tickets of a ttl, kept alive.

A ticket's own ttl is counted by whoever stands behind it. The lease is what frees the tickets of a
process that died when nobody watched. It always outlives what was promised to its tickets.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from holdfast.engines.etcd.cluster import Cluster
from holdfast.engines.etcd.messages_pb2 import (
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
)
from holdfast.engines.etcd.troubles import Broken, LeaseGone
from holdfast.engines.etcd.wire import GRANT, KEEP_ALIVE, REVOKE, TIME_TO_LIVE, Method
from holdfast.io.contract import IO, Event

SPARE = 5
"""Seconds by which a lease is longer than the ttl of its tickets: so often it has to be kept alive."""

TRACES = 86_400
"""Seconds for which it is known that a holder died: as long lives the lease of its trace."""

_CLOSING = 1.0
"""Seconds that the end of a client may take."""


class Lease:
    """One lease. Its id is made here, so that a grant whose reply was lost can be repeated."""

    __slots__ = ("id", "seconds", "until")

    def __init__(self, seconds: int) -> None:
        self.id = secrets.randbits(62) | 1
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
        self._granting: dict[int, Event] = {}

    async def any_for(self, ttl: float, until: float) -> Lease:
        """The lease for tickets with this ttl, which may have to be kept alive: see `stale`."""
        return await self._obtain(math.ceil(ttl) + SPARE, until)

    async def covering(self, ttl: float, until: float) -> Lease:
        """A lease that a ticket can count on for a ttl from now."""
        return await self._fresh(math.ceil(ttl) + SPARE, ttl, until)

    async def traces(self, until: float) -> Lease:
        """The lease for the traces that holders leave."""
        return await self._fresh(TRACES, TRACES / 2, until)

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
            except Broken as error:
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

    async def revoke(self) -> None:
        """Give back the leases on which nothing lives. The others end by themselves."""
        until = self._io.now() + _CLOSING
        with self._mutex:
            leases = list(self._leases.values())
            self._leases.clear()
        with suppress(Broken):
            asked: list[tuple[Method, Any]] = [
                (TIME_TO_LIVE, LeaseTimeToLiveRequest(ID=lease.id, keys=True)) for lease in leases
            ]
            answers = await self._cluster.ask_all(asked, until)
            await self._cluster.ask_all(_unused(leases, answers), until)

    async def _obtain(self, seconds: int, until: float) -> Lease:
        while True:
            with self._mutex:
                lease = self._leases.get(seconds)
                if lease is not None and lease.until > self._io.now():
                    return lease
                granting = self._granting.get(seconds)
                if granting is None:
                    if lease is None:
                        lease = self._leases[seconds] = Lease(seconds)
                    self._granting[seconds] = self._io.event()
            if granting is None:
                assert lease is not None
                return await self._grant(lease, until)
            if not await granting.wait(until - self._io.now()):
                raise Broken("no answer to a request for a lease", "not applied")

    async def _grant(self, lease: Lease, until: float) -> Lease:
        try:
            while True:
                sent = self._io.now()
                request = LeaseGrantRequest(TTL=lease.seconds, ID=lease.id)
                try:
                    answer = await self._cluster.ask(GRANT, request, until, repeatable=True)
                except Broken as error:
                    if "already exists" not in str(error):
                        raise
                    # An earlier request, of which we heard nothing, has arrived.
                    method, again = self.keep_alive(lease)
                    answer = await self._cluster.ask(method, again, until, repeatable=True)
                if self.kept(lease, answer, sent):
                    return lease
                lease = self._replaced(lease)
        except Broken as error:
            error.outcome = "not applied"  # what it was needed for was not sent
            raise
        finally:
            self._granting.pop(lease.seconds).set()

    def _replaced(self, lease: Lease) -> Lease:
        with self._mutex:
            new = self._leases[lease.seconds] = Lease(lease.seconds)
        return new


def _unused(leases: Iterable[Lease], answers: Iterable[Any]) -> list[tuple[Method, Any]]:
    return [
        (REVOKE, LeaseRevokeRequest(ID=lease.id))
        for lease, answer in zip(leases, answers, strict=True)
        if not isinstance(answer, Broken | LeaseGone) and not answer.keys
    ]
