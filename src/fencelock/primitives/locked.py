"""The decorator: hold a lock while a function runs, its name filled in from the call's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from string import Formatter
from typing import Any, Protocol, TypeVar

from fencelock.primitives.lock import AsyncLock, Lock

R = TypeVar("R")


class Decorator(Protocol):
    """Keeps what a function returns, but not what it takes: callers leave out its `lease`."""

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]: ...


class AsyncDecorator(Protocol):
    """The same for a coroutine function."""

    def __call__(self, function: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]: ...


def locked(template: str, make: Callable[[str], Lock]) -> Decorator:
    """Decorate a function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is async: decorate it with an AsyncClient")
        call = _Call(template, function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> R:
            with make(call.name(args, kwargs)) as lease:
                return function(*args, **call.passing(kwargs, lease))

        return wrapper

    return decorate


def async_locked(template: str, make: Callable[[str], AsyncLock]) -> AsyncDecorator:
    """Decorate a coroutine function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
        call = _Call(template, function)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is not async: decorate it with a Client")

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> R:
            async with make(call.name(args, kwargs)) as lease:
                return await function(*args, **call.passing(kwargs, lease))

        return wrapper

    return decorate


class _Call:
    """How a function's arguments become a lock's name, and how it gets its lease."""

    def __init__(self, template: str, function: Callable[..., Any]) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator, which would run after the lock is released: "
                "take the lock inside it, with `with`"
            )
        self._template = template
        self._signature = inspect.signature(function)
        self._wants_lease = "lease" in self._signature.parameters
        self._check()

    def _check(self) -> None:
        """Refuse a name that can't be filled in, now and not at the first call."""
        known = list(self._signature.parameters)
        for _, field, _, _ in Formatter().parse(self._template):
            if field is not None and field.split(".")[0].split("[")[0] not in known:
                raise ValueError(
                    f"the name {self._template!r} asks for {{{field}}}, but the function has no such "
                    f"argument: it has {', '.join(known) or 'none'}"
                )

    def name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        given = {**kwargs, "lease": None} if self._wants_lease else kwargs
        bound = self._signature.bind(*args, **given)
        bound.apply_defaults()
        return self._template.format_map(bound.arguments)

    def passing(self, kwargs: dict[str, Any], lease: object) -> dict[str, Any]:
        return {**kwargs, "lease": lease} if self._wants_lease else kwargs
