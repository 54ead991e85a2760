"""URLs from the clients of other libraries: where their servers are, and how they log in there.

Only that is taken over. Fencelock opens connections of its own, because it speaks to its engines in its own
way. What it can't take over is refused: it may be what makes the server trust the client.
"""

from __future__ import annotations

import os
import ssl
import sys
import threading
from collections.abc import Collection, Mapping
from typing import Any

from fencelock.core.errors import Unsupported
from fencelock.core.url import Url

Given = Mapping[str, Any]


# --- Redis


def url_of_redis(client: Any) -> Url:
    """The URL for the server of a redis-py client, plain or asyncio, also with Sentinel or a Cluster."""
    if (nodes := getattr(client, "nodes_manager", None)) is not None:
        # The client of a Cluster. The asyncio one has the arguments itself.
        given = getattr(client, "connection_kwargs", None) or nodes.connection_kwargs
        kind = given.get("connection_class")
        tls = bool(given.get("ssl")) or (kind is not None and _is(kind, "SSLConnection"))
        seeds = tuple((node.host, int(node.port)) for node in nodes.startup_nodes.values())
        return _redis("redis+cluster", seeds, given, tls=tls)
    if (pool := getattr(client, "connection_pool", None)) is None:
        raise TypeError(f"this takes a client of redis-py, not {type(client).__name__}")
    kind, given = pool.connection_class, pool.connection_kwargs
    if not kind.__module__.startswith("redis."):
        raise Unsupported(
            f"the connections of this client are of a class of its own, {kind.__name__}: "
            "Fencelock can't connect in that way, so give it a URL"
        )
    tls = _is(kind, "SSLConnection")
    if (manager := getattr(pool, "sentinel_manager", None)) is not None:
        own = [sentinel.connection_pool.connection_kwargs for sentinel in manager.sentinels]
        seeds = tuple((each["host"], int(each["port"])) for each in own)
        encrypted = [
            _is(sentinel.connection_pool.connection_class, "SSLConnection")
            for sentinel in manager.sentinels
        ]
        if {*encrypted} != {tls} or own[0].get("username"):
            raise Unsupported(
                "its Sentinels have a user of their own, or TLS where the server has none: Fencelock can't "
                "connect in that way"
            )
        url = _redis("redis+sentinel", seeds, given, tls=tls, path=pool.service_name)
        password = own[0].get("password")
        return url._replace(options={"sentinel_password": password} if password else {})
    if _is(kind, "UnixDomainSocketConnection"):
        url = _redis("redis+unix", (), given, path=given["path"])
        return url._replace(path=given["path"], options={"db": str(given.get("db") or 0)})
    seeds = ((given.get("host") or "localhost", int(given.get("port") or 6379)),)
    return _redis("redis", seeds, given, tls=tls)


def _redis(
    scheme: str,
    hosts: tuple[tuple[str, int | None], ...],
    given: Given,
    *,
    tls: bool = False,
    path: str = "",
) -> Url:
    if given.get("redis_connect_func") is not None and "cluster" not in scheme:
        raise Unsupported(
            "this client calls a function with each new connection (redis_connect_func), which Fencelock "
            "can't: give it a URL"
        )
    database = int(given.get("db") or 0)
    return Url(
        scheme=scheme.replace("redis", "rediss", 1) if tls else scheme,
        hosts=hosts,
        user=given.get("username") or None,
        password=given.get("password") or None,
        path=f"/{path}/{database}" if path else f"/{database}",
        options={},
        credentials=given.get("credential_provider"),
        tls=_redis_tls(given) if tls else None,
    )


def _is(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)


_CERT_REQS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def _redis_tls(given: Given) -> ssl.SSLContext:
    """The TLS context that redis-py would make of its arguments."""
    for argument in ("ssl_validate_ocsp", "ssl_validate_ocsp_stapled"):
        if given.get(argument):
            raise Unsupported(f"Fencelock can't do what {argument} says: give it a URL")
    context = ssl.create_default_context()
    asked: Any = given.get("ssl_cert_reqs", "required") or "none"
    required: ssl.VerifyMode = _CERT_REQS.get(asked, asked)
    context.check_hostname = required != ssl.CERT_NONE and given.get("ssl_check_hostname", True)
    context.verify_mode = required
    for flag in given.get("ssl_include_verify_flags") or ():
        context.verify_flags |= flag
    for flag in given.get("ssl_exclude_verify_flags") or ():
        context.verify_flags &= ~flag
    if given.get("ssl_certfile"):
        context.load_cert_chain(
            given["ssl_certfile"], given.get("ssl_keyfile"), given.get("ssl_password")
        )
    places = [given.get(f"ssl_ca_{where}") for where in ("certs", "path", "data")]
    if any(places):
        context.load_verify_locations(*places)
    if given.get("ssl_min_version"):
        context.minimum_version = given["ssl_min_version"]
    if given.get("ssl_ciphers"):
        context.set_ciphers(given["ssl_ciphers"])
    return context


# --- databases

_PG_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_PG_LEFT = (
    *("application_name", "fallback_application_name", "client_encoding", "options", "context"),
    *("connect_timeout", "tcp_user_timeout", "hostaddr", "gssencmode", "sslcertmode"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("autocommit", "prepare_threshold", "row_factory", "cursor_factory", "passfile", "service"),
)
"""Arguments that don't say which server it is and who we are."""
_PG_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}

