"""How a request to a server fails, inside an engine. Callers of an engine see `EngineError` instead."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fencelock.core.errors import Outcome
from fencelock.core.ticket import Ticket

P = ParamSpec("P")
T = TypeVar("T")


class RequestFailed(Exception):
    """A request got no usable answer. `outcome` says whether the server may have applied it.

    `code` is the server's own error code, for engines that look at it.
    """

    def __init__(self, message: str, outcome: Outcome, code: str = "") -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome
        self.code = code


def translated(
    operation: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Turn the `RequestFailed` of an engine's operation into what its `_translated(error, name)` returns.

    For async methods whose first argument, given by position, is a ticket, a name or several tickets.
    """

    @wraps(operation)
    async def translating(*args: P.args, **options: P.kwargs) -> T:
        try:
            return await operation(*args, **options)
        except RequestFailed as error:
            engine: Any = args[0]
            # The argument of `names` is a pattern, which is not a name.
            name = None if operation.__name__ == "names" else _name_of(args[1])
            raise engine._translated(error, name) from error

    return translating


def _name_of(subject: Any) -> str | None:
    """The name that an operation is about; None if there are several."""
    if isinstance(subject, str):
        return subject
    if isinstance(subject, Ticket):
        return subject.name
    return subject[0].name if len(subject) == 1 else None
