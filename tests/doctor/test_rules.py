"""Rules as pure functions, for what no server here can be brought to say; and that nothing is left out."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import MappingProxyType

import pytest

from fencelock.doctor import common, mysql, postgresql, redis, redlock, rules_of, sqlite
from fencelock.doctor.checks import Check, Finding, Probe, Rule, Setup, bad, each_server, ok
from fencelock.doctor.measures import in_words, latency_of, shortest_ttl
from fencelock.engines.diagnosis import Clock, Server, measure
from fencelock.engines.memory import MemoryEngine
from fencelock.io.blocking import BlockingIO, run
from tests.doctor.tables import LABELS, TO_COME, common_table, described, table

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()


def setup(*servers: Server, ttl: float = 30.0, probe: Probe | None = None) -> Setup:
    return Setup("test", MemoryEngine.traits, servers, ttl, probe)


def master(where: str = "a:6379", **said: str) -> Server:
    return Server(where, "master", MappingProxyType(said))


def primary(**said: str) -> Server:
    return Server("a:5432", "primary", MappingProxyType(said))


SETTINGS = {
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
}


def made(rule: Rule, *servers: Server, ttl: float = 30.0, probe: Probe | None = None) -> Check:
    found = rule.check(setup(*servers, ttl=ttl, probe=probe))
    assert found is not None
    return found


# --- nothing is left out


def test_every_engine_has_its_checks() -> None:
    assert set(LABELS) - set(described()) == TO_COME


@pytest.mark.parametrize("label", described())
def test_the_page_lists_the_checks_of_every_engine(label: str) -> None:
    assert table(label) in PAGE, "python -m tests.doctor.tables prints the table"


def test_the_page_lists_nothing_else() -> None:
    assert common_table() in PAGE
    known = {rule.id for label in described() for rule in rules_of(label)}
    assert set(re.findall(r"^\| `([\w-]+)` \|.*\|.*\|.*\|$", PAGE, re.MULTILINE)) == known


@pytest.mark.parametrize("label", described())
def test_every_rule_says_all_that_it_must(label: str) -> None:
    rules = rules_of(label)
    assert len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert re.fullmatch(r"[A-Z].*\.\)?", rule.why), rule.id
        assert len(rule.why) < 100, rule.id
        assert rule.mend
        assert not rule.mend.endswith("."), rule.id


def test_an_engine_of_another_package_is_not_called_safe() -> None:
    (rule,) = rules_of("something-else")
    found = made(rule)
    assert (found.status, found.leaves) == ("unknown", "not safe")


# --- how rules become checks


def test_the_worst_server_counts_and_is_named() -> None:
    @each_server("x", "master", why="Because.", mend="do it", leaves="efficiency")
    def rule(server: Server) -> Finding:
        return bad("low") if server.number("level") < 3 else ok("high")

    found = made(rule, master("a", level="5"), master("b", level="1"), master("c", level="2"))
    assert (found.status, found.detail, found.servers) == ("bad", "b: low; c: low", ("b", "c"))
    assert (found.mend, found.leaves) == ("do it", "efficiency")
    assert made(rule, master(level="5"))._replace(why="") == Check(
        "x", "ok", "high", "", "", ("a:6379",)
    )
    untold = made(rule, master("a", level="5"), master("b", level="much"))
    assert (untold.status, untold.leaves, untold.servers) == ("unknown", "efficiency", ("b",))
    assert rule.check(setup(Server("a", "replica"))) is None


@pytest.mark.parametrize(
    ("rule", "server", "status"),
    [
        (redis.role, master(role="master", cluster_enabled="1"), "bad"),
        (
            redis.role,
            Server(
                "a", "master", {"role": "master", "cluster_enabled": "1"}, {"CLUSTER INFO": "-"}
            ),
            "ok",
        ),
        (redis.cluster, Server("a", "master", {}, {"CLUSTER INFO": "NOPERM"}), "unknown"),
        (
            redis.stalls,
            master(latest_fork_usec="1200000", errorstat_NOPERM="count=3"),
            "advice",
        ),
        (redis.stalls, master(latest_fork_usec="0", aof_delayed_fsync="4"), "advice"),
        (redis.stalls, master(latest_fork_usec="900000", aof_delayed_fsync="0"), "ok"),
        (
            redis.memory,
            master(used_memory="8e9", maxmemory="0", total_system_memory="1e10"),
            "advice",
        ),
        (redis.persistence, master(aof_enabled="1", aof_last_write_status="err"), "bad"),
        (
            redis.sentinels,
            Server("s:26379", "sentinel", {"ip": "a", "port": "1", "sentinel_tilt": "1"}),
            "bad",
        ),
        (
            redis.sentinels,
            Server(
                "s:26379",
                "sentinel",
                {"ip": "a", "port": "1", "sentinel_tilt": "0", "flags": "master,s_down"},
            ),
            "bad",
        ),
        (redlock.independence, master(), "unknown"),
        (postgresql.version, primary(server_version="11.22", server_version_num="110022"), "bad"),
        (
            postgresql.standbys,
            primary(
                synchronous_standby_names="ANY 1 (a, b)",
                standbys="2",
                absent_standbys="0",
                hidden_senders="0",
                synchronous="0",
                quorum="2",
            ),
            "advice",
        ),
        (postgresql.session, primary(**SETTINGS, lock_timeout="50"), "bad"),
        (postgresql.session, primary(**SETTINGS, lock_timeout="5000"), "ok"),
        (mysql.version, Server("a", "server", {"version": "5.7.44-log"}), "bad"),
        (mysql.version, Server("a", "server", {"version": "10.5.20-MariaDB"}), "bad"),
        (
            mysql.version,
            Server("a", "server", {"version": "8.4.0", "clock_moves": "no"}),
            "bad",
        ),
        (mysql.replicas, Server("a", "server", {"log_bin": "ON"}), "unknown"),
        (
            mysql.durability,
            Server(
                "a",
                "server",
                {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "OFF"},
            ),
            "advice",
        ),
        (
            mysql.durability,
            Server(
                "a",
                "server",
                {"innodb_flush_log_at_trx_commit": "1", "innodb_flush_method": "nosync"},
            ),
            "bad",
        ),
        (sqlite.space, Server("f", "file", {"free_bytes": "1e9", "free_inodes": "0"}), "bad"),
        (sqlite.file_system, Server("f", "file", {"file_system": ""}), "unknown"),
        (common.encryption, Server("f", remote=True), "advice"),
        (common.encryption, Server("f", remote=True, encrypted=True), "ok"),
    ],
)
def test_facts_and_judgements(rule: Rule, server: Server, status: str) -> None:
    assert made(rule, server).status == status


@pytest.mark.parametrize(
    ("clock", "status"),
    [
        (Clock(0.2, 0.01), "ok"),
        (Clock(-0.4, 0.01), "bad"),
        (Clock(0.4, 0.2), "ok"),  # it may be only 0.2 s
        (Clock(0.0, 0.5), "unknown"),
        (Clock(0.0, 0.0, stepped=True), "bad"),
        (None, "unknown"),
    ],
)
def test_the_clock_and_the_doubt_about_it(clock: Clock | None, status: str) -> None:
    assert made(common.clock, Server("a", clock=clock)).status == status


def test_a_fence_that_falls_is_bad() -> None:
    assert made(common.hand_over, probe=Probe(0.001, (5, 6))).status == "ok"
    for probe in (Probe(0.001, (6, 6)), Probe(failure="NOREPLICAS")):
        found = made(common.hand_over, probe=probe)
        assert (found.status, found.leaves) == ("bad", "not safe")


# --- measuring


def test_a_clock_that_jumps_while_it_is_measured() -> None:
    asked = 0

    async def ask() -> float:
        nonlocal asked
        asked += 1
        return time.time() + (60 if asked > 3 else 0)

    timing = run(measure(ask, BlockingIO()))
    assert timing.clock is not None
    assert timing.clock.stepped
    assert len(timing.round_trips) >= 5


@pytest.mark.parametrize(
    ("p99", "offset", "ttl"),
    [(0.001, 0.0, 1.0), (0.1, 0.0, 3.0), (0.1, -4.0, 8.2), (0.0512, 0.0, 1.6), (2.0, 0.0, 60.0)],
)
def test_the_shortest_sensible_ttl(p99: float, offset: float, ttl: float) -> None:
    server = Server("a", round_trips=(p99,), clock=Clock(offset, 0.0))
    assert shortest_ttl([server]) == ttl


def test_only_servers_that_locks_go_to_count_for_the_round_trip() -> None:
    slow = Server("replica", round_trips=(5.0,) * 100, serves=False)
    fast = Server("master", round_trips=(0.001,) * 98 + (0.002, 0.5))
    latency = latency_of([slow, fast])
    assert latency == (0.001, 0.002, 100)
    assert latency_of([slow]) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.00003, "+0.03 ms"), (0.0012, "+1.2 ms"), (-0.25, "-250 ms"), (12.345, "+12.3 s"),
     (-86400.0, "-86400 s"), (0.0, "0 ms")],
)  # fmt: skip
def test_durations_for_people(seconds: float, words: str) -> None:
    assert in_words(seconds, sign=True) == words
