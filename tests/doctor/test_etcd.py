"""Each check of etcd on a real cluster that has the fault, and on one that has not."""

from __future__ import annotations

import json
import re
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from fencelock import Client
from fencelock.doctor import Report, common, etcd
from fencelock.doctor.checks import Rule
from fencelock.doctor.measures import shortest_ttl
from fencelock.engines.diagnosis import Clock, Server
from tests.doctor.examining import bad, check, examined, examined_async, in_time, with_status
from tests.doctor.recorded import judged
from tests.servers import HOST
from tests.servers_etcd import EtcdCluster
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("few_round_trips")

HISTORY = {"elections", "disk"}
"""Checks of what has happened since the start. After some tests, or on a busy machine, they are bad."""

ELECTION = {"heartbeat_interval": 300, "election_timeout": 1500}
"""A busy machine must cost no leader."""

QUOTA = 1_000_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    settings: dict[str, Any] = {
        **ELECTION,
        "quota_backend_bytes": QUOTA,
        # Each write is in the size of the database at once, and not after 100 ms.
        "backend_batch_limit": 1,
        # Members may be added also while the others have not been up for long.
        "strict_reconfig_check": "false",
    }
    with EtcdCluster(tmp_path_factory.mktemp("two"), size=2, **settings) as cluster:
        yield cluster


@pytest.fixture
def two(pair: EtcdCluster) -> Iterator[EtcdCluster]:
    """Two members with a small quota. A test may freeze one; afterwards both serve."""
    yield pair
    eventually(lambda: all(each.ready() for each in pair.members), "both members to serve")


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_cluster_without_a_fault(etcd_url: str, examine: Callable[..., Report]) -> None:
    report = examine(etcd_url, probe=True)
    assert with_status(report, "bad", "unknown", "advice") - HISTORY == set()
    assert (report.verdict, report.promise) == ("correctness", "correctness")
    assert report.latency is not None
    assert 0 < report.latency.p50 <= report.latency.p99
    assert len(report.clocks) == 3
    assert all(abs(clock.offset) <= clock.uncertainty + 0.01 for clock in report.clocks)
    assert check(report, "members").detail == "3 members"
    assert check(report, "hand-over").detail.startswith("handed over")


def test_one_member_with_tls_that_does_not_flush_its_log(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path, size=1, tls=True, unsafe_no_fsync="true") as alone:
        files = f"ca={tmp_path}/authority.pem&cert={alone.folder}/certificate.pem"
        url = f"{alone.url}?{files}&key={alone.folder}/certificate.pem"
        report = examined(url)
        with Client(url) as client:
            for _ in range(25):
                client.lock("any").acquire().release()
        assert check(examined(url), "flush").status == "bad"
    assert bad(report) - {"disk"} == {"members"}
    assert check(report, "members").detail == "1 member"
    assert check(report, "elections").detail.startswith("1 since it started")
    assert with_status(report, "unknown") == set(), "the metrics can be read with TLS, too"
    assert report.verdict == "correctness"


def with_only(url: str, *ids: str, **options: Any) -> Report:
    """The first report in which only these checks are bad. On a busy machine the leader may change."""
    return in_time(
        url, lambda report: bad(report) - HISTORY == set(ids), f"only {ids} to be bad", **options
    )


def test_two_members(two: EtcdCluster) -> None:
    report = with_only(two.url, "members")
    assert report.verdict == "correctness"
    report = examined(f"etcd://{two.members[0].address}")
    assert "names 1 of 2 members" in check(report, "addresses").detail
    assert two.members[1].address in check(report, "addresses").detail


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_member_that_is_frozen(two: EtcdCluster, examine: Callable[..., Report]) -> None:
    frozen, other = two.members
    with two.frozen(frozen):
        report = examine(two.url, timeout=1.5)
    assert bad(report) - HISTORY == {"reachable", "majority", "members"}
    assert report.verdict == "not safe"
    assert frozen.address in check(report, "reachable").detail
    assert other.address in check(report, "majority").detail
    assert check(report, "addresses").status == "ok"


def test_members_of_two_clusters(two: EtcdCluster, etcd_url: str) -> None:
    report = with_only(f"{etcd_url},{two.members[0].address}", "cluster")
    assert report.verdict == "not safe"


