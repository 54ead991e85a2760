"""The decorator: hold a lock while a function runs, its name filled in from the call's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.primitives.lock import AsyncLock, Lock

F = TypeVar("F", bound=Callable[..., Any])


def locked(template: str, make: Callable[[str], Lock]) -> Callable[[F], F]:
    """Decorate a function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: F) -> F:
        call = _Call(template, function)
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is async: decorate it with an AsyncClient")

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make(call.name(args, kwargs)) as lease:
                return function(*args, **call.passing(kwargs, lease))

        return wrapper  # type: ignore[return-value]  # wraps() keeps the signature, mypy can't see it

    return decorate


def async_locked(template: str, make: Callable[[str], AsyncLock]) -> Callable[[F], F]:
    """Decorate a coroutine function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: F) -> F:
        call = _Call(template, function)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is not async: decorate it with a Client")

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            async with make(call.name(args, kwargs)) as lease:
                return await function(*args, **call.passing(kwargs, lease))

        return wrapper  # type: ignore[return-value]  # wraps() keeps the signature, mypy can't see it

    return decorate


class _Call:
    """How a function's arguments become a lock's name, and how it gets its lease."""

    def __init__(self, template: str, function: Callable[..., Any]) -> None:
        self._template = template
        self._signature = inspect.signature(function)
        self._wants_lease = "lease" in self._signature.parameters

    def name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = {**kwargs, "lease": None} if self._wants_lease else kwargs
        bound = self._signature.bind(*args, **given)
        bound.apply_defaults()
        try:
            return self._template.format_map(bound.arguments)
        except KeyError as error:
            raise ValueError(
                f"the name {self._template!r} asks for {error}, but the function has no such argument: "
                f"it has {', '.join(self._signature.parameters)}"
            ) from None

    def passing(self, kwargs: dict[str, Any], lease: object) -> dict[str, Any]:
        return {**kwargs, "lease": lease} if self._wants_lease else kwargs
