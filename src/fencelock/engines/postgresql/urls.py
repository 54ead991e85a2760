"""What a PostgreSQL URL means: the servers, the user, and how to connect."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

from psycopg.conninfo import make_conninfo

from fencelock.core.url import Url
from fencelock.engines.postgresql.schema import SCHEMA
from fencelock.engines.sql.database import identifier_of

OPTIONS = ("schema", "connections", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey")

_PORT = 5432

_SESSION = {
    # The server shows this setting back. If it does not, a pooler in between has dropped our settings.
    "fencelock.direct": "yes",
    "default_transaction_isolation": "read committed",
    # Milliseconds. The request of a client that is gone must end.
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


class Host(NamedTuple):
    """Where a server may be: a host, or the folder of its socket. None is libpq's default."""

    name: str | None
    port: int

    def __str__(self) -> str:
        if self.name is None or self.name.startswith("/"):
            return f"the socket in {self.name}" if self.name else "the default server"
        return f"{self.name}:{self.port}"


class Target(NamedTuple):
    """A URL, parsed."""

    where: str
    """The URL without its password, for messages."""
    hosts: tuple[Host, ...]
    settings: dict[str, str]
    schema: str
    connections: int

    sessions: bool = False
    """Whether this is for session locks: then a statement may wait for a lock without a time limit."""

    def conninfo(self, host: Host, address: str | None, *, direct: bool) -> str:
        """libpq's connection string for one address of one server."""
        settings: dict[str, Any] = {**self.settings, **_KEEP_ALIVE}
        settings |= {"host": host.name, "hostaddr": address, "port": host.port}
        settings |= {"application_name": "fencelock", "client_encoding": "utf8"}
        if direct:
            session = _SESSION | ({"statement_timeout": "0"} if self.sessions else {})
            settings["options"] = " ".join(
                f"-c {name}={value}".replace("read c", r"read\ c")
                for name, value in session.items()
            )
        return make_conninfo(**{key: value for key, value in settings.items() if value is not None})


def target_of(url: Url, *more: str) -> Target:
    """Parse a URL. Raises a `ValueError` that says what is wrong with it. `more`: further options."""
    url.only(*OPTIONS, *more)
    schema = identifier_of(url, "schema", SCHEMA, 51)
    connections = url.number("connections", 8, 9999)
    database = url.path.strip("/")
    if "/" in database:
        raise ValueError(f"{url}: name one database, as in postgresql://localhost/database")
    hosts = tuple(Host(unquote(host), port or _PORT) for host, port in url.hosts)
    if not hosts:
        hosts = (Host(url.options.get("host"), url.number("port", _PORT, 65535)),)
    elif "host" in url.options or "port" in url.options:
        raise ValueError(f"{url}: name host and port once: before the database, or as options")
    settings = {key: value for key, value in url.options.items() if key.startswith("ssl")}
    settings |= {"dbname": database} if database else {}
    settings |= {"user": url.user} if url.user else {}
    settings |= {"password": url.password} if url.password else {}
    return Target(str(url), hosts, settings, schema, connections)
