"""What to check at etcd."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.doctor.measures import in_words
from fencelock.engines.diagnosis import NotTold, Server

READ = "reading the keys of locks"
"""What the engine's `diagnosis.py` calls this question."""

_OLDEST = {"3.4": (3, 4, 22), "3.5": (3, 5, 6)}
"""The first version of each line without known bugs that lose acknowledged writes or let members differ.
See etcd's issues 14370 and 13766, and its pull request 14730."""

_FULL, _FILLING = 0.9, 0.75
_SLOW = 0.010
"""Seconds. etcd asks for disks with a p99 below this."""
_MAX_HISTORY = 500_000
_MAX_ELECTIONS = 3
"""In an hour."""

_FSYNC = "etcd_disk_wal_fsync_duration_seconds"
_PUTS = "etcd_mvcc_put_total"
_HIDDEN = "let this machine read http(s)://SERVER/metrics, or ask your provider"


class Member(NamedTuple):
    """A member as the others know it."""

    id: str
    votes: bool
    addresses: str
    name: str
    """Empty until it was started for the first time."""


@whole_setup(
    "majority",
    why="Every lock needs the consent of a majority of the members.",
    mend="start the members that are down, and look at the network between them",
    leaves="not safe",
)
def majority(setup: Setup) -> Finding:
    servers = [each for each in setup.answering() if "learner" not in each.refused.get(READ, "")]
    found = []
    for server in servers:
        why = server.refused.get(READ, "")
        if "no leader" in server.said.get("errors", "") or server.said.get("leader") == "0":
            found.append(f"{server.where} knows no leader")
        elif why and not _no_right(why):
            found.append(f"{server.where}: {why}")
    if not found:
        return ok("there is a leader, and a majority answers it")
    return bad("; ".join(found)) if len(found) == len(servers) else advice("; ".join(found))


@whole_setup(
    "cluster",
    why="Members of two clusters don't know each other's locks.",
    mend="name only members of one cluster in the URL",
    ask="ask your provider whether these are members of one cluster",
    leaves="not safe",
)
def cluster(setup: Setup) -> Finding:
    clusters = {server.text("cluster_id"): server.where for server in setup.answering()}
    if len(clusters) > 1:
        return bad(f"{' and '.join(clusters.values())} belong to different clusters")
    return ok("one")


@whole_setup(
    "members",
    why="One member or two survive no failure, and an even number not more than one less.",
    mend="run three members or five, on machines that don't fail together",
    ask="ask your provider how many members the cluster has",
)
def members(setup: Setup) -> Finding:
    known = _members(setup)
    voters = [member for member in known if member.votes]
    count = f"{len(voters)} member{'s' if len(voters) > 1 else ''}"
    if strange := [member.id for member in voters if not member.name]:
        return bad(
            f"{count}, of which {len(strange)} never started",
            f"start it, or etcdctl member remove {strange[0]}",
        )
    if len(voters) < 3:
        return bad(count)
    return ok(count) if len(voters) % 2 else advice(count)


@whole_setup(
    "learners",
    why="A learner does not vote, so it helps in no failure, and it refuses requests for locks.",
    mend="etcdctl member promote ID, when it has caught up, and until then leave it out of the URL",
    ask="ask your provider whether the cluster has a learner",
)
def learners(setup: Setup) -> Finding:
    found = [member for member in _members(setup) if not member.votes]
    if found:
        return bad(", ".join(f"{each.name or 'not started yet'} ({each.id})" for each in found))
    return ok("none")


@whole_setup(
    "addresses",
    why="When a member does not answer, a client goes only to those that the URL names.",
    mend="name all members in the URL",
    ask="ask your provider for the addresses of all members",
)
def addresses(setup: Setup) -> Finding:
    known = _members(setup)
    down = sum(bool(server.failure) for server in setup.servers)
    answering = {server.text("member_id") for server in setup.answering()}
    others = [each for each in known if each.id not in answering]
    named = len(known) - max(0, len(others) - down)
    if named == len(known):
        return ok("the URL names all members")
    listed = ", ".join(each.addresses for each in others)
    return advice(f"the URL names {named} of {len(known)} members, without some of: {listed}")


@each_server(
    "alarms",
    why="While an alarm is raised, etcd refuses writes, and with them all locks.",
    mend="etcdctl alarm list; mend what it names, then etcdctl alarm disarm",
    ask="ask your provider for the output of etcdctl alarm list",
    leaves="not safe",
)
def alarms(server: Server) -> Finding:
    raised = re.findall(r"alarm:(\w+)", server.text("errors"))
    if "CORRUPT" in raised:
        return bad(
            "CORRUPT: the members' data differ",
            "restore the member that differs from a backup, or remove it and add it again",
        )
    if "NOSPACE" in raised:
        return bad(
            "NOSPACE: the database has reached its quota",
            "etcdctl compact, etcdctl defrag, then etcdctl alarm disarm; or raise "
            "--quota-backend-bytes",
        )
    return bad(", ".join(raised)) if raised else ok("none")


@each_server(
    "rights",
    why="Without the right to the keys of locks, no lock works.",
    mend="etcdctl role grant-permission ROLE readwrite --prefix=true fencelock/",
    leaves="not safe",
)
def rights(server: Server) -> Finding | None:
    why = server.refused.get(READ, "")
    if why and not _no_right(why):
        return None
    return bad(why) if why else ok("it may read the keys of locks; only --probe tries to write")


