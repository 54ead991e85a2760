"""The counts that Prometheus sees are exact, in threads, forks and several processes, and have no names."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import fencelock
from fencelock import observe
from fencelock.core.ticket import Owner
from fencelock.observe import Granted, StaleFence
from fencelock.observe.prometheus import Metrics

LOCKED = ("memory", "lock", "order")


class Shop:
    """A client with metrics, and a look at them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics({"order:*": "order"}, registry=self.registry)
        self.client = fencelock.Client(f"memory://{uuid4().hex}", observers=[self.metrics])

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"fencelock_{name}", labels)


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    with shop.client:
        yield shop


def test_the_counts_are_exact(shop: Shop) -> None:
    about = {"engine": "memory", "kind": "lock", "group": "order"}
    client = shop.client
    for number in range(3):
        with client.lock(f"order:{number}"):
            assert shop.value("leases", engine="memory", state="held") == 1
            assert client.lock(f"order:{number}").try_acquire() is None
    with pytest.raises(fencelock.LeaseLost), client.lock("order:9"):
        client.break_lock("order:9")
    with client.lock("order:9"), client.lock("something else"):
        pass
    assert shop.value("leases", engine="memory", state="held") == 0
    waits = {
        outcome: shop.value("acquire_wait_seconds_count", outcome=outcome, **about)
        for outcome in ("granted", "refused")
    }
    assert waits == {"granted": 5, "refused": 3}
    assert shop.value("lease_held_seconds_count", end="released", **about) == 4
    assert shop.value("lease_held_seconds_count", end="lost", **about) == 1
    where = {"engine": "memory", "group": "order"}
    assert shop.value("leases_lost_total", reason="evicted", **where) == 1
    assert shop.value("leases_lost_total", reason="expired", **where) == 0, "there from the start"
    assert shop.value("abandoned_total", **where) == 1
    assert shop.value("abandoned_total", engine="memory", group="other") == 0
    request = {"engine": "memory", "outcome": "ok"}
    assert shop.value("engine_requests_total", operation="evict", **request) == 1
    info = {"guarantee": "correctness", "version": fencelock.__version__}
    assert shop.value("engine_info", engine="memory", **info) == 1


def test_many_threads(shop: Shop) -> None:
    def work() -> None:
        for number in range(200):
            with shop.client.lock(f"order:{threading.get_ident()}:{number}"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    about = dict(zip(("engine", "kind", "group"), LOCKED, strict=True))
    assert shop.value("acquire_wait_seconds_count", outcome="granted", **about) == 1600
    assert shop.value("lease_held_seconds_count", end="released", **about) == 1600


def test_a_waiter_is_seen(shop: Shop) -> None:
    with shop.client.lock("order:1"):
        waiter = threading.Thread(target=lambda: shop.client.lock("order:1").acquire().release())
        waiter.start()
        while shop.value("waiters", engine="memory", group="order") != 1:
            waiter.join(0.005)
        assert (shop.value("oldest_wait_seconds", engine="memory", group="order") or 0) > 0
    waiter.join()
    assert shop.value("waiters", engine="memory", group="order") == 0


def test_an_observer_that_is_removed_shows_nothing_as_held() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    with fencelock.Client("memory://") as client:
        observe.add(metrics)
        try:
            lease = client.lock("x").acquire()
        finally:
            observe.remove(metrics)
        lease.release()
    for state in ("held", "suspended"):
        labels = {"engine": "memory", "state": state}
        assert registry.get_sample_value("fencelock_leases", labels) == 0


def test_a_forked_child_starts_from_zero(shop: Shop) -> None:
    with shop.client.lock("order:1"):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                held = shop.value("leases", engine="memory", state="held")
                os.write(writing, f"{held or 0:.0f}".encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 10) == b"0"
        assert shop.value("leases", engine="memory", state="held") == 1


@given(name=st.text(min_size=1), group=st.sampled_from(["order:", "x"]))
def test_no_name_is_ever_a_label(name: str, group: str) -> None:
    metrics = Metrics({"order:*": "order"}, registry=None)
    secret = f"{group}{name}NAME"
    metrics(Granted(secret, "redis", "lock", Owner("host", 1), 1, 0.1, 5, True))
    metrics(StaleFence(secret, "file", 1, 2))
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    assert "NAME" not in text
    groups = {
        sample.labels["group"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "group" in sample.labels
    }
    assert groups <= {"order", "other"}


def test_a_limit_belongs_to_its_bucket(shop: Shop) -> None:
    about = {"engine": "memory", "kind": "lock", "group": "order", "outcome": "granted"}
    shop.metrics(Granted("order:1", "memory", "lock", Owner("host", 1), 1, 0.001, 7, False))
    buckets = [
        shop.value("acquire_wait_seconds_bucket", le=limit, **about)
        for limit in ("0.0005", "0.001", "0.0025")
    ]
    assert buckets == [0, 1, 1]


def test_only_one_in_a_registry() -> None:
    registry = CollectorRegistry()
    Metrics(registry=registry)
    with pytest.raises(ValueError, match="registry=CollectorRegistry"):
        Metrics(registry=registry)


SEVERAL = """
import os, sys
import fencelock
from fencelock import observe
from fencelock.observe.prometheus import Metrics
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
observe.add(Metrics({"order:*": "order"}))
client = fencelock.Client("sqlite:///" + sys.argv[1])
with client.lock("order:parent"):
    for _ in range(2):
        if not os.fork():
            for number in range(10):
                with client.lock(f"order:{number}"):
                    pass
            os._exit(0)
    for _ in range(2):
        os.wait()
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    print(generate_latest(registry).decode())
"""


def test_several_processes_as_in_gunicorn(tmp_path: Path) -> None:
    """prometheus_client's own collector adds up what all processes have counted."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", SEVERAL, str(tmp_path / "locks.db")],
        env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(ended.stdout)
        for sample in family.samples
    }
    granted = [
        value
        for (name, labels), value in found.items()
        if name == "fencelock_acquire_wait_seconds_count" and ("outcome", "granted") in labels
    ]
    assert sum(granted) == 21
    held = [
        value
        for (name, labels), value in found.items()
        if name == "fencelock_leases" and ("state", "held") in labels
    ]
    assert sum(held) == 1, "only the parent holds one"
