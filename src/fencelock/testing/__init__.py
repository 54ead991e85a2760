"""For tests of programs that use Fencelock: clients in memory, with a clock that the test moves."""

from fencelock.testing.client import AsyncClient, Client
from fencelock.testing.clock import Clock
from fencelock.testing.engine import Operation, Outcome

__all__ = ["AsyncClient", "Client", "Clock", "Operation", "Outcome"]
