"""The settings of a replica: one table, from which the TOML file, the flags and the variables are made.

A flag wins over an environment variable, a variable over the file, the file over the default:

    max_ttl = "1h"                      in the file of --config
    FENCELOCK_SERVE_MAX_TTL=1h          in the environment
    --max-ttl 1h                        on the command line
"""

from __future__ import annotations

import dataclasses
import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fencelock.core.durations import MAX_TTL, MIN_TTL
from fencelock.core.durations import seconds as parse_seconds
from fencelock.core.names import MAX_NAME_BYTES
from fencelock.engines.http.wire import MAX_MESSAGE
from fencelock.observe.groups import Groups

log = logging.getLogger("fencelock.service")

PREFIX = "FENCELOCK_SERVE_"

Parse = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(_text(each).strip() for each in parts)


def _groups(value: Any) -> tuple[tuple[str, str], ...]:
    """`{"order:*" = "order"}` in TOML; as a text `order:*=order,payment:*=payment`."""
    if isinstance(value, str):
        value = dict(each.rpartition("=")[::2] for each in value.split(","))
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table of patterns and groups")
    return tuple(Groups(value).patterns.items())


def _peers(value: Any) -> tuple[str, ...]:
    """URLs of replicas. A message must not show a password."""
    found: list[str] = []
    for text in _texts(value):
        url = urlsplit(text)
        if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:
            raise ValueError("a peer is a URL such as https://replica-2:7007")
        if url.username is not None or url.password is not None:
            raise ValueError("the URL of a peer has no user and no password in it")
        if url.path not in ("", "/") or url.query or url.fragment:
            raise ValueError(f"{text!r} has a path: the URL of a peer ends after the port")
        found.append(f"{url.scheme}://{url.netloc}")
    return tuple(dict.fromkeys(found))


def _switch(value: Any) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    found = value if isinstance(value, bool) else known.get(str(value).lower())
    if found is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return found


def _whole(least: int, most: int = 10**9) -> Parse:
    def parse(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"{value!r} is not a whole number")
        if not least <= number <= most:
            raise ValueError(f"it must be between {least} and {most}, not {number}")
        return number

    return parse


def _seconds(least: float, most: float) -> Parse:
    def parse(value: Any) -> float:
        number = parse_seconds(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"{value!r} is not a number of seconds")
        if not least <= number <= most:
            raise ValueError(f"it must be between {least:g} and {most:g} seconds, not {number:g}")
        return float(number)

    return parse


