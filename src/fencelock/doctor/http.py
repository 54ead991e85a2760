"""What to check at a lock service. The engine behind it is a part of the report: the service examines it."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.doctor.measures import in_words
from fencelock.engines.diagnosis import NotTold, Server

_MOST_OFF = 1.0
"""Seconds by which the clock of a replica may be wrong: people compare its log with other logs."""


@each_server(
    "examination",
    "replica",
    why="A lock is as good as the engine behind the service, and only the service can examine that.",
    mend="see what the service says about its engine",
    ask="use a token with the right admin for all names (*), or have its owner examine the service",
    leaves="not safe",
)
def examination(server: Server) -> Finding | None:
    if "other_engine" in server.said:
        return None
    if failed := server.said.get("not_examined"):
        return bad(f"the service could not examine its engine: {failed}")
    server.text("report")
    return ok(f"examined {server.text('age')} s ago")


@whole_setup(
    "one-engine",
    why="Replicas with different engines behind them give out the same locks, each its own.",
    mend="start all replicas with the same --engine; right after a failover, examine it again in a minute",
    ask="add --probe: it takes a lock at one replica, and looks for it at the others",
    leaves="not safe",
)
def one_engine(setup: Setup) -> Finding | None:
    replicas = setup.answering("replica")
    if others := [each for each in replicas if "other_engine" in each.said]:
        return bad("; ".join(f"{each.where}: {each.said['other_engine']}" for each in others))
    if blind := [each.where for each in replicas if each.said.get("sees_probe") == "no"]:
        return bad(f"a lock of {replicas[0].where} is not seen by {', '.join(blind)}")
    if all(each.said.get("sees_probe") == "yes" for each in replicas):
        return ok(f"a lock is seen by {len(replicas)} of {len(replicas)} replicas")
    identities = {each.identity for each in replicas}
    if len(identities - {""}) > 1:
        return bad(f"{len(identities - {''})} engines behind {len(replicas)} replicas")
    if len(replicas) == 1:
        return ok("one replica was found")
    if "" in identities:
        raise NotTold("the replicas don't tell whether their engine is the same")
    return ok(f"{len(replicas)} replicas have the same one")


@each_server(
    "silence",
    "replica",
    why="A proxy that cuts silent lines costs every waiter a new connection, again and again.",
    mend="let the proxy keep silent connections for longer than a minute; see docs/service/deployment.md",
    ask="add --probe, and wait for a minute",
)
def silence(server: Server) -> Finding | None:
    if "other_engine" in server.said:
        return None
    if "silence" not in server.said:
        raise NotTold("whether a proxy cuts lines that are silent for a minute")
    found = server.text("silence")
    return ok("a silent line survives a minute") if found == "survived" else bad(found)


@each_server(
    "clock",
    "replica",
    why="Tokens expire by the clock of the service, and its audit log has its times.",
    mend="run chrony or another NTP client on the machines of the replicas",
    ask="use a token with the right admin for all names (*)",
)
def clock(server: Server) -> Finding | None:
    if "other_engine" in server.said:
        return None
    if server.clock is None:
        raise NotTold("; ".join(server.refused.values()) or "the replica does not tell its time")
    off = abs(server.clock.offset) - server.clock.uncertainty
    if off > _MOST_OFF:
        return advice(f"{in_words(server.clock.offset, sign=True)} off")
    return ok(f"at most {in_words(_MOST_OFF)} off")


RULES = (
    common.reachable,
    examination,
    one_engine,
    silence,
    common.round_trip,
    clock,
    common.encryption,
    common.hand_over,
)
