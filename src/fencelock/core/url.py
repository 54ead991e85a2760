"""The URL of an engine, in parts. Its text form never shows the password."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from posixpath import join
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from fencelock.core.durations import seconds

_NAMED = ("memory",)
"""Schemes whose URLs contain a name and no host. The name is any text."""

_TOKENS = ("http", "https")
"""Schemes whose URLs contain a token instead of a user: it is a secret."""

NAMESPACE = "namespace"


class CredentialProvider(Protocol):
    """What redis-py calls a `CredentialProvider`. It may also have `get_credentials_async`."""

    def get_credentials(self) -> Any: ...


Credentials: TypeAlias = Callable[[], Any] | CredentialProvider
"""Returns a password, `(password,)` or `(user, password)`; with asyncio also an awaitable of that."""

_HOST = re.compile(r"(?:\[(?P<address>[^\]]+)\]|(?P<name>[^:\[]+))(?::(?P<port>[0-9]{0,5}))?")
"""`name`, `name:port` or `[address]:port`."""


class Url(NamedTuple):
    """`scheme://user:password@host:port,host:port/path?option=value`."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    user: str | None
    password: str | None
    path: str
    options: dict[str, str]
    folder: str = ""
    """Relative paths in this URL begin in this folder. "": in the working folder."""
    credentials: Credentials | None = None
    """Asked for user and password for each new connection, if they are not in the URL."""
    tls: Any = None
    """The `ssl.SSLContext` to use, if the options don't say it."""

    @classmethod
    def parse(cls, text: str) -> Url:
        """Split a URL into its parts. A `ValueError` says what is wrong and never shows the password."""
        if not isinstance(text, str):
            raise TypeError(f"a lock URL must be a str, not {type(text).__name__}")
        scheme, separator, _ = text.partition("://")
        if not separator or not scheme:
            raise ValueError(
                "a lock URL must look like scheme://…, e.g. sqlite:///locks.db or redis://localhost"
            )
        if scheme.lower() in _NAMED:
            return cls._named(scheme.lower(), text)
        try:
            parts = urlsplit(text)
        except ValueError:  # its message may quote the password
            raise ValueError(
                f"{scheme}://…: this is not a well-formed URL; check its host"
            ) from None
        if parts.scheme != scheme.lower():
            raise ValueError(
                "a lock URL must begin with a scheme of letters, digits, '+', '-' and '.'"
            )
        if "@" not in parts.netloc and parts.netloc and "@" in text:
            # Otherwise the rest of the password would count as the path, and be shown.
            raise ValueError(
                f"{scheme}://…: an '@' stands behind a '/', '?' or '#': if these belong to the "
                "password, write them as %2F, %3F and %23"
            )
        # urlsplit knows only one host, so the list of hosts is split here.
        credentials, _, hostlist = parts.netloc.rpartition("@")
        user, _, password = credentials.partition(":")
        return cls(
            scheme=parts.scheme,
            hosts=tuple(_host(item, parts.scheme) for item in hostlist.split(",") if hostlist),
            user=unquote(user) or None,
            password=unquote(password) or None,
            path=unquote(parts.path),
            options=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )

    @classmethod
    def _named(cls, scheme: str, text: str) -> Url:
        name = text.partition("://")[2]
        front, _, query = name.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True)) if "=" in query else {}
        name = front if options else name
        return cls(scheme, ((name, None),) if name else (), None, None, "", options)

    def __str__(self) -> str:
        """The URL for people: the password is replaced and the options are left out."""
        secret = ":***" if self.password else ""
        user = "***" if self.user and self.scheme in _TOKENS else self.user or ""
        credentials = f"{user}{secret}@" if self.user or self.password else ""
        show = _show if self.scheme not in _NAMED else lambda name, _: name
        hosts = ",".join(show(host, port) for host, port in self.hosts)
        return f"{self.scheme}://{credentials}{hosts}{self.path}"

    def __repr__(self) -> str:
        return f"<Url {self}>"

    def only(self, *known: str) -> None:
        """Refuse options that the engine does not know, so that a misspelt option is never ignored."""
        for option in self.options:
            if option not in known and option != NAMESPACE:
                listing = ", ".join((*known, NAMESPACE))
                raise ValueError(f"{self}: unknown option {option!r}; known options: {listing}")

    @property
    def namespace(self) -> str | None:
        """The option that every URL may have: the namespace of the client's names."""
        return self.options.get(NAMESPACE)

    def file(self, option: str) -> str | None:
        """The path in an option that names a file, or None if the option is not given."""
        path = self.options.get(option)
        return None if path is None else join(self.folder, path)

    def number(self, option: str, default: int, most: int) -> int:
        """The value of an option that is a whole number from 1 to `most`."""
        text = self.options.get(option, str(default))
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
            raise ValueError(f"{self}: option {option} must be a whole number from 1 to {most}")
        return int(text)

    def seconds(self, option: str, default: float) -> float:
        """The value of an option that is a duration: 2, 500ms, 1m."""
        text = self.options.get(option)
        if text is None:
            return default
        try:
            value = seconds(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise ValueError(
                f"{self}: option {option} must be more than 0 seconds, e.g. 2 or 500ms"
            )
        return value


def _host(text: str, scheme: str) -> tuple[str, int | None]:
    match = _HOST.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        raise ValueError(
            f"{scheme}://…: a host must look like name:port, with a port from 1 to 65535"
        )
    return match["address"] or match["name"], port


def _show(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
