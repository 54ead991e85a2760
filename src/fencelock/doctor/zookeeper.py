"""What to check at ZooKeeper."""

from __future__ import annotations

import re

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.doctor.measures import in_words
from fencelock.engines.diagnosis import NotTold, Server

READ = "reading the nodes of locks"
"""What the engine's `diagnosis.py` calls this question."""

SERVING = ("leader", "follower", "observer", "standalone", "untold")
"""The roles of servers that take requests."""

_OLDEST = (3, 5, 3)
"""The first version that knows containers, in which queues are."""

_SLOW = 0.010
"""Seconds for an average flush. A good disk takes a tenth of that."""
_STALL = 1.0
"""Seconds from which on ZooKeeper, too, warns of a flush in its log."""

_HIDDEN = "add mntr to 4lw.commands.whitelist on the servers, or ask your provider"


@whole_setup(
    "majority",
    why="Every lock needs the consent of a majority of the servers.",
    mend="start the servers that are down, and look at the network between them",
    leaves="not safe",
)
def majority(setup: Setup) -> Finding:
    waiting = [each.where for each in setup.answering("not serving", "read-only")]
    if not waiting:
        return ok("all servers that answer take requests")
    found = f"no requests are taken by {', '.join(waiting)}"
    return advice(found) if setup.answering(*SERVING) else bad(found)


@whole_setup(
    "ensemble",
    why="One server or two survive no failure, and an even number not more than one less.",
    mend="run three servers or five, on machines that don't fail together",
    ask="ask your provider how many servers the ensemble has",
)
def ensemble(setup: Setup) -> Finding:
    if setup.answering("standalone"):
        return bad("one server, which is not part of an ensemble")
    voters = _voters(setup)
    found = f"{voters} voting server{'s' if voters > 1 else ''}"
    if voters < 3:
        return bad(found)
    return ok(found) if voters % 2 else advice(found)


@whole_setup(
    "followers",
    why="If a follower is out of sync, one failure less is left until all locks stand still.",
    mend="start the servers that are down, and look at the network and the disks of the others",
    ask=_HIDDEN,
)
def followers(setup: Setup) -> Finding | None:
    if setup.answering("standalone"):
        return None
    leaders = setup.answering("leader")
    if not leaders:
        raise NotTold("the URL does not name the leader, or the leader does not answer")
    voters = _voters(setup)
    if voters == 1:
        return None
    following = int(leaders[0].number("zk_synced_followers"))
    found = f"{following} of {voters - 1} are in sync with the leader"
    return ok(found) if following == voters - 1 else bad(found)


@whole_setup(
    "addresses",
    why="When a server does not answer, a client goes only to those that the URL names.",
    mend="name all servers in the URL",
    ask="ask your provider for the addresses of all servers",
)
def addresses(setup: Setup) -> Finding | None:
    if setup.answering("standalone"):
        return None
    known, named = len(_ensemble(setup)), len(setup.servers)
    if named < known:
        return advice(f"the URL names {named} of {known} servers")
    return ok("the URL names all servers")


@each_server(
    "observers",
    *SERVING,
    why="An observer does not vote: it hears of every lock later than the servers that do.",
    mend="name the voting servers in the URL",
    ask="ask your provider for the addresses of the voting servers",
)
def observers(server: Server) -> Finding:
    if server.role == "untold":
        server.text("Mode")  # which says why it is not told
    return advice("it is an observer") if server.role == "observer" else ok("it votes")


@whole_setup(
    "session",
    why="A ticket ends with its session, so no ttl can be longer than the servers let a session be.",
    mend="raise maxSessionTimeout on the servers, or use a shorter ttl; see also ?session=SECONDS",
    leaves="not safe",
)
def session(setup: Setup) -> Finding | None:
    granted = [float(each.said["session"]) for each in setup.servers if "session" in each.said]
    if not granted:
        return None
    found = f"a session lasts {min(granted):g} s"
    if setup.ttl <= min(granted):
        return ok(found)
    if setup.ttl == setup.traits.default_ttl:
        return advice(f"{found}, so locks without a ttl of their own get that as their ttl")
    return bad(f"{found}, and a lock with a ttl of {setup.ttl:g} s is refused")


@each_server(
    "rights",
    *SERVING,
    why="Without the right to the nodes of locks, no lock works.",
    mend="use the user to whom they belong, zookeeper://user:password@host, or another path",
    leaves="not safe",
)
def rights(server: Server) -> Finding:
    why = server.refused.get(READ)
    return bad(why) if why else ok("it may read the nodes of locks; only --probe tries to write")


@each_server(
    "flush",
    *SERVING,
    why="A server that does not flush its log forgets acknowledged locks when its machine fails.",
    mend="run it without forceSync=no (-Dzookeeper.forceSync)",
    ask=f"{_HIDDEN} whether forceSync is on. ZooKeeper tells it since version 3.6",
    leaves="efficiency",
)
def flush(server: Server) -> Finding:
    batches = server.number("zk_cnt_sync_processor_batch_size")
    flushes = server.number("zk_cnt_fsynctime")
    if flushes:
        return ok("it flushes its log")
    # Each batch is flushed before the next one is counted.
    if batches < 2:
        raise NotTold("it has hardly written anything since it started")
    return bad("it takes writes, and has not flushed its log since it started")


@each_server(
    "disk",
    *SERVING,
    why="Each step of a lock waits for the disks of a majority.",
    mend="give ZooKeeper's transaction log a fast disk of its own (dataLogDir)",
    ask=_HIDDEN,
)
def disk(server: Server) -> Finding:
    mean = server.number("zk_avg_fsynctime") / 1000
    slowest = server.number("zk_max_fsynctime") / 1000
    found = (
        f"flushing the log takes {in_words(mean)} on average, and took at most {in_words(slowest)}"
    )
    return advice(found) if mean > _SLOW or slowest > _STALL else ok(found)


@each_server(
    "version",
    *SERVING,
    why="Fencelock needs containers, which older versions don't know.",
    mend="update it",
    ask="ask your provider for the version of ZooKeeper",
    leaves="not safe",
)
def version(server: Server) -> Finding:
    text = server.said.get("zk_version") or server.text("Zookeeper version")
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise NotTold(f"it calls its version {text!r}")
    if tuple(map(int, match.groups())) < _OLDEST:
        return bad(f"{match[0]}: Fencelock needs {'.'.join(map(str, _OLDEST))}")
    return ok(match[0])


RULES = (
    common.reachable,
    majority,
    ensemble,
    followers,
    addresses,
    observers,
    session,
    rights,
    flush,
    disk,
    version,
    common.round_trip,
    common.wall_clock,
    common.encryption,
    common.hand_over,
)


def _ensemble(setup: Setup) -> list[str]:
    """The roles of all servers, as the first server lists them that does: "participant" or "observer"."""
    servers = setup.answering()
    listing = next((each for each in servers if "config" in each.said), servers[0])
    roles = re.findall(r"^server\.\d+=[^;]*?(?::(participant|observer))?(?:;.*)?$",
                       listing.text("config"), re.MULTILINE)  # fmt: skip
    if not roles:
        raise NotTold("the server does not tell who belongs to the ensemble")
    return [role or "participant" for role in roles]


def _voters(setup: Setup) -> int:
    return _ensemble(setup).count("participant")
