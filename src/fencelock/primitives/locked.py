"""The decorator: hold a lock while a function runs. The call's arguments fill in the lock's name.

A function that wants the lease has a parameter called `lease`. Callers leave it out. As the first parameter
(in a method: the first after `self`) type checkers leave it out, too, and keep all others. No type can leave
out any other parameter of a function, so there a checker still asks callers for the lease.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine
from string import Formatter
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from fencelock.primitives.lease import AsyncLease, Lease
from fencelock.primitives.lock import AsyncLock, Lock

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
Lease_contra = TypeVar("Lease_contra", contravariant=True)
Self_contra = TypeVar("Self_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

AsyncCallable = Callable[P, Coroutine[Any, Any, R]]


class TakesLease(Protocol[Lease_contra, P, R_co]):
    """A function whose first parameter is the lease."""

    def __call__(self, lease: Lease_contra, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class MethodTakesLease(Protocol[Self_contra, Lease_contra, P, R_co]):
    """A method whose first parameter after `self` is the lease."""

    def __call__(
        self, this: Self_contra, /, lease: Lease_contra, *args: P.args, **kwargs: P.kwargs
    ) -> R_co: ...


class Decorator(Protocol):
    """Keeps the signature of a function, but for its `lease`."""

    @overload
    def __call__(self, function: TakesLease[Lease, P, R]) -> Callable[P, R]: ...
    @overload
    def __call__(
        self, function: MethodTakesLease[S, Lease, P, R]
    ) -> Callable[Concatenate[S, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R]: ...


class AsyncDecorator(Protocol):
    """The same for a coroutine function."""

    @overload
    def __call__(
        self, function: TakesLease[AsyncLease, P, Awaitable[R]]
    ) -> AsyncCallable[P, R]: ...
    @overload
    def __call__(
        self, function: MethodTakesLease[S, AsyncLease, P, Awaitable[R]]
    ) -> AsyncCallable[Concatenate[S, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> AsyncCallable[P, R]: ...


def locked(template: str, make: Callable[[str], Lock]) -> Decorator:
    """Decorate a function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is async: decorate it with an AsyncClient")
        call = Call(template, function)

        def wrapper(*args: Any, **kwargs: Any) -> R:
            with make(call.name(args, kwargs)) as lease:
                args, kwargs = call.add_lease(args, kwargs, lease)
                return function(*args, **kwargs)

        return call.describe(wrapper)

    return decorate


def async_locked(template: str, make: Callable[[str], AsyncLock]) -> AsyncDecorator:
    """Decorate a coroutine function so that it runs under the lock that `make` makes for its name."""

    def decorate(function: Callable[..., Awaitable[R]]) -> AsyncCallable[..., R]:
        call = Call(template, function)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is not async: decorate it with a Client")

        async def wrapper(*args: Any, **kwargs: Any) -> R:
            async with make(call.name(args, kwargs)) as lease:
                args, kwargs = call.add_lease(args, kwargs, lease)
                return await function(*args, **kwargs)

        return call.describe(wrapper)

    return decorate


class Call:
    """How a call's arguments become the lock's name, and where the function takes its lease."""

    def __init__(self, template: str, function: Callable[..., Any]) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator, which would run after the lock is released: "
                "take the lock inside it, with `with`"
            )
        self._template = template
        self._function = function
        signature = inspect.signature(function)
        taken = signature.parameters.get("lease")
        self._wants_lease = taken is not None
        self._lease_at = sys.maxsize  # by keyword
        if taken is not None and taken.kind is not taken.KEYWORD_ONLY:
            self._lease_at = list(signature.parameters).index("lease")
        others = [each for each in signature.parameters.values() if each.name != "lease"]
        self._signature = signature.replace(parameters=others)
        """As callers see it: without the lease."""
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
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._template.format_map(bound.arguments)

    def add_lease(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], lease: object
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self._wants_lease:
            return args, kwargs
        at = self._lease_at
        if at > len(args):
            return args, {**kwargs, "lease": lease}
        return (*args[:at], lease, *args[at:]), kwargs

    def describe(self, wrapper: Callable[P, R]) -> Callable[P, R]:
        """Give the wrapper the function's name, docstring and signature, without the lease."""
        functools.update_wrapper(wrapper, self._function)
        vars(wrapper)["__signature__"] = self._signature
        return wrapper