_MY_LEFT = (
    *(
        "charset",
        "collation",
        "use_unicode",
        "client_flag",
        "autocommit",
        "cursorclass",
        "cursor_cls",
    ),
    *("init_command", "sql_mode", "conv", "local_infile", "max_allowed_packet", "program_name"),
    *("connect_timeout", "read_timeout", "write_timeout", "echo"),
)


def url_of_psycopg(connection: Any) -> Url:
    """The URL for the server of a psycopg connection, plain or asyncio."""
    info = getattr(connection, "info", None)
    if info is None or not hasattr(info, "get_parameters"):
        raise TypeError(f"this takes a connection of psycopg 3, not {type(connection).__name__}")
    return _postgresql({**info.get_parameters(), "password": info.password})


def url_of_sqlalchemy(engine: Any) -> Url:
    """The URL for the database of an engine of SQLAlchemy, plain or asyncio."""
    engine = getattr(engine, "sync_engine", engine)
    if not hasattr(engine, "dialect") or not hasattr(engine, "pool"):
        raise TypeError(f"this takes an engine of SQLAlchemy, not {type(engine).__name__}")
    args, given = _connect_args(engine)
    kind = engine.dialect.name
    if kind == "postgresql":
        return _postgresql({**_from_environment(given), **given})
    if kind in ("mysql", "mariadb"):
        return _mysql(given)
    if kind == "sqlite":
        return _sqlite(args[0] if args else given.get("database", ""), given)
    raise Unsupported(f"Fencelock has no engine for {kind}: it takes PostgreSQL, MySQL and SQLite")


def _connect_args(engine: Any) -> tuple[list[Any], dict[str, Any]]:
    """What this engine gives to its driver, after all listeners have had their say: they may add passwords.

    It is made to connect, and stopped at the last moment.
    """
    event = sys.modules["sqlalchemy"].event
    caller = threading.get_ident()

    class Stopped(Exception):
        pass

    def stop(_dialect: Any, _record: Any, args: list[Any], given: dict[str, Any]) -> None:
        if threading.get_ident() == caller:
            raise Stopped(args, given)

    event.listen(engine, "do_connect", stop)
    try:
        engine.pool.recreate().connect().invalidate()  # connected by another function, so not stopped
    except Stopped as stopped:
        args, given = stopped.args
        return list(args), dict(given)
    finally:
        event.remove(engine, "do_connect", stop)
    raise Unsupported(
        "this engine connects in a way of its own (creator=…): give Fencelock a URL instead"
    )


def _from_environment(given: Given) -> dict[str, str]:
    """What a driver of PostgreSQL takes from its environment, unless its arguments say it."""
    if given.get("service") or os.environ.get("PGSERVICE"):
        raise Unsupported(
            "this engine's server is named in a service file of PostgreSQL: give Fencelock a URL instead"
        )
    found = {key: os.environ.get(variable) for key, variable in _PG_ENVIRONMENT.items()}
    return {key: value for key, value in found.items() if value}


def _postgresql(given: Given) -> Url:
    _only(given, "host", "port", "user", "password", "dbname", "database", *_PG_TLS, *_PG_LEFT)
    names = str(given.get("host") or given.get("hostaddr") or "").split(",")
    ports = str(given.get("port") or 5432).split(",")
    ports = ports * len(names) if len(ports) == 1 else ports
    hosts = tuple((name, int(port)) for name, port in zip(names, ports, strict=True) if name)
    options = {key: str(given[key]) for key in _PG_TLS if given.get(key)}
    if not hosts:
        options["port"] = ports[0]
    database = str(given.get("dbname") or given.get("database") or given.get("user") or "")
    return Url(
        "postgresql", hosts, given.get("user"), given.get("password"), f"/{database}", options
    )


def _mysql(given: Given) -> Url:
    _only(given, *("host", "port", "user", "password", "passwd", "database", "db"),
          *("unix_socket", "ssl"), *_MY_LEFT)  # fmt: skip
    options: dict[str, str] = {}
    context = given.get("ssl") or None
    if isinstance(context, Mapping):
        options, context = _mysql_tls(context), None
    hosts: tuple[tuple[str, int | None], ...] = ()
    if given.get("unix_socket"):
        options["socket"] = str(given["unix_socket"])
    else:
        hosts = ((str(given.get("host") or "localhost"), given.get("port")),)
    return Url(
        "mysql",
        hosts,
        given.get("user"),
        given.get("password") or given.get("passwd"),
        f"/{given.get('database') or given.get('db') or ''}",
        options,
        tls=context,
    )


def _mysql_tls(given: Given) -> dict[str, str]:
    """The drivers' dict as options of our URL."""
    _only(given, "ca", "cert", "key", "check_hostname")
    names = {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey"}
    options = {names[key]: str(given[key]) for key in names if given.get(key)}
    verified = "verify-full" if given.get("check_hostname", True) else "verify-ca"
    return {**options, "sslmode": verified if given.get("ca") else "require"}


def _sqlite(path: Any, given: Given) -> Url:
    """A lock file beside the database, because it is a file of its own."""
    path = str(path)
    if path in ("", ":memory:") or given.get("uri"):
        raise Unsupported(
            "a lock file goes beside a database in a file, and this one is in memory or has a URI: "
            "give Fencelock a URL such as sqlite:///locks.db"
        )
    return Url("sqlite", (), None, None, f"/{path}.locks", {})


def _only(given: Given, *known: str) -> None:
    strange: Collection[str] = {key for key in given if given[key] is not None} - {*known}
    if strange:
        raise Unsupported(
            f"its connections have the argument {min(strange)!r}, which Fencelock can't take over: "
            "give it a URL instead"
        )
