"""FastAPI: a dependency that holds a lock while an endpoint runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, Unpack

from fastapi import Depends

from fencelock.client import AsyncClient, AsyncOptions
from fencelock.primitives.lease import AsyncLease

TIMEOUT = 5.0
"""Seconds that a request waits for its lock, if the program does not say."""


def held(
    client: AsyncClient,
    name: str | Callable[..., Any],
    *,
    scope: Literal["function", "request"] = "function",
    **options: Unpack[AsyncOptions],
) -> Any:
    """A dependency that holds a lock while the endpoint runs, and gives it the lease.

    `name` is the lock's name, or a function that makes it: a dependency itself, whose parameters FastAPI
    fills in, from the path for example. The options are those of `client.lock`, but `timeout` is 5 seconds
    if not given: a request must not wait for ever. `scope="request"` holds the lock until the response is
    sent, which a streamed response needs.
    """
    if not isinstance(client, AsyncClient):
        raise TypeError(
            "held() needs an AsyncClient: FastAPI enters and leaves a blocking dependency in two threads. "
            "Decorate a blocking endpoint with @client.locked(…)"
        )
    if isinstance(name, str) and "{" in name:
        raise ValueError(
            f"{name!r}: held() fills nothing in, because 7 and 07 in a path are two texts and may be one "
            "order. Give it a function, e.g. def order_lock(order_id: int): return f'order:{order_id}'"
        )
    options = {"timeout": TIMEOUT, **options}
    client.lock("any name", **options)  # a wrong option is refused here
    name_of = name if callable(name) else lambda: name

    async def hold(name: str = Depends(name_of)) -> AsyncIterator[AsyncLease]:
        async with client.lock(name, **options) as lease:
            yield lease

    return Depends(hold, scope=scope)
