"""Locks in OpenTelemetry: spans and metrics. Needs `pip install 'fencelock[otel]'`.

    from fencelock.observe.opentelemetry import Meters, Traces

    fencelock.observe.add(Traces(groups={"order:*": "order"}))
    fencelock.observe.add(Meters(groups={"order:*": "order"}))

Only the API of OpenTelemetry is needed. If the program sets up no SDK, nothing is recorded.
"""

try:
    import opentelemetry.context
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "fencelock.observe.opentelemetry needs the package 'opentelemetry-api': "
        "install it with: pip install 'fencelock[otel]'",
        name=error.name,
    ) from error

from fencelock.observe.opentelemetry.meters import Meters
from fencelock.observe.opentelemetry.traces import Traces

__all__ = ["Meters", "Traces"]
