"""The trace of OpenTelemetry in which something happens, if there is one."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Trace(NamedTuple):
    """The ids of a span, as OpenTelemetry has them."""

    trace_id: int
    span_id: int


def current_trace() -> Trace | None:
    """The span in which the caller runs. None if there is none, or if it is not recorded.

    A program that has spans has imported OpenTelemetry. So this imports nothing.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return Trace(span.trace_id, span.span_id) if span.trace_flags.sampled else None
