"""From a URL's scheme to the engine that serves it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from fencelock.core.errors import Unsupported
from fencelock.core.url import Url
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Opener = Callable[[Url, IO], Engine]

GROUP = "fencelock.engines"
"""The entry point group under which other packages offer engines: scheme = "package.module:opener"."""

# scheme -> module, opener, extra. A module is imported when its scheme is first used.
_BUILT_IN = {
    "memory": ("fencelock.engines.memory", "open_memory", None),
    "sqlite": ("fencelock.engines.sqlite.engine", "open_sqlite", None),
    "mysql": ("fencelock.engines.mysql.engine", "open_mysql", "mysql"),
    "mysql+getlock": ("fencelock.engines.mysql.engine", "open_getlock", "mysql"),
    "postgresql": ("fencelock.engines.postgresql.engine", "open_postgresql", "postgres"),
    "postgresql+advisory": ("fencelock.engines.postgresql.engine", "open_advisory", "postgres"),
    "redis": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "rediss": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "redis+unix": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "redis+sentinel": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "rediss+sentinel": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "redis+cluster": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "rediss+cluster": ("fencelock.engines.redis.opening", "open_redis", "redis"),
    "redlock": ("fencelock.engines.redlock.opening", "open_redlock", "redis"),
    "redlocks": ("fencelock.engines.redlock.opening", "open_redlock", "redis"),
    "etcd": ("fencelock.engines.etcd.engine", "open_etcd", "etcd"),
    "etcds": ("fencelock.engines.etcd.engine", "open_etcd", "etcd"),
    "zookeeper": ("fencelock.engines.zookeeper.engine", "open_zookeeper", "zookeeper"),
    "zookeepers": ("fencelock.engines.zookeeper.engine", "open_zookeeper", "zookeeper"),
    "http": ("fencelock.engines.http.opening", "open_http", "http"),
    "https": ("fencelock.engines.http.opening", "open_http", "http"),
}

_VARIANTS = {
    **dict.fromkeys(
        (
            "rediss",
            "redis+unix",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ),
        "redis",
    ),
    "redlocks": "redlock",
    "etcds": "etcd",
    "zookeepers": "zookeeper",
    "https": "http",
}
"""Schemes that reach the same kind of engine in another way."""

_PACKAGES = {"google": "protobuf", "grpc": "grpcio"}
"""The packages of modules that have another name than their package."""


def opener_of(text: str | Url) -> Callable[[IO], Engine]:
    """Parse a URL, and return the function that opens its engine. Opening does no I/O.

    A client opens its engine again after a fork and in another event loop. The program may have changed its
    working folder by then: a relative path in the URL still means the same file.
    """
    url = Url.parse(text) if isinstance(text, str) else text
    if url.credentials is not None:
        if not url.scheme.startswith("red"):
            raise ValueError(f"{url}: credentials are for redis:// and redlock:// only")
        if url.password is not None:
            raise ValueError(f"{url}: give the password or the credentials, not both")
    with suppress(FileNotFoundError):  # the working folder was deleted; most URLs need none
        url = url._replace(folder=os.getcwd())
    return partial(_open, _opener(url), url)


def _open(opener: Opener, url: Url, io: IO) -> Engine:
    engine = opener(url, io)
    engine.label = _VARIANTS.get(url.scheme, url.scheme)
    return engine


def open_engine(text: str, io: IO) -> Engine:
    """The engine for a URL."""
    return opener_of(text)(io)


def _opener(url: Url) -> Opener:
    if url.scheme in _BUILT_IN:
        module, function, extra = _BUILT_IN[url.scheme]
        try:
            opener: Opener = getattr(import_module(module), function)
        except ImportError as error:
            if extra is None or (error.name or "").startswith("fencelock"):
                raise
            raise Unsupported(f"{url.scheme}:// {_missing(error, extra)}") from error
        return opener
    for entry_point in _offered():
        if entry_point.name == url.scheme:
            found: Opener = entry_point.load()
            return found
    known = ", ".join(f"{scheme}://" for scheme in schemes())
    raise Unsupported(f"no engine for {url.scheme}:// URLs; known schemes: {known}")


def _missing(error: ImportError, extra: str) -> str:
    """What is missing: the driver itself, or a library of the system, such as libpq for psycopg."""
    advice = f"install it with: pip install 'fencelock[{extra}]'"
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        return f"needs the package {_PACKAGES.get(module, module)!r}: {advice}"
    said = "; ".join(line.strip() for line in str(error).splitlines())
    return f"can't load its driver ({said}): {advice}"


def schemes() -> list[str]:
    """Every scheme that can be used here."""
    return sorted({*_BUILT_IN, *(entry_point.name for entry_point in _offered())})


def _offered() -> Iterable[EntryPoint]:
    """The engines that other packages offer."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return entry_points(group=GROUP)
