"""What MySQL's errors mean, and what to do about them."""

from __future__ import annotations

from fencelock.engines.sql.database import Errors

NOT_ALLOWED = ("1044", "1142", "1227", "1370", "1419")
"""The user has no right to do that."""

LOST = (0, 2006, 2013, 2014, 2055)
"""The connection is lost. The server may have applied the request, or not."""

KILLED = 1317
"""Somebody ended the statement with KILL QUERY."""

ENDED = (1053, 1180, 1181, 1194, KILLED, 1927, 1969, 3024, 4031)
"""Something outside ended the request, perhaps after its commit."""

_SCHEMA = "have its owner run the SQL that `fencelock schema mysql` prints, with its GRANTs"
_NO_RIGHT = f"the user has no right to do that: {_SCHEMA}"
_TOO_MANY_CONNECTIONS = (
    "raise max_connections, or share one Client per process and lower its ?connections="
)
_CONTENTION = "too many clients wanted this lock at once: try again"
_READ_ONLY = "name the server that is written to, not a replica of it"
_NOT_MYSQL = "is this a MySQL or MariaDB server at all?"
_ADDRESS = "is the server running there, and is this its address?"

_BY_CODE = {
    "1020": _CONTENTION,
    "1040": _TOO_MANY_CONNECTIONS,
    "1044": "check the user and the database in the URL, and the user's GRANTs",
    "1045": "check the user and the password in the URL",
    "1049": "create it, or check the database in the URL",
    "1114": "the server's disk is full: make room",
    "1129": "the server blocks this host after too many errors: FLUSH HOSTS there",
    "1130": "let the server admit this user from this host",
    "1142": _NO_RIGHT,
    "1146": _SCHEMA,
    "1203": _TOO_MANY_CONNECTIONS,
    "1205": "another transaction has locked rows of Fencelock for long: look into "
    "information_schema.INNODB_TRX",
    "1213": _CONTENTION,
    "1226": "the user has reached its limit in the server: raise the limit",
    "1290": _READ_ONLY,
    "1305": _SCHEMA,
    "1317": "somebody ended the request with KILL: the server may have applied it, or not",
    "1370": _NO_RIGHT,
    "1665": "set binlog_format to MIXED or ROW",
    "1698": "this user may only log in through the server's socket: use another user",
    "1792": _READ_ONLY,
    "1836": _READ_ONLY,
    "2026": "leave sslmode out, or switch TLS on in the server",
    "3159": "the server wants TLS: add ?sslmode=verify-full",
    "4151": "set the user's password first",
}

_BY_MESSAGE = {
    "has the same hash": "rename one of the two: with mysql+getlock:// they would be one lock",
    "may not create": _SCHEMA,
    "but Fencelock needs": "update the server",
    "sysdate-is-now": "start it without --sysdate-is-now",
    "Packet sequence number wrong": _NOT_MYSQL,
    "an answer that is not MySQL's": _NOT_MYSQL,
    "certificate verify failed": "name the authority that signed its certificate with ?sslrootcert=FILE",
    "cryptography": "use TLS (?sslmode=verify-full), or: pip install cryptography",
    "Can't connect to": _ADDRESS,
    "while connecting": _ADDRESS,
}

ERRORS = Errors(
    retriable=("1213", "1020"),  # deadlock, the record has changed
    missing=("1146", "1305"),  # a table, a procedure
    by_code=_BY_CODE,
    by_message=_BY_MESSAGE,
)