@each_server(
    "space",
    why="A database that reaches its quota takes no more writes: no lock can be taken or renewed.",
    mend="etcdctl compact and etcdctl defrag, or raise --quota-backend-bytes",
    ask="compare the size of the database with --quota-backend-bytes, or ask your provider",
)
def space(server: Server) -> Finding:
    size = server.number("dbSize")
    quota = server.number("etcd_server_quota_backend_bytes")
    found = f"{_megabytes(size)} of {_megabytes(quota)}"
    if size > _FULL * quota:
        return bad(found)
    return advice(found) if size > _FILLING * quota else ok(found)


@each_server(
    "flush",
    why="A member that does not flush its log forgets acknowledged locks when its machine fails.",
    mend="run etcd without --unsafe-no-fsync",
    ask=_HIDDEN,
    leaves="efficiency",
)
def flush(server: Server) -> Finding:
    flushes, puts = server.number(f"{_FSYNC}_count"), server.number(_PUTS)
    # Two flushes come with the start, also if the log is never flushed after that.
    if flushes <= 2 and puts > 20:
        return bad(f"it has written {puts:.0f} values, and not flushed its log since it started")
    return ok("it flushes its log")


@each_server(
    "disk",
    why="Each step of a lock waits for the disks of a majority, and a slow disk costs leaders.",
    mend="give etcd a fast disk of its own",
    ask=_HIDDEN,
)
def disk(server: Server) -> Finding:
    slowest = _percentile(server, 0.99)
    found = f"flushing the log takes {in_words(slowest)} (p99)"
    return bad(found) if slowest > _SLOW else ok(found)


@each_server(
    "elections",
    why="While a new leader is elected, no lock is taken or renewed.",
    mend="look for slow disks, busy machines and a slow network; then raise --election-timeout",
    ask=_HIDDEN,
)
def elections(server: Server) -> Finding:
    count = server.number("etcd_server_leader_changes_seen_total")
    hours = (server.number("Date") - server.number("process_start_time_seconds")) / 3600
    found = f"{count:.0f} since it started {_ago(hours)}"
    # The first one is that of the start. In the first hour, all count.
    return bad(found) if count - 1 > _MAX_ELECTIONS * max(hours, 1) else ok(found)


@each_server(
    "history",
    why="Every step of a lock stays in the history, and makes etcd slower, until it is compacted.",
    mend="start etcd with --auto-compaction-retention=1h",
    ask=_HIDDEN,
)
def history(server: Server) -> Finding:
    compacted = max(0.0, server.number("etcd_debugging_mvcc_compact_revision"))
    kept = server.number("revision") - compacted
    found = f"{kept:,.0f} changes are kept"
    if kept <= _MAX_HISTORY:
        return ok(found)
    return advice(found if compacted else f"{found}, because it was never compacted")


@each_server(
    "version",
    why="Older versions lose acknowledged writes in a crash, or let members differ.",
    mend="update it to the newest 3.5 or 3.6",
    ask="ask your provider for the version of etcd",
    leaves="efficiency",
)
def version(server: Server) -> Finding:
    text = server.text("version")
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise NotTold(f"it calls its version {text!r}")
    found = tuple(map(int, match.groups()))
    if found < (3, 4, 0):
        return bad(f"{text}: Fencelock needs 3.4", leaves="not safe")
    oldest = _OLDEST.get(f"{match[1]}.{match[2]}", found)
    if found < oldest:
        return bad(f"{text}, which is older than {'.'.join(map(str, oldest))}")
    return ok(text)


RULES = (
    common.reachable,
    majority,
    cluster,
    members,
    learners,
    addresses,
    alarms,
    rights,
    space,
    flush,
    disk,
    elections,
    history,
    version,
    common.round_trip,
    common.wall_clock,
    common.encryption,
    common.hand_over,
)


def _members(setup: Setup) -> list[Member]:
    """All members of the cluster, as the first server lists them that does."""
    servers = setup.answering()
    listing = next((s for s in servers if "members" in s.said), servers[0])
    found = []
    for line in listing.text("members").splitlines():
        id, role, where, name = line.split(" ", 3)
        found.append(Member(id, role == "voter", where, name))
    return found


def _no_right(why: str) -> bool:
    return any(part in why for part in ("permission denied", "user name is empty"))


def _percentile(server: Server, share: float) -> float:
    """A percentile from the counts of a histogram, as Prometheus computes it."""
    if not server.number(f"{_FSYNC}_count"):
        raise NotTold("it has not flushed anything yet")
    counts = {
        float(match[1]): server.number(name)
        for name in server.said
        if (match := re.fullmatch(_FSYNC + r'_bucket\{le="(.+)"\}', name))
    }
    rank = share * counts[math.inf]
    below, passed = 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= rank:
            break
        below, passed = bound, count
    return (
        below if bound == math.inf else below + (bound - below) * (rank - passed) / (count - passed)
    )


def _ago(hours: float) -> str:
    return f"{hours:.0f} hours ago" if hours >= 2 else f"{hours * 60:.0f} minutes ago"


def _megabytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MB" if size >= 2**20 else f"{size / 2**10:.0f} kB"
