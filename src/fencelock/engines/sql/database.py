"""What a database's own folder provides: connections, and what its errors mean."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from fencelock.core.errors import EngineError
from fencelock.core.url import Url
from fencelock.engines.failure import RequestFailed
from fencelock.engines.sql.interruptible import input_poll
from fencelock.engines.sql.requests import Request

if TYPE_CHECKING:
    from fencelock.engines import diagnosis
    from fencelock.io.contract import IO


class Wire(ABC):
    """One connection, used by one request at a time. Its methods raise `RequestFailed`."""

    def __init__(self, descriptor: int) -> None:
        self.broken = False
        self._input = input_poll(descriptor)

    @abstractmethod
    async def call(self, request: Request, timeout: float) -> list[str]:
        """Send a request. Returns the first column of the rows that answer it."""

    @abstractmethod
    async def begin(self, request: Request, timeout: float) -> None:
        """Send a request whose answer may take long, and don't wait for the answer."""

    @abstractmethod
    async def answered(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the answer to `begin`. Returns whether it came."""

    @abstractmethod
    def interrupt(self) -> None:
        """Make a waiting `answered` return at once. From any thread."""

    def is_cut(self) -> bool:
        """Whether the server has closed the idle connection. Called before each use: must be cheap."""
        # To an idle client the server sends nothing but its goodbye.
        return bool(self._input.poll(0))

    @abstractmethod
    def hang_up(self) -> None:
        """End the connection while another thread or task reads from it: the reader then closes it."""

    @abstractmethod
    def close(self) -> None: ...


W = TypeVar("W", bound=Wire)


class Server(Protocol[W]):
    """Opens connections."""

    async def connect(self, timeout: float) -> W:
        """Open a connection that is ready for use."""

    async def install(self, wire: W, timeout: float) -> None:
        """Create the tables and functions that the requests need."""

    async def describe(self, io: IO, timeout: float) -> Sequence[diagnosis.Server]:
        """What the servers say about themselves: `Engine.diagnose`."""


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

    def translate(self, error: RequestFailed, where: str, name: str | None) -> EngineError:
        """The error that the caller of the engine sees: what happened, and what to do about it."""
        return EngineError(f"{where}: {self.explain(error)}", outcome=error.outcome, name=name)

    def explain(self, error: RequestFailed) -> str:
        """What happened, and what to do about it."""
        text = str(error)
        advice = self.by_code.get(error.code)
        if advice is None:
            advice = next((hint for part, hint in self.by_message.items() if part in text), None)
        if advice is None and error.outcome == "unknown":
            advice = "the server may have applied the request, or not"
        return text if advice is None else f"{text}: {advice}"


def client_closed() -> RequestFailed:
    """The error for a request of a client that was closed."""
    return RequestFailed("the client was closed: make a new one", "not applied")


def identifier_of(url: Url, option: str, default: str, max_length: int) -> str:
    """An option that becomes a part of unquoted SQL names: `schema` or `prefix`."""
    text = url.options.get(option, default)
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", text) or len(text) > max_length:
        raise ValueError(
            f"{url}: option {option} must be lower-case letters, digits and underscores, at most "
            f"{max_length} of them, not {text!r}"
        )
    return text
