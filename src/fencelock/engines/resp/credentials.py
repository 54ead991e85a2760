"""User and password from a provider, which is asked for each new connection: passwords may rotate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fencelock.core.url import Credentials
from fencelock.engines.failure import RequestFailed


def plain(provider: Credentials) -> Callable[[], Any]:
    """The function to call."""
    return provider if callable(provider) else provider.get_credentials


def user_and_password(answer: object) -> tuple[str | None, str]:
    """What a provider has answered: a password, `(password,)` or `(user, password)`."""
    match answer:
        case str(password) | (str(password),):
            return None, password
        case (str() | None as user, str(password)):
            return user or None, password
    if isinstance(answer, Awaitable):
        close: Any = getattr(answer, "close", lambda: None)
        close()  # it will never be awaited
        raise RequestFailed(
            "the credentials are a coroutine, which nobody awaits here: use an AsyncClient",
            "not applied",
        )
    raise RequestFailed(
        "the credentials must be a password, or a pair of user and password, not "
        f"{type(answer).__name__}",
        "not applied",
    )


def failed(error: Exception) -> RequestFailed:
    """A provider has failed. Its own message is only in the cause: it may contain a secret."""
    return RequestFailed(f"the credentials can't be had: {type(error).__name__}", "not applied")
