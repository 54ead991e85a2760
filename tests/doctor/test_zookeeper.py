"""Each check of ZooKeeper on real servers that have the fault, and on some that have not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from fencelock.core.durations import DEFAULT_TTL
from fencelock.doctor import Report, zookeeper
from fencelock.doctor.checks import Rule
from fencelock.engines.diagnosis import Server
from tests.doctor.examining import bad, check, examined, examined_async, in_time, with_status
from tests.doctor.recorded import judged
from tests.servers_zookeeper import Ensemble, SingleServer

pytestmark = pytest.mark.usefixtures("few_round_trips")

SESSION = 6.0
"""Seconds after which the single servers end a session, whatever clients ask for."""

BUSY = {"disk", "round-trip"}
"""What a busy machine may be warned of, with a ttl as short as these servers need it."""


class ShortSessions(SingleServer):
    """A server that is no ensemble. Unlike those of the tests, it flushes its log."""

    def command(self) -> list[str]:
        words = super().command()
        with (self.folder / "zoo.cfg").open("a") as config:  # the last value wins
            config.write(f"maxSessionTimeout={SESSION * 1000:.0f}\n")
        return words


class Hiding(ShortSessions):
    """A server that answers as few four-letter words as by default."""

    def __init__(self, folder: Path, words: str) -> None:
        super().__init__(folder)
        self.properties = [*self.properties, f"-Dzookeeper.4lw.commands.whitelist={words}"]


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SingleServer]:
    with ShortSessions(tmp_path_factory.mktemp("single")) as server:
        yield server


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_an_ensemble_that_does_not_flush(
    zookeeper_url: str, examine: Callable[..., Report]
) -> None:
    report = examine(zookeeper_url, probe=True)
    assert bad(report) == {"flush"}, "the servers of the tests run with forceSync=no"
    assert with_status(report, "unknown", "advice") - BUSY == set()
    assert (report.verdict, report.promise) == ("efficiency", "correctness")
    assert check(report, "ensemble").detail == "3 voting servers"
    assert check(report, "followers").detail == "2 of 2 are in sync with the leader"
    assert check(report, "hand-over").detail.startswith("handed over")
    (clock,) = report.clocks
    assert abs(clock.offset) <= clock.uncertainty + 0.01


def test_only_a_probe_asks_for_the_clock(zookeeper_url: str) -> None:
    report = examined(zookeeper_url)
    assert report.clocks == ()
    assert (check(report, "wall-clock").status, check(report, "wall-clock").leaves) == (
        "unknown",
        None,
    )


def test_a_url_with_one_server_of_three(zookeeper_url: str) -> None:
    hosts, _, rest = zookeeper_url.removeprefix("zookeeper://").partition("/")
    reports = [examined(f"zookeeper://{host}/{rest}") for host in hosts.split(",")]
    assert {check(each, "addresses").detail for each in reports} == {"the URL names 1 of 3 servers"}
    statuses = sorted(check(each, "followers").status for each in reports)
    assert statuses == ["ok", "unknown", "unknown"], "only the leader tells"


def test_nodes_of_another_user(zookeeper_url: str) -> None:
    hosts = zookeeper_url.removeprefix("zookeeper://").partition("/")[0]
    path = f"/doctor-{os.getpid()}"
    kazoo = KazooClient(hosts)
    kazoo.start()
    try:
        kazoo.create(path)
        kazoo.create(f"{path}/fencelock", acl=[make_digest_acl("someone", "pw", all=True)])
    finally:
        kazoo.stop()
        kazoo.close()
    report = examined(f"zookeeper://{hosts}{path}")
    assert (check(report, "rights").status, report.verdict) == ("bad", "not safe")
    assert check(examined(f"zookeeper://someone:pw@{hosts}{path}"), "rights").status == "ok"


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_single_server(single: SingleServer, examine: Callable[..., Report]) -> None:
    report = examine(single.url, probe=True, ttl=DEFAULT_TTL)
    assert bad(report) - BUSY == {"ensemble"}
    assert with_status(report, "unknown", "advice") - BUSY == {"session"}
    assert "get that as their ttl" in check(report, "session").detail
    assert check(report, "hand-over").status == "ok"
    assert report.verdict == "correctness"


def test_a_ttl_that_fits_no_session(single: SingleServer) -> None:
    report = examined(single.url, ttl=10)
    assert bad(report) - BUSY == {"ensemble", "session"}
    assert check(report, "session").detail.startswith("a session lasts 6 s")
    assert report.verdict == "not safe"
    assert check(examined(single.url, ttl=5), "session").status == "ok"


def test_a_server_that_hides_all_but_the_default(tmp_path: Path) -> None:
    with Hiding(tmp_path, "srvr") as server:
        report = examined(server.url, ttl=SESSION)
    assert bad(report) - BUSY == {"ensemble"}
    assert with_status(report, "unknown") == {"flush", "disk", "wall-clock"}
    assert check(report, "flush").detail == (
        "mntr was refused: it is not in 4lw.commands.whitelist"
    )
    assert "4lw.commands.whitelist" in check(report, "flush").mend
    assert [each.id for each in report.unknown("correctness")] == ["flush"]


# --- an ensemble that is damaged


class WithObserver(Ensemble):
    """The last server is an observer, and does not vote."""

    def _introduce(self) -> None:
        super()._introduce()
        last = self.nodes[-1]
        for node in self.nodes:
            key = f"server.{last.number}"
            node.settings[key] = str(node.settings[key]).replace(";", ":observer;")
        last.settings["peerType"] = "observer"


def test_an_observer(tmp_path: Path) -> None:
    with WithObserver(tmp_path, size=2) as ensemble:
        report = examined(ensemble.url, ttl=DEFAULT_TTL)
        assert bad(report) - BUSY == {"ensemble", "flush"}
        assert check(report, "ensemble").detail == "1 voting server"
        found = check(report, "observers")
        assert (found.status, found.servers) == ("advice", (ensemble.nodes[-1].address,))


def test_servers_that_freeze_and_die(tmp_path: Path) -> None:
    with Ensemble(tmp_path) as ensemble:  # which a stalled machine costs no leader
        url, follower = ensemble.url, ensemble.follower()
        follower.freeze()
        report = in_time(
            url, lambda report: "reachable" in bad(report), "it to be missed", timeout=0.5
        )
        assert follower.address in check(report, "reachable").detail
        follower.kill()
        in_time(url, lambda report: "followers" in bad(report), "the leader to miss it")
        ensemble.follower().kill()
        report = in_time(url, lambda report: "majority" in bad(report), "a majority to be missed")
        assert report.verdict == "not safe"


# --- what no server of the tests says

CONFIG = "server.{0}=h{0}:2888:3888:{1};0.0.0.0:2181"


def config(*roles: str) -> str:
    lines = (CONFIG.format(at, role) for at, role in enumerate(roles, start=1))
    return "\n".join([*lines, "version=0"])


def server(role: str = "leader", where: str = "a:2181", **said: str) -> Server:
    return Server(where, role, MappingProxyType(said), own_clock=False)


THREE = config("participant", "participant", "participant")


@pytest.mark.parametrize(
    ("rule", "one", "status", "found"),
    [
        (zookeeper.majority, server("not serving"), "bad", "no requests are taken by a:2181"),
        (zookeeper.majority, server("read-only"), "bad", "a:2181"),
        (zookeeper.ensemble, server(config=THREE), "ok", "3 voting servers"),
        (zookeeper.ensemble, server(config=config(*["participant"] * 4)), "advice", "4 voting"),
        (zookeeper.ensemble, server(config=config("participant", "observer")), "bad", "1 voting"),
        (zookeeper.ensemble, server(config="server.1=h1:2888:3888\nserver.2=h2:2888:3888"),
         "bad", "2 voting servers"),
        (zookeeper.ensemble, server(config="version=0"), "unknown", "who belongs"),
        (zookeeper.followers, server(config=THREE, zk_synced_followers="1"), "bad",
         "1 of 2 are in sync"),
        (zookeeper.followers, server(config=THREE), "unknown", "zk_synced_followers"),
        (zookeeper.observers, server("observer"), "advice", "observer"),
        (zookeeper.observers, server("untold"), "unknown", "Mode"),
        (zookeeper.flush, server(zk_cnt_sync_processor_batch_size="1", zk_cnt_fsynctime="0"),
         "unknown", "hardly written"),
        (zookeeper.disk, server(zk_avg_fsynctime="0.4", zk_max_fsynctime="1800"), "advice", "1.8 s"),
        (zookeeper.disk, server(zk_avg_fsynctime="12.5", zk_max_fsynctime="30"), "advice", "12.5 ms"),
        (zookeeper.disk, server(zk_avg_fsynctime="0.4", zk_max_fsynctime="20"), "ok", "0.40 ms"),
        (zookeeper.version, server(zk_version="3.5.2-alpha--1, built on"), "bad", "needs 3.5.3"),
        (zookeeper.version, server(**{"Zookeeper version": "3.9.2-${x}, built"}), "ok", "3.9.2"),
        (zookeeper.version, server(), "unknown", "version"),
    ],
)  # fmt: skip
def test_facts_and_judgements(rule: Rule, one: Server, status: str, found: str) -> None:
    made_of = judged(rule, one)
    assert made_of.status == status
    assert found in made_of.detail
    assert made_of.mend or status == "ok"


def test_a_server_that_lost_the_others() -> None:
    lost, leading = server("not serving"), server(where="b:2181")
    assert judged(zookeeper.majority, lost, leading).status == "advice"
