"""What to check at Redis and Valkey: one server, Sentinel, Cluster."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.doctor.measures import TRIPS_PER_TTL, in_words
from fencelock.engines.diagnosis import Server

DATA = ("master", "replica", "seed", "node")
"""The roles of servers that keep data. A replica may be the master tomorrow."""

_SLOTS = 16384
_FULL, _FILLING = 0.9, 0.75


@each_server(
    "role",
    "master",
    why="Only a master takes locks: at a replica or a node of a cluster, all requests or some of them fail.",
    mend="use the master's address, or a redis+sentinel:// or redis+cluster:// URL",
    ask="ask your provider for the address of the primary",
    leaves="not safe",
)
def role(server: Server) -> Finding:
    if server.text("role") != "master":
        return bad(f"it is a replica of {_primary_of(server)}")
    if server.text("cluster_enabled") == "1" and not _asked_as_cluster(server):
        return bad("it is a node of a cluster, but the URL is not redis+cluster://")
    return ok("master")


@each_server(
    "eviction",
    *DATA,
    why="A server that is full and may evict deletes locks that are held, and lets others in.",
    mend="CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
    ask="ask your provider whether maxmemory-policy is noeviction",
    leaves="not safe",
)
def eviction(server: Server) -> Finding:
    policy, limit = server.text("maxmemory_policy"), server.number("maxmemory")
    if policy != "noeviction":
        if limit:
            return bad(f"maxmemory-policy is {policy}, maxmemory is {_megabytes(limit)}")
        return advice(f"maxmemory-policy is {policy}; nothing is evicted while maxmemory is 0")
    evicted = server.number("evicted_keys")
    if evicted:
        return advice(
            f"noeviction, but {evicted:.0f} keys were evicted since the server started",
            "make sure that the setting survives a restart: CONFIG REWRITE",
        )
    return ok("noeviction")


@each_server(
    "memory",
    *DATA,
    why="A server whose memory is full refuses new locks. (Those that are held can be renewed.)",
    mend="raise maxmemory, or give the locks a server of their own",
    ask="ask your provider how much of the memory is used",
)
def memory(server: Server) -> Finding:
    used, limit = server.number("used_memory"), server.number("maxmemory")
    limit = limit or server.number("total_system_memory")
    found = f"{_megabytes(used)} of {_megabytes(limit)} used"
    if used > _FULL * limit:
        return bad(found)
    return advice(found) if used > _FILLING * limit else ok(found)


@each_server(
    "persistence",
    *DATA,
    why="A server that restarts without its data has forgotten who holds what, and lets others in.",
    mend="CONFIG SET appendonly yes and CONFIG SET appendfsync everysec, and the same in redis.conf",
    ask="ask your provider whether the append-only file is on, with appendfsync everysec or always",
)
def persistence(server: Server) -> Finding:
    if server.text("aof_enabled") == "0":
        return bad("the append-only file is off (appendonly no)")
    if server.text("aof_last_write_status") != "ok":
        return bad("the last write to the append-only file failed", "free some space on its disk")
    fsync = server.text("appendfsync")
    if fsync == "no":
        return bad("the system decides when to write to the disk (appendfsync no)")
    return ok("every write is on the disk" if fsync == "always" else "a crash forgets one second")


@each_server(
    "snapshots",
    *DATA,
    why="After a snapshot that failed, the server refuses all writes, and so all locks.",
    mend="free some space on the server's disk; its log says what failed",
)
def snapshots(server: Server) -> Finding:
    if server.text("rdb_last_bgsave_status") == "ok":
        return ok("the last snapshot worked")
    if server.text("stop-writes-on-bgsave-error") == "yes" and server.text("save"):
        return bad("the last snapshot failed, so writes are refused")
    return advice("the last snapshot failed")


@each_server(
    "replication",
    "master",
    why="A failover forgets the locks that the new master has not received yet.",
    mend="CONFIG SET min-replicas-to-write 1, so that a master that is cut off takes no more locks",
    ask="ask your provider how a primary that is cut off is kept from taking writes",
)
def replication(server: Server) -> Finding | None:
    replicas = server.number("connected_slaves")
    if not replicas:
        return None
    found = f"{replicas:.0f} replica{'s' if replicas > 1 else ''}"
    least = server.number("min-replicas-to-write")
    if not least:
        return bad(f"{found}, and the master does not care whether they follow")
    if least > replicas:
        return bad(
            f"{found}, but min-replicas-to-write is {least:.0f}, so locks are refused",
            "start the missing replicas",
        )
    return ok(f"{found}, min-replicas-to-write is {least:.0f}")


@whole_setup(
    "stalls",
    why="While the server stands still, no lease is renewed.",
    mend="give the locks a server of their own, without large data and long scripts",
)
def stalls(setup: Setup) -> Finding:
    found, limit = [], setup.ttl / TRIPS_PER_TTL
    for server in setup.answering(*DATA):
        fork = server.number("latest_fork_usec") / 1e6
        if fork > limit:
            found.append(f"{server.where}: the last fork took {in_words(fork)}")
        if busy := _count(server, "errorstat_BUSY"):
            found.append(f"{server.where}: {busy} requests refused because a script ran for long")
        if server.said.get("aof_delayed_fsync", "0") != "0":
            found.append(f"{server.where}: writes had to wait for the disk")
    return advice("; ".join(found)) if found else ok("none seen since the servers started")


@each_server(
    "connections",
    *DATA,
    why="A client that can't connect can't renew.",
    mend="raise maxclients, or share one Client per process",
    ask="ask your provider how many connections are allowed",
)
def connections(server: Server) -> Finding:
    now, most = server.number("connected_clients"), server.number("maxclients")
    if now > _FULL * most:
        return bad(f"{now:.0f} of {most:.0f} connections are used")
    if refused := server.number("rejected_connections"):
        return advice(f"{refused:.0f} connections were refused since the server started")
    return ok(f"{now:.0f} of {most:.0f}")


@whole_setup(
    "sentinels",
    why="Sentinels decide by majority who is the master. Two of them can't outvote a failure.",
    mend="run three Sentinels or five on machines of their own, with a quorum of more than half",
)
def sentinels(setup: Setup) -> Finding | None:
    found = setup.answering("sentinel")
    if not found:
        return None
    masters = {(each.text("ip"), each.text("port")) for each in found}
    if len(masters) > 1:
        named = " and ".join(sorted(":".join(master) for master in masters))
        return bad(f"they disagree about the master: {named}", leaves="not safe")
    tilted = [each.where for each in found if each.text("sentinel_tilt") != "0"]
    if tilted:
        return bad(f"in tilt mode, because a clock jumped: {', '.join(tilted)}")
    down = [each.text("flags") for each in found if "down" in each.text("flags")]
    if down:
        return bad(f"they say that the master is down ({down[0]})", "wait for the failover")
    count = int(min(each.number("num-other-sentinels") for each in found)) + 1
    if count < 3:
        return bad(f"{count} of them")
    quorum = int(min(each.number("quorum") for each in found))
    if quorum <= count // 2:
        return advice(f"{count} of them, with a quorum of only {quorum}")
    if quorum > count:
        return bad(f"{count} of them, but the quorum is {quorum}: they never agree")
    if not all(each.number("num-slaves") for each in found):
        return bad("no replica that they could promote", "add a replica")
    return ok(f"{count} of them, quorum {quorum}")


@whole_setup(
    "cluster",
    why="Names in slots that no node serves can't be locked, and two masters can't outvote a failure.",
    mend="redis-cli --cluster fix, and at least three masters with a replica each",
    ask="ask your provider for the output of CLUSTER INFO",
)
def cluster(setup: Setup) -> Finding | None:
    nodes = [server for server in setup.answering(*DATA) if _asked_as_cluster(server)]
    if not nodes:
        return None
    served = int(min(server.number("cluster_slots_ok") for server in nodes))
    if served < _SLOTS or any(server.text("cluster_state") != "ok" for server in nodes):
        return bad(f"{served} of {_SLOTS} slots are served")
    size = int(min(server.number("cluster_size") for server in nodes))
    if size < 3:
        return bad(f"masters with slots: {size}")
    masters = [each for each in nodes if each.role == "master"]
    alone = [each.where for each in masters if not each.number("connected_slaves")]
    if alone:
        return advice(f"without a replica: {', '.join(alone)}", "give each master a replica")
    return ok(f"{size} masters, all slots served")


RULES = (
    common.reachable,
    role,
    eviction,
    memory,
    persistence,
    snapshots,
    replication,
    sentinels,
    cluster,
    stalls,
    connections,
    common.round_trip,
    common.clock,
    common.encryption,
    common.hand_over,
)


def _primary_of(server: Server) -> str:
    return f"{server.text('master_host')}:{server.text('master_port')}"


def _asked_as_cluster(server: Server) -> bool:
    """Whether the URL says that it is a node of a cluster."""
    return "cluster_state" in server.said or "CLUSTER INFO" in server.refused


def _count(server: Server, statistic: str) -> int:
    """The count in a line like `errorstat_BUSY:count=3`."""
    return int(server.said.get(statistic, "count=0").partition("count=")[2].partition(",")[0])


def _megabytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MB" if size >= 2**20 else f"{size / 2**10:.0f} kB"