@pytest.mark.parametrize(("option", "id"), [(["--learner"], "learners"), ([], "members")])
def test_members_that_never_started(two: EtcdCluster, option: list[str], id: str) -> None:
    # Each has another address: etcd would take it for the one that was removed a moment ago.
    peer = f"--peer-urls=http://{HOST}:{len(option) + 1}"
    added = two.ctl("member", "add", "m9", peer, *option)["member"]["ID"]

    def known(report: Report) -> bool:
        return f"{added:x}" in f"{check(report, id).detail} {check(report, id).mend}"

    try:
        report = in_time(two.url, known, "the new member to be listed")
    finally:
        two.ctl("member", "remove", f"{added:x}")
    in_time(two.url, lambda report: not known(report), "it to be removed")
    assert (check(report, id).status, report.verdict) == ("bad", "correctness")
    assert check(report, "learners").status == ("bad" if option else "ok")


# --- a full database


@pytest.fixture
def filled(two: EtcdCluster) -> Iterator[EtcdCluster]:
    """The two members with a database near its quota. Afterwards it is empty again."""
    gateway = f"http://{two.members[0].address}/v3/kv/put"  # no shell takes so long a word
    words = {"key": b"fill", "value": QUOTA * 9 // 10 * b"x"}
    body = {name: b64encode(text).decode() for name, text in words.items()}
    with urllib.request.urlopen(gateway, json.dumps(body).encode()):
        pass
    yield two
    two.ctl("del", "fill")
    two.ctl("compaction", str(two.ctl("get", "x")["header"]["revision"]), "--physical")
    two.ctl("defrag")
    two.ctl("alarm", "disarm")
    # One member may be behind the other for a moment.
    with_only(two.url, "members")


def test_a_database_near_its_quota(filled: EtcdCluster) -> None:
    report = with_only(filled.url, "members", "space")
    assert report.verdict == "correctness"


def test_a_database_that_reached_its_quota(filled: EtcdCluster) -> None:
    with pytest.raises(AssertionError, match="space exceeded"):
        filled.ctl("put", "more", QUOTA // 10 * "x")
    report = with_only(filled.url, "members", "space", "alarms")
    assert "NOSPACE" in check(report, "alarms").detail
    assert report.verdict == "not safe"


def test_a_history_that_was_compacted(two: EtcdCluster) -> None:
    revision = two.ctl("put", "x", "y")["header"]["revision"]
    assert check(examined(two.url), "history").detail != "0 changes are kept"
    two.ctl("compaction", str(revision), "--physical")
    in_time(
        two.url,
        lambda report: check(report, "history").detail == "0 changes are kept",
        "the history to be compacted",
    )


# --- users and elections


@pytest.fixture
def secured(two: EtcdCluster) -> Iterator[EtcdCluster]:
    """The two members with users, of whom `someone` has no rights yet. Afterwards there are no users."""
    for name in ("root", "someone"):
        two.ctl("user", "add", f"{name}:pw")
    two.ctl("user", "grant-role", "root", "root")
    two.ctl("role", "add", "locks")
    two.ctl("auth", "enable")
    two.login = "root:pw"
    yield two
    two.ctl("auth", "disable")
    two.login = ""
    for name in ("root", "someone"):
        two.ctl("user", "delete", name)
    two.ctl("role", "delete", "locks")


def test_users_without_rights(secured: EtcdCluster) -> None:
    login = secured.url.replace("://", "://someone:pw@")
    for url, why in ((secured.url, "user name is empty"), (login, "permission denied")):
        report = with_only(url, "members", "rights")
        assert why in check(report, "rights").detail
        assert report.verdict == "not safe"
    mend = etcd.rights.mend.replace("ROLE", "locks")
    assert mend.startswith("etcdctl ")
    secured.ctl(*mend.split()[1:])
    secured.ctl("user", "grant-role", "someone", "locks")
    assert check(with_only(login, "members", probe=True), "hand-over").status == "ok"


def test_many_elections(two: EtcdCluster) -> None:
    ids = {each["name"]: each["ID"] for each in two.ctl("member", "list")["members"]}
    for _ in range(5):
        leader = eventually(two.leader, "a leader")
        (other,) = (each for each in two.members if each is not leader)
        two.ctl("move-leader", f"{ids[other.member]:x}")
        eventually(lambda: two.leader() is other, "the other leader")  # noqa: B023
    found = check(examined(two.url), "elections")
    assert found.status == "bad"
    changes = [int(text) for text in re.findall(r"(\d+) since it started", found.detail)]
    assert min(changes) > 5, "with the first one"


# --- what these clusters can't be brought to say

FSYNC = "etcd_disk_wal_fsync_duration_seconds"


def member(where: str = "a:2379", **said: str) -> Server:
    return Server(where, "member", MappingProxyType(said), own_clock=False)


def flushes(**counts: int) -> dict[str, Any]:
    """A histogram as etcd's metrics have it: `flushes(le8=90, leInf=100)`, in milliseconds."""
    bounds = {name: name[2:] for name in counts}
    return {f"{FSYNC}_count": str(counts["leInf"])} | {
        f'{FSYNC}_bucket{{le="{"+Inf" if at == "Inf" else float(at) / 1000}"}}': str(counts[name])
        for name, at in bounds.items()
    }


@pytest.mark.parametrize(
    ("rule", "said", "status", "found"),
    [
        (etcd.disk, flushes(le1=0, le8=990, le16=1000, leInf=1000), "ok", "8.0 ms"),
        (etcd.disk, flushes(le1=0, le8=980, le16=1000, leInf=1000), "bad", "12.0 ms"),
        (etcd.disk, flushes(le8=10, le8192=10, leInf=1000), "bad", "8.19 s"),
        (etcd.disk, flushes(le8=0, leInf=0), "unknown", "has not flushed"),
        (etcd.flush, {f"{FSYNC}_count": "2", "etcd_mvcc_put_total": "934"}, "bad", "934 values"),
        (etcd.flush, {f"{FSYNC}_count": "2", "etcd_mvcc_put_total": "20"}, "ok", ""),
        (etcd.flush, {f"{FSYNC}_count": "40", "etcd_mvcc_put_total": "934"}, "ok", ""),
        (etcd.flush, {}, "unknown", FSYNC),
        (etcd.space, {"dbSize": "1000"}, "unknown", "quota"),
        (etcd.space, {"dbSize": "8e8", "etcd_server_quota_backend_bytes": "1e9"},
         "advice", "763 MB of 954 MB"),
        (etcd.history, {"revision": "900000", "etcd_debugging_mvcc_compact_revision": "-1"},
         "advice", "900,000 changes are kept, because it was never compacted"),
        (etcd.history, {"revision": "900000", "etcd_debugging_mvcc_compact_revision": "8e5"},
         "ok", "100,000 changes"),
        (etcd.elections, {"etcd_server_leader_changes_seen_total": "30", "Date": "36e3",
         "process_start_time_seconds": "0"}, "ok", "30 since it started 10 hours ago"),
        (etcd.alarms, {"errors": "memberID:1 alarm:CORRUPT "}, "bad", "CORRUPT"),
        (etcd.version, {"version": "3.4.21"}, "bad", "older than 3.4.22"),
        (etcd.version, {"version": "3.5.2"}, "bad", "older than 3.5.6"),
        (etcd.version, {"version": "3.5.21"}, "ok", "3.5.21"),
        (etcd.version, {"version": "3.6.0-rc.1"}, "ok", "3.6.0"),
        (etcd.version, {"version": "3.3.27"}, "bad", "needs 3.4"),
        (etcd.version, {"version": "unknown"}, "unknown", ""),
        (etcd.members, {"members": "1 voter - a\n2 voter - b\n3 voter - c\n4 voter - d"},
         "advice", "4 members"),
        (etcd.members, {}, "unknown", "members"),
    ],
)  # fmt: skip
def test_facts_and_judgements(rule: Rule, said: dict[str, str], status: str, found: str) -> None:
    made_of = judged(rule, member(**said))
    assert made_of.status == status
    assert found in made_of.detail
    assert made_of.mend or status == "ok"


def test_a_member_that_hides_its_metrics() -> None:
    hiding = member()._replace(refused={"GET /metrics": "403 Forbidden"})
    for rule in (etcd.flush, etcd.disk, etcd.elections, etcd.history):
        assert judged(rule, hiding).detail == "GET /metrics was refused: 403 Forbidden"
        assert "/metrics" in judged(rule, hiding).mend
    assert judged(etcd.flush, hiding).leaves == "efficiency", "so --require does not pass unseen"


def test_a_member_that_lost_the_others() -> None:
    lost = member("a:2379", errors="etcdserver: no leader")
    assert judged(etcd.majority, lost).status == "bad"
    assert judged(etcd.majority, lost, member("b:2379", leader="7f")).status == "advice"


def test_a_wall_clock_is_no_reason_for_a_longer_ttl() -> None:
    wrong = member()._replace(round_trips=(0.1,), clock=Clock(-4.0, 0.5))
    found = judged(common.wall_clock, wrong)
    assert (found.status, found.detail) == ("advice", "a:2379 is -4 s off")
    assert shortest_ttl([wrong]) == 3.0
