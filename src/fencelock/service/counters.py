"""The metrics of a replica: those of its engine, as a library client has them, and the service's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from fencelock.observe import families
from fencelock.observe.cells import Counted
from fencelock.observe.events import Event
from fencelock.observe.families import Family
from fencelock.observe.prometheus import Metrics

Fields = tuple[Any, ...]


class Served(Event):
    """A request has been answered: its route, its status code, and the seconds it took; None for a stream."""


class AuthFailed(Event):
    """A request had no valid token or certificate."""


class Limited(Event):
    """A limit refused a request: the name of the limit."""


class Counters(Metrics):
    """Counts what happens at this replica. All methods may be called at any time, and take a microsecond.

    `groups` says which names belong together: the name of a lock is never a label. `state` gives the gauges
    of this moment.
    """

    shows = (*families.ALL, *families.SERVICE)

    def __init__(
        self, groups: Mapping[str, str], state: Callable[[], Mapping[Family, float]]
    ) -> None:
        self._registry = CollectorRegistry()
        self._state = state
        super().__init__(groups, registry=None)
        self._add(families.SERVICE_AUTH_FAILURES, amount=0)
        # Registered at last: a registry asks what there is.
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def served(self, route: str, code: int, seconds: float | None) -> None:
        """A request was answered. Without seconds for a stream: its length says nothing."""
        self.record(Served, (route, code, seconds))

    def auth_failed(self) -> None:
        """A request had no valid token or certificate."""
        self.record(AuthFailed, ())

    def limited(self, limit: str) -> None:
        """A request was refused because of this limit."""
        self.record(Limited, (limit,))

    def text(self, accept: str) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type, which the Accept header of the request decides."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def counted(self) -> list[Counted]:
        for family, value in self._state().items():
            self._of(family)[()].set(value)
        return super().counted()

    def _ways(self) -> Mapping[type, Callable[[Any, Fields], None]]:
        return {**super()._ways(), **_COUNT}

    def _served(self, fields: Fields) -> None:
        route, code, seconds = fields
        self._add(families.SERVICE_REQUESTS, route, str(code))
        if seconds is not None:
            self._of(families.SERVICE_REQUEST)[route,].add(seconds)

    def _auth_failed(self, fields: Fields) -> None:
        self._add(families.SERVICE_AUTH_FAILURES)

    def _limited(self, fields: Fields) -> None:
        self._add(families.SERVICE_LIMITED, *fields)

    def _settle(self) -> None:
        super()._settle()
        for histogram in self._of(families.SERVICE_REQUEST).values():
            histogram.settle()


_COUNT: Mapping[type, Callable[[Any, Fields], None]] = {
    Served: Counters._served,
    AuthFailed: Counters._auth_failed,
    Limited: Counters._limited,
}
