"""What a PostgreSQL URL says: the servers, who we are, and how to connect."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

from psycopg.conninfo import make_conninfo

from fencelock.core.url import Url
from fencelock.engines.postgresql.schema import SCHEMA
from fencelock.engines.sql.options import connections_of, part_of_names

OPTIONS = ("schema", "connections", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey")

_PORT = 5432

_SESSION = {
    # Proof that the server has read these: a pooler in between does not pass them on.
    "fencelock.direct": "yes",
    "default_transaction_isolation": "read committed",
    # What a client that is gone has asked for must not go on for ever.
    "statement_timeout": "3000",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "3000",
}

_KEEP_ALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class Place(NamedTuple):
    """Where a server may be: a host and a port, or the folder of its socket; None is libpq's default."""

    host: str | None
    port: int

    def __str__(self) -> str:
        if self.host is None or self.host.startswith("/"):
            return f"the socket in {self.host}" if self.host else "the default server"
        return f"{self.host}:{self.port}"


class Target(NamedTuple):
    """A URL's meaning."""

    where: str
    places: tuple[Place, ...]
    settings: dict[str, str]
    schema: str
    connections: int

    patient: bool = False
    """Whether a statement may take as long as it likes, as one that waits for a session lock does."""

    def conninfo(self, place: Place, address: str | None, *, direct: bool) -> str:
        """libpq's words for one address of one server."""
        settings: dict[str, Any] = {**self.settings, **_KEEP_ALIVE}
        settings |= {"host": place.host, "hostaddr": address, "port": place.port}
        settings |= {"application_name": "fencelock", "client_encoding": "utf8"}
        if direct:
            session = _SESSION | ({"statement_timeout": "0"} if self.patient else {})
            settings["options"] = " ".join(
                f"-c {name}={value}".replace("read c", r"read\ c")
                for name, value in session.items()
            )
        return make_conninfo(**{key: value for key, value in settings.items() if value is not None})


def target_of(url: Url, *more: str) -> Target:
    """Take a URL apart, or raise a `ValueError` that says what is wrong with it. `more`: known options."""
    url.only(*OPTIONS, *more)
    schema = part_of_names(url, "schema", SCHEMA, 51)
    connections = connections_of(url)
    database = url.path.strip("/")
    if "/" in database:
        raise ValueError(f"{url}: name one database, as in postgresql://localhost/database")
    places = tuple(Place(unquote(host), port or _PORT) for host, port in url.hosts)
    if not places:
        places = (Place(url.options.get("host"), _port(url)),)
    elif "host" in url.options or "port" in url.options:
        raise ValueError(f"{url}: name host and port once: before the database, or as options")
    settings = {key: value for key, value in url.options.items() if key.startswith("ssl")}
    settings |= {"dbname": database} if database else {}
    settings |= {"user": url.user} if url.user else {}
    settings |= {"password": url.password} if url.password else {}
    return Target(str(url), places, settings, schema, connections)


def _port(url: Url) -> int:
    text = url.options.get("port", str(_PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"{url}: option port must be a number from 1 to 65535")
    return int(text)
