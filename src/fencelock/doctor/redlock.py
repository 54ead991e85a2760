"""What to check at the independent Redis servers of a Redlock."""

from __future__ import annotations

from collections import Counter

from fencelock.doctor import common
from fencelock.doctor.checks import (
    Finding,
    Setup,
    advice,
    bad,
    each_server,
    ok,
    whole_setup,
)
from fencelock.doctor.redis import connections, eviction, memory, snapshots, stalls
from fencelock.engines.diagnosis import Server


@whole_setup(
    "majority",
    why="A lock is taken when a majority of the nodes grants it.",
    mend="start the nodes that are down",
    leaves="not safe",
)
def majority(setup: Setup) -> Finding:
    nodes, answering = len(setup.servers), len(setup.answering())
    found = f"{answering} of {nodes} nodes answer"
    if answering <= nodes // 2:
        return bad(found)
    if nodes % 2 == 0:
        return advice(
            f"{found}; an even number tolerates no more failures than one node less",
            "add a node, or take one out",
        )
    return ok(found)


@whole_setup(
    "independence",
    why="Two URLs of one server are one server with two votes: a majority of one machine is no majority.",
    mend="name each server once, and run servers that know nothing of one another",
    leaves="not safe",
)
def independence(setup: Setup) -> Finding:
    nodes = setup.answering()
    votes = Counter(node.text("run_id") for node in nodes)
    shared = [node.where for node in nodes if votes[node.text("run_id")] > 1]
    if shared:
        return bad(f"the same server: {', '.join(shared)}")
    return ok(f"{len(votes)} servers")


@each_server(
    "role",
    why="A replica or a node of a cluster takes its data from others, and does not vote by itself.",
    mend="use masters that know nothing of one another; for a cluster use redis+cluster://",
    leaves="not safe",
)
def role(server: Server) -> Finding:
    if server.text("cluster_enabled") == "1":
        return bad("it is a node of a Redis Cluster")
    if server.text("role") != "master":
        return bad(f"it is a replica of {server.text('master_host')}:{server.text('master_port')}")
    if server.number("connected_slaves"):
        return advice(
            "it has a replica; if that is promoted, its newest votes are forgotten",
            "take the replica away: Redlock needs none",
        )
    return ok("master")


@whole_setup(
    "machines",
    why="Nodes on one machine fail together, so a majority of them there is no majority.",
    mend="put each node on a machine of its own",
)
def machines(setup: Setup) -> Finding:
    hosts = Counter(server.where.rpartition(":")[0] for server in setup.servers)
    ((host, most),) = hosts.most_common(1)
    if most > len(setup.servers) // 2:
        return bad(f"{most} of {len(setup.servers)} nodes are on {host}")
    if most > 1:
        return advice(f"{most} nodes are on {host}")
    return ok(f"{len(hosts)} hosts")


@each_server(
    "restarts",
    why="A node that forgot its votes must wait before it votes again, or it would vote for two.",
    mend="CONFIG SET appendonly yes and CONFIG SET appendfsync always, if nodes restart often",
)
def restarts(server: Server) -> Finding:
    if server.text("aof_enabled") == "1" and server.said.get("appendfsync") == "always":
        return ok("after a restart it votes at once")
    return ok("after a restart Fencelock lets it wait for the longest ttl")


RULES = (
    common.reachable,
    majority,
    independence,
    role,
    machines,
    eviction,
    memory,
    restarts,
    snapshots,
    stalls,
    connections,
    common.round_trip,
    common.clock,
    common.encryption,
    common.hand_over,
)
