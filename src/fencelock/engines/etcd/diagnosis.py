"""What the members of an etcd cluster say about themselves.

Alarms are read from a member's status. To list them by the call that etcd has for it would write to its log.
"""

from __future__ import annotations

import ssl
import time
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple

from fencelock.engines.diagnosis import Clock, Server, is_remote, measure
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.errors import CallFailed, with_advice
from fencelock.engines.etcd.keys import QUEUES
from fencelock.engines.etcd.messages_pb2 import (
    MemberListRequest,
    MemberListResponse,
    RangeRequest,
    StatusRequest,
    StatusResponse,
)
from fencelock.engines.etcd.node import Node
from fencelock.engines.etcd.wire import MEMBERS, RANGE, STATUS
from fencelock.io.contract import IO

READ = "reading the keys of locks"
"""A question that every client asks. It needs a majority, and the right to read."""

_METRICS = (
    "etcd_debugging_mvcc_compact_revision",
    "etcd_disk_wal_fsync_duration_seconds_",
    "etcd_server_leader_changes_seen_total",
    "etcd_mvcc_put_total",
    "etcd_server_quota_backend_bytes",
    "process_start_time_seconds",
)
"""How the names of the metrics begin that matter for locks."""


async def describe(
    cluster: Cluster, tls: ssl.SSLContext | None, io: IO, timeout: float
) -> list[Server]:
    """Examine the members in the URL. `tls` is for their metrics, which gRPC can't read."""
    return [await _describe(cluster, node, tls, io, timeout) for node in cluster.nodes]


async def _describe(
    cluster: Cluster, node: Node, tls: ssl.SSLContext | None, io: IO, timeout: float
) -> Server:
    host = node.address.rpartition(":")[0].strip("[]")
    server = Server(
        node.address,
        "member",
        own_clock=False,  # waiters count by their own clocks, and etcd by the time that has passed
        remote=is_remote(host),
        encrypted=tls is not None,
    )
    said: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        said |= _status(await cluster.ask_at(node, STATUS, StatusRequest(), timeout))
    except CallFailed as error:
        if error.elsewhere:
            return server._replace(failure=with_advice(error))
        refused["the status"] = str(error)
    try:
        answer = await cluster.ask_at(node, MEMBERS, MemberListRequest(), timeout)
        said["members"] = _members(answer)
    except CallFailed as error:
        refused["the list of members"] = str(error)

    async def read() -> None:
        await cluster.ask_at(node, RANGE, RangeRequest(key=QUEUES, keys_only=True), timeout)

    try:
        await read()  # the first one may have to connect or to log in
        timing = await measure(read, io)
        server = server._replace(round_trips=timing.round_trips)
    except CallFailed as error:
        refused[READ] = with_advice(error)
    try:
        page = await io.call(_metrics, node.address, tls, timeout)
        said |= page.metrics
        server = server._replace(clock=page.clock)
    except (OSError, HTTPException, ValueError) as error:
        refused["GET /metrics"] = str(error) or type(error).__name__
    return server._replace(said=said, refused=refused)


def _status(status: StatusResponse) -> dict[str, str]:
    said = {
        "cluster_id": f"{status.header.cluster_id:x}",
        "member_id": f"{status.header.member_id:x}",
        "revision": str(status.header.revision),
        "version": status.version,
        "leader": f"{status.leader:x}",
        "dbSize": str(status.dbSize),
        "errors": "; ".join(status.errors),
    }
    if status.dbSizeQuota:  # etcd 3.6 tells it; before, only the metrics do
        said["etcd_server_quota_backend_bytes"] = str(status.dbSizeQuota)
    return said


def _members(answer: MemberListResponse) -> str:
    """A line for each member: id, "voter" or "learner", addresses for clients, name."""
    lines = (
        f"{member.ID:x} {'learner' if member.isLearner else 'voter'} "
        f"{','.join(member.clientURLs) or '-'} {member.name}"
        for member in sorted(answer.members, key=lambda member: member.name)
    )
    return "\n".join(lines)


class _Page(NamedTuple):
    metrics: dict[str, str]
    """By name, with labels if it has some."""
    clock: Clock | None


def _metrics(address: str, tls: ssl.SSLContext | None, timeout: float) -> _Page:
    """The metrics that every member shows at its address for clients, and the time in the answer's header."""
    if tls is None:
        link = HTTPConnection(address, timeout=timeout)
    else:
        link = HTTPSConnection(address, timeout=timeout, context=tls)
    try:
        link.connect()
        sent_at = time.time()
        link.request("GET", "/metrics")
        answer = link.getresponse()
        received_at = time.time()
        text = answer.read().decode(errors="replace")
    finally:
        link.close()
    if answer.status != 200:
        raise HTTPException(f"{answer.status} {answer.reason}")
    pairs = (line.rpartition(" ") for line in text.splitlines() if line.startswith(_METRICS))
    metrics = {name: value for name, _, value in pairs}
    date = answer.getheader("Date")
    if date is None:
        return _Page(metrics, None)
    theirs = parsedate_to_datetime(date).timestamp()
    metrics["Date"] = str(theirs)
    # It is cut to whole seconds: when the server wrote it, its clock was up to a second further.
    low, high = theirs - received_at, theirs + 1 - sent_at
    return _Page(metrics, Clock((low + high) / 2, (high - low) / 2))
