"""What the SDK of OpenTelemetry records of a client, for tests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from fencelock.observe import Event
from fencelock.observe.opentelemetry import Traces
from tests.waiting import eventually

ACQUIRE, HOLD = "fencelock.acquire", "fencelock.hold"


class Starts(SpanProcessor):
    """Counts how often each span has started and not ended."""

    def __init__(self) -> None:
        self.open: Counter[int] = Counter()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        assert span.context is not None
        self.open[span.context.span_id] += 1

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.open[span.context.span_id] -= 1


class Spans:
    """A tracer provider that keeps all spans in memory, and an observer that makes spans there."""

    def __init__(self, *processors: SpanProcessor, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._starts = Starts()
        self._exporter = InMemorySpanExporter()
        for each in (*processors, self._starts, SimpleSpanProcessor(self._exporter)):
            self.provider.add_span_processor(each)
        self.traces = Traces(tracer_provider=self.provider, **options)
        self.told: Counter[str] = Counter()

    @property
    def observers(self) -> list[Callable[[Event], None]]:
        """For a client: the observer that makes the spans, and one that counts the events."""
        return [self.traces, self._count]

    def _count(self, event: Event) -> None:
        with _counting:
            self.told[type(event).__name__] += 1

    _count.prompt = True  # type: ignore[attr-defined]

    @contextmanager
    def inside(self, name: str = "the caller") -> Iterator[int]:
        """The caller's own span. Yields its id."""
        with self.provider.get_tracer("tests").start_as_current_span(name) as span:
            yield span.get_span_context().span_id

    def all(self, name: str, **wanted: Any) -> list[ReadableSpan]:
        """The spans that have ended, with this name and these attributes, as `outcome="granted"`."""
        return [
            span
            for span in self._exporter.get_finished_spans()
            if span.name == name
            and all(_attribute(span, key) == value for key, value in wanted.items())
        ]

    def one(self, name: str, **wanted: Any) -> ReadableSpan:
        """The only such span. Another thread may have to end it."""
        (span,) = eventually(lambda: self.all(name, **wanted), f"a span {name} with {wanted}")
        return span

    def still_open(self) -> int:
        """How many spans have started and not ended."""
        assert set(self._starts.open.values()) <= {0, 1}, "each span ends once"
        return self._starts.open.total()

    def are_complete(self) -> bool:
        """Whether there is a span for each attempt and for each lease, and nothing else is left."""
        ends = ("Granted", "Refused", "TimedOut", "GaveUp", "Failed")
        told = self.told
        return (
            told["Asked"] == sum(told[end] for end in ends) == len(self.all(ACQUIRE))
            and told["Granted"] == told["Released"] + told["Lost"] == len(self.all(HOLD))
            and not self.still_open()
            and self.remembers_nothing()
        )

    def remembers_nothing(self) -> bool:
        """Whether the observer has forgotten all tickets and names."""
        tickets = self.traces._tickets
        return not tickets._tickets and not tickets._names


_counting = threading.Lock()


def _attribute(span: ReadableSpan, key: str) -> Any:
    return (span.attributes or {}).get(f"lock.{key}")


def parent(span: ReadableSpan) -> int | None:
    """The id of the span that this one is in."""
    return span.parent.span_id if span.parent is not None else None


def number(span: ReadableSpan) -> int:
    """The id of a span."""
    assert span.context is not None
    return int(span.context.span_id)


def linked(span: ReadableSpan) -> set[int]:
    """The ids of the spans that this one has links to."""
    return {link.context.span_id for link in span.links}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def check_times(acquire: ReadableSpan, hold: ReadableSpan | None = None) -> None:
    """An attempt takes as long as the caller waited, and the lease is held from then on."""
    assert acquire.kind is SpanKind.CLIENT
    assert acquire.start_time is not None
    assert acquire.end_time is not None
    took = (acquire.end_time - acquire.start_time) / 1e6
    assert abs(took - attributes(acquire)["lock.waited_ms"]) < 0.01
    if hold is not None:
        assert hold.kind is SpanKind.INTERNAL
        assert hold.start_time == acquire.end_time
        assert hold.end_time is not None
        assert hold.end_time >= hold.start_time
