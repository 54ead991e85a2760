"""Spans never harm a lock, and nothing of them stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import fencelock
from fencelock import observe
from fencelock.observe.opentelemetry import Traces, tickets
from tests.cutting_short import InterruptAt
from tests.io.test_fork import in_child
from tests.observe.spans import ACQUIRE, HOLD, Spans, attributes, linked, parent
from tests.waiting import eventually

URL = f"memory://{uuid4().hex}"


@pytest.fixture
def name() -> str:
    return uuid4().hex


def use(client: fencelock.Client, name: str) -> None:
    with client.lock(name):
        assert client.inspect(name).holders
    assert not client.inspect(name).holders


class Failing(SpanProcessor, SpanExporter):
    """Raises at one of the moments at which the SDK calls it."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.calls = 0

    def _reached(self, where: str) -> None:
        if where == self._at:
            self.calls += 1
            raise OSError("no room for this span")

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self._reached("start")

    def on_end(self, span: ReadableSpan) -> None:
        self._reached("end")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._reached("export")
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize("at", ["start", "end", "export"])
def test_a_processor_that_raises(name: str, at: str, caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(at)
    spans = Spans(SimpleSpanProcessor(failing) if at == "export" else failing)
    with fencelock.Client(URL, observers=spans.observers) as client:
        for _ in range(3):
            use(client, name)
    assert failing.calls >= 3
    assert spans.told["Released"] == 3
    assert spans.remembers_nothing()
    ours = [each for each in caplog.records if each.name == "fencelock.observe"]
    assert len(ours) == (0 if at == "export" else 1), "the SDK logs the errors of exporters itself"


class Blocking(SpanExporter):
    """Takes its time with each span of acquiring, until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.waiting = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if spans[0].name == ACQUIRE and attributes(spans[0])["lock.group"] == "slow":
            self.waiting += 1
            self.let_go.wait()
        return SpanExportResult.SUCCESS


def test_an_exporter_that_blocks_delays_only_the_thread_that_it_blocks(name: str) -> None:
    exporter = Blocking()
    spans = Spans(SimpleSpanProcessor(exporter), groups={"slow:*": "slow"})
    with fencelock.Client(URL, ttl=3, observers=spans.observers) as client:
        slow = threading.Thread(target=use, args=(client, f"slow:{name}"))
        slow.start()
        eventually(lambda: exporter.waiting, "the exporter to block a thread")
        for _ in range(3):
            use(client, name)
        # The lease that the blocked thread has got is renewed meanwhile.
        eventually(lambda: spans.told["Renewed"], "a renewal")
        assert client.inspect(f"slow:{name}").holders
        exporter.let_go.set()
        slow.join()
    assert not spans.all(HOLD, end="lost")
    assert spans.are_complete()


class Locking(SpanExporter):
    """Takes a lock for each export."""

    def __init__(self, client: fencelock.Client, name: str) -> None:
        self._client = client
        self._name = name
        self.exported: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._client.lock(self._name):
            self.exported += [span.name for span in spans]
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize("kind", [SimpleSpanProcessor, BatchSpanProcessor])
def test_an_exporter_that_uses_locks_makes_no_spans(name: str, kind: Any) -> None:
    with fencelock.Client(URL) as client:
        exporter = Locking(client, f"{name}:spans")
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(kind(exporter))
        traces = Traces(tracer_provider=provider)
        observe.add(traces)
        try:
            use(client, name)
            for _ in range(3):
                provider.force_flush()
        finally:
            observe.remove(traces)
            provider.shutdown()
    assert exporter.exported == [ACQUIRE, HOLD]
    assert not traces._tickets._tickets


def test_what_is_not_sampled_is_not_remembered(name: str) -> None:
    traces = Traces(tracer_provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    with fencelock.Client(URL, observers=[traces]) as client, client.lock(name):
        assert not traces._tickets._tickets


def test_tickets_whose_end_is_not_told_are_forgotten(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "LIMIT", 3)
    spans = Spans()
    with fencelock.Client(URL) as client:
        observe.add(spans.traces)
        forgotten = client.lock(name).acquire()
        others = [client.lock(f"{name}:{each}").acquire() for each in range(3)]
        assert parent(spans.one(HOLD, end="unknown")) is None
        observe.remove(spans.traces)
        for lease in (forgotten, *others):
            lease.release()
        assert len(spans.traces._tickets) == 3
        observe.add(spans.traces)
        with client.lock_all([f"{name}:{each}" for each in range(3)]):
            assert len(spans.all(HOLD, end="unknown")) == 4
        observe.remove(spans.traces)
    assert spans.still_open() == 0
    assert spans.remembers_nothing()


def test_a_waiter_that_is_forgotten(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "LIMIT", 2)
    spans = Spans()
    with fencelock.Client(URL, observers=spans.observers) as client:
        with client.lock(name) as lease:
            waiter = threading.Thread(target=use, args=(client, name))
            waiter.start()
            eventually(lambda: spans.told["Queued"] == 1, "the waiter")
            with client.lock(f"{name}:1"), client.lock(f"{name}:2"):
                pass
            lease.check()
        waiter.join()
    assert spans.told["Asked"] == len(spans.all(ACQUIRE)) == 4
    assert spans.remembers_nothing()


def test_an_observer_that_comes_in_the_middle(name: str) -> None:
    spans = Spans()
    with fencelock.Client(URL, observers=[lambda event: None]) as client:

        def wait() -> None:
            with spans.inside(), client.lock(name):
                pass

        with client.lock(name):
            waiter = threading.Thread(target=wait)
            waiter.start()
            eventually(lambda: client.inspect(name).waiting, "the waiter")
            observe.add(spans.traces)
        waiter.join()
        assert not spans.all(ACQUIRE) + spans.all(HOLD), "it hears of nobody who asked before"
        wait()
        observe.remove(spans.traces)
    acquire, hold = spans.one(ACQUIRE), spans.one(HOLD)
    assert parent(acquire) == parent(hold) is not None
    assert spans.remembers_nothing()


def test_a_forked_child_begins_anew(name: str) -> None:
    spans = Spans()
    with fencelock.Client(URL, observers=spans.observers) as client, client.lock(name):

        def work() -> str:
            forgot = spans.remembers_nothing()
            before = len(spans.all(HOLD))
            use(client, name)
            (acquire,) = spans.all(ACQUIRE)[1:]
            return f"{forgot} {before} {len(spans.all(HOLD))} {len(linked(acquire))}"

        with spans.traces._tickets._mutex:  # as if another thread were busy with it
            said = in_child(work)
    assert said == "True 0 1 0"
    assert spans.are_complete()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_interrupted_at_every_step(name: str) -> None:
    spans = Spans()
    with (
        fencelock.Client(URL) as witness,
        fencelock.Client(URL, ttl=8, observers=spans.observers) as client,
    ):
        use(client, name)
        for k in count():
            interrupt = InterruptAt(k)
            interrupt(lambda: use(client, name))
            after = f"after {interrupt.where}"
            eventually(lambda: not witness.inspect(name).holders, f"nothing to be held {after}")
            eventually(lambda: client._context.idle, f"nothing to be kept {after}")
            if interrupt.where is None:
                break
        left = len(spans.traces._tickets)
        use(client, name)
        assert len(spans.traces._tickets) == left, "and it still works"
    assert k > 100, "this was to be a long list of steps"


# --- what is not installed

_WITHOUT_SDK = """
import sys
sys.modules["opentelemetry.sdk"] = None
import fencelock
from fencelock.observe.opentelemetry import Meters, Traces
traces = Traces()
fencelock.observe.add(traces)
fencelock.observe.add(Meters())
with fencelock.Client("memory://") as client:
    with client.lock("x") as lease:
        print(lease.state.value, len(traces._tickets))
    kept = client.lock("x").acquire()
print("done")
"""


def output(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=os.environ
    )


def test_without_an_sdk_nothing_is_recorded() -> None:
    ended = output(_WITHOUT_SDK)
    assert (ended.stdout.split(), ended.stderr) == (["held", "0", "done"], "")


def test_without_the_api_the_message_says_what_to_install() -> None:
    ended = output("import sys; sys.modules['opentelemetry.trace'] = None; import "
                   "fencelock.observe.opentelemetry")  # fmt: skip
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: fencelock.observe.opentelemetry needs the package "
        "'opentelemetry-api': install it with: pip install 'fencelock[otel]'"
    )