def _setting(default: Any, parse: Parse, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"parse": parse, "help": help})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The table. docs/service/security.md explains the limits."""

    engine: str = _setting("", _text, "The URL of the engine. Default: FENCELOCK_URL.")
    listen: tuple[str, ...] = _setting(
        ("127.0.0.1:7007",), _texts, "HOST:PORT, [IPV6]:PORT or unix:PATH; several with commas."
    )
    tokens: str = _setting("", _text, "The file with tokens and rights: see `fencelock token`.")
    certificate: str = _setting("", _text, "The certificate chain for TLS, a PEM file.")
    key: str = _setting("", _text, "The key of the certificate. Default: in the same file.")
    client_ca: str = _setting("", _text, "The CA of the clients' certificates, a PEM file.")
    insecure: bool = _setting(
        False, _switch, "Serve everybody, also on other addresses than loopback."
    )
    audit: str = _setting("", _text, "The file of the audit log; - is stderr. Default: none.")
    groups: tuple[tuple[str, str], ...] = _setting(
        (), _groups, "The groups of names in metrics, such as 'order:*=order'; several with commas."
    )
    metrics_login: bool = _setting(False, _switch, "Show /metrics only to principals.")
    page: bool = _setting(True, _switch, "Serve the live page at /.")
    peers: tuple[str, ...] = _setting(
        (), _peers, "The URLs of the other replicas, for the live page; several with commas."
    )
    event_streams: int = _setting(
        100, _whole(1), "How many may read /v1/events at once, and how many pages may be open."
    )
    linger: float = _setting(
        0.0, _seconds(0, 600), "After SIGTERM, serve for so long while load balancers notice."
    )
    drain: float = _setting(
        25.0, _seconds(0, 3600), "After SIGTERM, the longest wait for requests under way."
    )
    max_message: int = _setting(
        MAX_MESSAGE, _whole(1024, MAX_MESSAGE), "Bytes of a body or a message on a line."
    )
    max_name: int = _setting(
        MAX_NAME_BYTES, _whole(1, MAX_NAME_BYTES), "Bytes of a lock's name, as UTF-8."
    )
    min_ttl: float = _setting(MIN_TTL, _seconds(MIN_TTL, MAX_TTL), "The shortest ttl.")
    max_ttl: float = _setting(86_400.0, _seconds(MIN_TTL, MAX_TTL), "The longest ttl.")
    max_wait: float = _setting(
        60.0, _seconds(1, 3600), "The longest wait of one request. After it the client asks again."
    )
    rate: int = _setting(5_000, _whole(1), "Requests per second of one principal.")
    waits_per_principal: int = _setting(1_000, _whole(1), "Waiting tickets of one principal.")
    waits: int = _setting(20_000, _whole(1), "Waiting tickets in all.")
    leases_per_principal: int = _setting(10_000, _whole(1), "Leases of one principal.")
    connections: int = _setting(10_000, _whole(1), "Connections in all. A line is one, too.")
    connections_per_address: int = _setting(5_000, _whole(1), "Connections of one address.")
    pipeline: int = _setting(256, _whole(1), "Requests under way on one line. More are read later.")
    header_timeout: float = _setting(
        10.0, _seconds(0.1, 600), "From the connection to the end of the first request's headers."
    )
    body_timeout: float = _setting(
        10.0, _seconds(0.1, 600), "From the headers to the end of a body."
    )
    idle_timeout: float = _setting(75.0, _seconds(1, 3600), "From one request to the next.")
    send_timeout: float = _setting(
        10.0, _seconds(0.1, 600), "How long a client may leave 64 kB of answers unread."
    )


class Entry:
    """One line of the table."""

    def __init__(self, field: dataclasses.Field[Any]) -> None:
        self.key = field.name
        self.default = field.default
        self.help: str = field.metadata["help"]
        self.parse: Parse = field.metadata["parse"]
        self.flag = "--" + self.key.replace("_", "-")
        self.variable = PREFIX + self.key.upper()
        self.is_switch = self.parse is _switch


TABLE = {field.name: Entry(field) for field in dataclasses.fields(Settings)}


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> Settings:
    """The settings from flags (those that are not None), variables and a TOML file.

    Raises `ValueError` with the place of what is wrong.
    """
    values: dict[str, Any] = {}
    for key, value in _read(file).items() if file is not None else ():
        if key not in TABLE:
            raise ValueError(f"{file} has the unknown key {key!r}{_similar(key)}")
        values[key] = _parsed(TABLE[key], value, f"{key} in {file}")
    for entry in TABLE.values():
        if entry.variable in environment:
            text = environment[entry.variable]
            values[entry.key] = _parsed(entry, text, entry.variable)
        if flags.get(entry.key) is not None:
            values[entry.key] = _parsed(entry, flags[entry.key], entry.flag)
    known = {PREFIX + "CONFIG", *(entry.variable for entry in TABLE.values())}
    for variable in environment:
        if variable.startswith(PREFIX) and variable not in known:
            # Kubernetes sets such variables for a service with this name. So this is no error.
            log.warning("the variable %s is not a setting of the service: ignored", variable)
    settings = Settings(**values)
    if settings.min_ttl > settings.max_ttl:
        raise ValueError(f"min_ttl ({settings.min_ttl:g}) is above max_ttl ({settings.max_ttl:g})")
    return settings


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise ValueError(f"{file} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not TOML: {error}") from error


def _parsed(entry: Entry, value: Any, where: str) -> Any:
    try:
        return entry.parse(value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _similar(key: str) -> str:
    from difflib import get_close_matches  # only for a message

    found = get_close_matches(key.replace("-", "_"), TABLE, n=1)
    return f": is it {found[0]!r}?" if found else ": docs/service/security.md lists all keys"
