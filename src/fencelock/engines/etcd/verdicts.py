"""What a trace means to one that is admitted, and what it has to write down then; see `traces.py`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fencelock.engines.etcd import requests, sharing
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.keys import Card, Keys
from fencelock.engines.etcd.leases import Leases
from fencelock.engines.etcd.messages_pb2 import RangeRequest, TxnRequest
from fencelock.engines.etcd.seat import Seat
from fencelock.engines.etcd.traces import Trace, Verdict
from fencelock.engines.etcd.troubles import CallFailed, Compacted
from fencelock.engines.etcd.wire import RANGE, TXN, first, oldest


class Verdicts:
    """Most are clear from the trace. For some one has to look into etcd's past."""

    def __init__(self, cluster: Cluster, leases: Leases) -> None:
        self._cluster = cluster
        self._leases = leases

    async def found(self, seat: Seat, fence: int, trace: Trace | None, until: float) -> bool | None:
        """Whether one that is admitted finds the name abandoned; None: the trace changed meanwhile."""
        before = [one.fence for one in seat.view.ahead]
        known = None if trace is None else trace.verdict(fence, before)
        verdict = known or await self.of(seat.keys, fence, trace, until)
        if seat.shares:
            if trace is not None and known is None:
                await self._settle(seat, fence, trace, verdict, until)
        elif not verdict.covered:
            traces = await self._leases.traces(until)
            if not (await self._ask(requests.mark(seat, fence, trace, traces), until)).succeeded:
                return None
        return verdict.abandoned

    async def of(self, keys: Keys, fence: int, trace: Trace | None, until: float) -> Verdict:
        """What a trace means to the one with this fence, if nothing is known of those before it."""
        if trace is None:
            return Verdict(False, covered=False)
        known = trace.verdict(fence, ())
        if known is not None:
            return known
        who = oldest(keys.queue, keys.end, 1)["request_range"]
        request = RangeRequest(**who, revision=trace.revision)
        try:
            answer = await self._cluster.ask(RANGE, request, until, repeatable=True)
        except Compacted:
            return Verdict(True)  # better one warning too many
        was_first = first(answer)
        if was_first is None or Card.unpack(was_first.value).share.group:
            return Verdict(False, covered=False)
        return Verdict(was_first.create_revision != fence)

    async def _settle(
        self, seat: Seat, fence: int, trace: Trace, verdict: Verdict, until: float
    ) -> None:
        """Save those who come to share after this one the look into the past."""
        with suppress(CallFailed):
            traces = await self._leases.traces(until)
            request = sharing.settle(seat, fence, trace, verdict.abandoned, traces)
            await self._ask(request, until)

    async def _ask(self, request: TxnRequest, until: float) -> Any:
        return await self._cluster.ask(TXN, request, until)
