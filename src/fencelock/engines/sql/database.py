"""What a database's own folder provides: connections, and the requests that they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.sql.failure import DatabaseFailed

Request = Any
"""A database's `Requests` builds it and its `Wire` sends it. The code in between never looks inside."""


class Wire(Protocol):
    """One connection, used by one request at a time. Its methods raise `DatabaseFailed`."""

    broken: bool

    async def call(self, request: Request, timeout: float) -> list[str]:
        """Send a request. Returns the first column of the rows that answer it."""

    def is_cut(self) -> bool:
        """Whether the server has closed the idle connection. Called before each use: must be cheap."""

    def hang_up(self) -> None:
        """End the connection while another thread or task reads from it: the reader then closes it."""

    def close(self) -> None: ...


class SessionWire(Wire, Protocol):
    """A connection whose session holds a lock, or waits for it."""

    async def begin(self, request: Request, timeout: float) -> None:
        """Send a request whose answer may take long, and don't wait for the answer."""

    async def answered(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the answer to `begin`. Returns whether it came."""

    def interrupt(self) -> None:
        """Make a waiting `answered` return at once. From any thread."""


W = TypeVar("W", bound=Wire)
S = TypeVar("S", bound=SessionWire)


class Server(Protocol[W]):
    """Opens connections."""

    async def connect(self, timeout: float) -> W:
        """Open a connection that is ready for use."""

    async def install(self, wire: W, timeout: float) -> None:
        """Create the tables and functions that the requests need."""


class Requests(Protocol):
    """Builds the requests that every engine sends. The database answers 1 for yes and 0 for no."""

    def inspect(self, name: str, limit: int) -> Request:
        """`answers.inspection_of` reads the answer."""

    def names(self) -> Request: ...

    def evict(self, name: str) -> Request: ...


class RowRequests(Requests, Protocol):
    """Builds the requests of the engine over lease rows. `answers.standing_of` reads standings."""

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> Request: ...

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        """The answer has one line for each ticket, in order."""

    def leave(self, ticket: Ticket, departure: Departure) -> Request: ...

    def remember(self, ticket: Ticket, text: str, keep: float) -> Request: ...

    def recall(self, name: str) -> Request:
        """The answer is the text, or nothing."""


class SessionRequests(Requests, Protocol):
    """Builds the requests of the engine over session locks."""

    def enter(self, ticket: Ticket, if_free: bool) -> Request:
        """Take the lock in this session if it is free. If not, `wait` comes next."""

    def wait(self, ticket: Ticket) -> Request:
        """The answer comes when this session has the lock. Then `admit` comes next."""

    def admit(self, ticket: Ticket) -> Request:
        """Give a fence to the ticket whose session has the lock."""

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        """Check whether their sessions live. The answer has one line for each ticket, in order."""

    def rename(self, ticket: Ticket) -> Request:
        """Store the ticket's new owner. The answer is that of `renew`."""

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        """Release the lock that this session has."""

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        """End the ticket's session from another one."""


class Errors(NamedTuple):
    """What the errors of a database mean."""

    retriable: tuple[str, ...]
    """Codes: the server rolled the transaction back in favour of another one, so a retry may succeed."""
    missing: tuple[str, ...]
    """Codes: a table or function does not exist. `Server.install` creates it."""
    by_code: Mapping[str, str]
    """What to do about an error, by its code."""
    by_message: Mapping[str, str]
    """The same for other errors, by a part of the message. The first match counts."""

    def translate(self, error: DatabaseFailed, where: str, name: str | None) -> EngineError:
        """The error that the caller of the engine sees: what happened, and what to do about it."""
        text = str(error)
        advice = self.by_code.get(error.code)
        if advice is None:
            advice = next((hint for part, hint in self.by_message.items() if part in text), None)
        if advice is None and error.outcome == "unknown":
            advice = "the server may have applied the request, or not"
        text = f"{where}: {text}" if advice is None else f"{where}: {text}: {advice}"
        return EngineError(text, outcome=error.outcome, name=name)
