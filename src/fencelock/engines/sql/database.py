"""What a database's own folder brings: connections, and the requests that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.sql.broken import DatabaseFailed

Request = Any
"""What a database's calls build and its connections send: nobody in between looks into it."""


class Wire(Protocol):
    """One connection, used by one request at a time. What it raises is `DatabaseFailed`."""

    broken: bool

    async def call(self, request: Request, timeout: float) -> list[str]:
        """Send a request; the first column of the rows that answer it."""

    def is_cut(self) -> bool:
        """Whether the server has closed it while it lay idle. Asked before each use: must be cheap."""

    def hang_up(self) -> None:
        """End it while another thread or task reads from it: that one wakes up and closes it."""

    def close(self) -> None: ...


class SessionWire(Wire, Protocol):
    """One whose session has a lock, or waits for one."""

    async def begin(self, request: Request, timeout: float) -> None:
        """Send a request whose answer may take long, and don't wait for it."""

    async def answered(self, timeout: float) -> bool:
        """Whether the answer to what was begun is there, at the latest when the time is up."""

    def interrupt(self) -> None:
        """Let an `answered` that waits come back at once; from any thread."""


W = TypeVar("W", bound=Wire)


class Server(Protocol[W]):
    """Where connections come from."""

    async def connect(self, timeout: float) -> W:
        """A connection that is ready for use."""

    async def install(self, wire: W, timeout: float) -> None:
        """Create the tables and what else the requests rely on."""


class Calls(Protocol):
    """What every engine asks. Yes is answered with 1, no with 0."""

    def inspect(self, name: str, most: int) -> Request:
        """Answered as `answers.inspection_of` reads it."""

    def names(self) -> Request: ...

    def evict(self, name: str) -> Request: ...


class RowCalls(Calls, Protocol):
    """What the engine over lease rows asks; standings are as `answers.standing_of` reads them."""

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> Request: ...

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        """Answered with a line for each, in order."""

    def leave(self, ticket: Ticket, departure: Departure) -> Request: ...

    def remember(self, ticket: Ticket, text: str, keep: float) -> Request: ...

    def recall(self, name: str) -> Request:
        """Answered with the text, or with nothing."""


class SessionCalls(Calls, Protocol):
    """What the engine over session locks asks."""

    def enter(self, ticket: Ticket, if_free: bool) -> Request:
        """Take the lock in this session if it is free; if not, `wait` comes next."""

    def wait(self, ticket: Ticket) -> Request:
        """Answered when this session has the lock; then `admit` comes next."""

    def admit(self, ticket: Ticket) -> Request:
        """Give a fence to the ticket whose session has the lock."""

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        """Look whether their sessions live. Answered with a line for each, in order."""

    def rename(self, ticket: Ticket) -> Request:
        """Say who owns the ticket from now on. Answered as `renew` is."""

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        """Give back the lock of this very session."""

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        """End another session."""


class Troubles(NamedTuple):
    """What a database's failures mean, by its codes."""

    try_again: tuple[str, ...]
    """The transaction was rolled back for the sake of another one: it is worth another try."""
    not_there: tuple[str, ...]
    """What we rely on is not there (any more): `Server.install` creates it."""
    explained: Callable[[DatabaseFailed], str]
    """What happened, and what to do about it."""

    def translated(self, error: DatabaseFailed, where: str, name: str | None) -> EngineError:
        """The error to raise."""
        text = f"{where}: {self.explained(error)}"
        return EngineError(text, outcome=error.outcome, name=name)
