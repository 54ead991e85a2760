"""The observer that is also a collector of prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import REGISTRY, CollectorRegistry, values
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.samples import Exemplar as ShownExemplar

from fencelock.observe.cells import Counted, Distribution, Exemplar
from fencelock.observe.prometheus.shared import SharedHistogram, SharedNumber, limits_of
from fencelock.observe.tally import Tally


class Metrics(Tally):
    """An observer that counts what the locks do, and shows the counts to Prometheus.

    `groups` says which names belong together: `{"order:*": "order"}`. The first pattern that matches a name
    counts. All other names are in the group "other". The name of a lock itself never becomes a label.

    It is a collector in prometheus_client's own registry, or in another `registry`; with None, in no
    registry. A forked child starts from zero. In prometheus_client's multiprocess mode, its own
    `MultiProcessCollector` finds the counts of all processes.
    """

    def __init__(
        self,
        groups: Mapping[str, str] | None = None,
        *,
        registry: CollectorRegistry | None = REGISTRY,
    ) -> None:
        shared = values.ValueClass._multiprocess
        if shared:
            self._new_number, self._new_histogram = SharedNumber, SharedHistogram
        super().__init__(groups)
        if shared:
            self._batch = self._batches = 1  # another process may read the counts at any time
        if registry is not None:
            try:
                registry.register(self)
            except ValueError as error:
                raise ValueError(
                    "this registry has metrics with such names already: use one Metrics for the whole "
                    "process, or give each its own registry=CollectorRegistry()"
                ) from error

    def describe(self) -> Iterable[Metric]:
        """The metrics without their values, for the registry."""
        return [_shown(Counted(family, {}, {})) for family in self.shows]

    def collect(self) -> Iterator[Metric]:
        """The metrics of this process."""
        return map(_shown, self.counted())


def _shown(counted: Counted) -> Metric:
    """The series of a metric, as prometheus_client wants them."""
    family, numbers, distributions = counted
    if family.type == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        limits = limits_of(family)
        for labels, distribution in distributions.items():
            histogram.add_metric(labels, _buckets(limits, distribution), distribution.sum)
        return histogram
    kind = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in numbers.items():
        metric.add_metric(labels, value)
    return metric


def _buckets(
    limits: list[str], distribution: Distribution
) -> list[tuple[str, float] | tuple[str, float, ShownExemplar]]:
    counts, _, exemplars = distribution
    return [
        (limit, count, _with_ids(exemplars[bucket])) if bucket in exemplars else (limit, count)
        for bucket, (limit, count) in enumerate(zip(limits, accumulate(counts), strict=True))
    ]


def _with_ids(exemplar: Exemplar) -> ShownExemplar:
    trace = exemplar.trace
    ids = {"trace_id": f"{trace.trace_id:032x}", "span_id": f"{trace.span_id:016x}"}
    return ShownExemplar(ids, exemplar.value, exemplar.seen_at)
