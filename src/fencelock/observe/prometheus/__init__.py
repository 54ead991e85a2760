"""Metrics for Prometheus. Needs the package prometheus-client: `pip install 'fencelock[prometheus]'`.

    from fencelock.observe.prometheus import Metrics

    fencelock.observe.add(Metrics({"order:*": "order"}))    # from now on in prometheus_client.REGISTRY

docs/observing/metrics.md lists the metrics.
"""

from __future__ import annotations

from fencelock.core.errors import Unsupported

try:
    from fencelock.observe.prometheus.metrics import Metrics
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise Unsupported(
        "fencelock.observe.prometheus needs the package 'prometheus-client': install it with: "
        "pip install 'fencelock[prometheus]'"
    ) from error

__all__ = ["Metrics"]
