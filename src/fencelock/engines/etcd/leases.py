"""etcd's leases, on which tickets live: granted once, shared by all tickets of a ttl, kept alive.

The waiter behind a ticket counts the ticket's own ttl. The lease removes the tickets of a process that
died while nobody waited. It always outlives what was promised to its tickets.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.errors import CallFailed
from fencelock.engines.etcd.messages_pb2 import (
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
)
from fencelock.engines.etcd.wire import GRANT, KEEP_ALIVE, REVOKE, TIME_TO_LIVE, Method
from fencelock.io.contract import IO, Event

SPARE = 5
"""Seconds by which a lease is longer than the ttl of its tickets. It is kept alive that often."""

_DAY = 86_400
_MARKER_LEASE = 2 * _DAY
"""Seconds that the lease for markers lives. New markers use it for one day, so each lives one day more."""

_CLOSE_TIMEOUT = 1.0
"""Seconds that giving back the leases may take when a client is closed."""


class Lease:
    """One lease. Its id is made here, so that a grant whose reply was lost can be repeated."""

    def __init__(self, seconds: int, id: int = 0) -> None:
        self.id = id or secrets.randbits(62) | 1
        self.seconds = seconds
        self.until = -math.inf
        """It lives until this moment of our clock, or longer."""

    def lives_for(self, seconds: float, now: float) -> bool:
        """Whether it lives so long from now without being kept alive."""
        return self.until >= now + seconds


class Leases:
    """The leases of one client, by their length."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self._cluster = cluster
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._leases: dict[int, Lease] = {}
        self._markers: Lease | None = None
        self._granting: dict[int, Event] = {}

    async def granted(self, ttl: float, until: float) -> Lease:
        """The lease for tickets with this ttl. It may have to be kept alive: see `Lease.lives_for`."""
        seconds = math.ceil(ttl) + SPARE
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
                    granted = lease.until > self._io.now()  # another caller was quicker
                    return lease if granted else await self._grant(lease, until)
            finally:
                # Other callers wait for this, so do it even if this caller was interrupted before it began.
                # Call no method here, so that no second interruption can come in between.
                if seconds in self._granting and self._granting[seconds] is mine:
                    del self._granting[seconds]
                mine.set()
            if not await granting.wait(until - self._io.now()):
                raise CallFailed("no answer to a request for a lease", "not applied")

    async def covering(self, ttl: float, until: float) -> Lease:
        """A lease that lives for a ttl from now."""
        while True:
            lease = await self.granted(ttl, until)
            sent = self._io.now()
            if lease.lives_for(ttl, sent):
                return lease
            self.kept_alive(lease, await self._ask(*self.keep_alive(lease), until), sent)

    async def markers(self, until: float) -> Lease:
        """The lease for markers: one a day, the same for all clients.

        A client that just ends, like the client whose marker it is, must not leave a lease of its own.
        """
        id = marker_lease(int(time.time() // _DAY))
        lease = self._markers
        if lease is None or lease.id != id:
            lease = Lease(_MARKER_LEASE, id)
            await self._grant_or_find(lease, until)
            self._markers = lease
        return lease

    async def single(self, seconds: float, until: float) -> Lease:
        """A lease of its own for one key, which ends after so many seconds."""
        lease = Lease(math.ceil(seconds))
        await self._grant_or_find(lease, until)
        return lease

    async def end(self, lease: int, until: float) -> None:
        """End a lease, and with it every key that lives on it. Takes the lease's id."""
        await self._cluster.ask(REVOKE, LeaseRevokeRequest(ID=lease), until, repeatable=True)

    def keep_alive(self, lease: Lease) -> tuple[Method, Any]:
        """The call that keeps a lease alive. `kept_alive` takes its answer."""
        return KEEP_ALIVE, LeaseKeepAliveRequest(ID=lease.id)

    def kept_alive(self, lease: Lease, answer: Any, sent: float) -> bool:
        """Take in the answer to `keep_alive`. Returns False if the lease does not exist any more."""
        if answer.TTL <= 0:
            self.forget(lease)
            return False
        # etcd may have granted another length than the one that we asked for.
        lease.until = max(lease.until, sent + answer.TTL)
        return True

    def forget(self, *leases: Lease) -> None:
        """These leases are gone. The next request that needs one gets a new one."""
        with self._mutex:
            for lease in leases:
                if self._leases.get(lease.seconds) is lease:
                    del self._leases[lease.seconds]
                elif self._markers is lease:
                    self._markers = None

    async def close(self) -> None:
        """Give back the leases without tickets. The others end by themselves."""
        until = self._io.now() + _CLOSE_TIMEOUT
        with self._mutex:
            leases = list(self._leases.values())
            self._leases.clear()
        with suppress(CallFailed):
            answers = await self._cluster.ask_all(
                [(TIME_TO_LIVE, LeaseTimeToLiveRequest(ID=one.id, keys=True)) for one in leases],
                until,
            )
            unused = [
                (REVOKE, LeaseRevokeRequest(ID=lease.id))
                for lease, answer in zip(leases, answers, strict=True)
                if not isinstance(answer, CallFailed) and not answer.keys
            ]
            await self._cluster.ask_all(unused, until)

    async def _grant(self, lease: Lease, until: float) -> Lease:
        while True:
            sent = self._io.now()
            answer = await self._grant_or_find(lease, until)
            if answer is None:
                answer = await self._ask(*self.keep_alive(lease), until)
            if self.kept_alive(lease, answer, sent):
                await self.markers(until)  # now, while the other callers wait for this one
                return lease
            with self._mutex:
                lease = self._leases[lease.seconds] = Lease(lease.seconds)

    async def _grant_or_find(self, lease: Lease, until: float) -> Any | None:
        """Have a lease granted. Returns None if it exists: the reply to an earlier request was lost."""
        try:
            return await self._ask(GRANT, LeaseGrantRequest(TTL=lease.seconds, ID=lease.id), until)
        except CallFailed as error:
            if "already exists" in str(error):
                return None
            raise

    async def _ask(self, method: Method, request: Any, until: float) -> Any:
        try:
            return await self._cluster.ask(method, request, until, repeatable=True)
        except CallFailed as error:
            error.outcome = "not applied"  # the request that needs the lease was not sent
            raise


@lru_cache(2)
def marker_lease(day: int) -> int:
    """The id of a day's lease for markers, the same for all clients."""
    return int.from_bytes(sha256(f"fencelock markers {day}".encode()).digest()[:8], "big") >> 2
