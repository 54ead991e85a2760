"""How a request to a server fails, inside an engine. Callers of an engine see `EngineError` instead."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from fencelock.core.errors import Outcome
from fencelock.core.ticket import Ticket

Operation = TypeVar("Operation", bound=Callable[..., Coroutine[Any, Any, Any]])


class RequestFailed(Exception):
    """A request got no usable answer. `outcome` says whether the server may have applied it."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome


def translated(operation: Operation) -> Operation:
    """Decorate an engine's operation, so that it raises `EngineError` instead of `RequestFailed`.

    The operation's first argument is a ticket, a name or a sequence of tickets. The engine's method
    `_translated(error, name)` makes the `EngineError`.
    """

    @wraps(operation)
    async def translating(self: Any, about: Any, *args: Any, **options: Any) -> Any:
        try:
            return await operation(self, about, *args, **options)
        except RequestFailed as error:
            raise self._translated(error, _name_of(about)) from error

    return cast(Operation, translating)


def _name_of(about: Ticket | str | Sequence[Ticket]) -> str | None:
    """The name that an operation is about. None if it is about several tickets."""
    if isinstance(about, str):
        return about
    if isinstance(about, Ticket):
        return about.name
    return about[0].name if len(about) == 1 else None
