"""The one place where MySQL's failures become ours: what happened, and what to do about it."""

from __future__ import annotations

from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Troubles

FORBIDDEN = ("1044", "1142", "1227", "1370", "1419")
"""The user may not do that."""

LOST = (0, 2006, 2013, 2014, 2055)
"""The connection is lost, and nobody knows what came of the request."""

KILLED = 1317
"""Somebody ended the statement with KILL QUERY."""

IN_DOUBT = (1053, 1180, 1181, 1194, KILLED, 1927, 1969, 3024, 4031)
"""The request was ended from outside, perhaps after its commit."""

_SCHEMA = "have its owner run the SQL that `fencelock schema mysql` prints, with its GRANTs"
_CROWDED = "raise max_connections, or share one Client per process and lower its ?connections="
_PRIMARY = "name the server that is written to, not a replica of it"

_CODES = {
    "1020": "too many at once wanted this lock: try again",
    "1040": _CROWDED,
    "1044": "check the user and the database in the URL, and the user's GRANTs",
    "1045": "check the user and the password in the URL",
    "1049": "create it, or check the database in the URL",
    "1114": "the server's disk is full: make room",
    "1129": "the server has had enough of this host: FLUSH HOSTS there",
    "1130": "let the server admit this user from this host",
    "1142": f"the user may not do that: {_SCHEMA}",
    "1146": _SCHEMA,
    "1203": _CROWDED,
    "1205": "somebody's transaction has locked rows of Fencelock for long: look into "
    "information_schema.INNODB_TRX",
    "1213": "too many at once wanted this lock: try again",
    "1226": "the user has used up what the server grants it: raise its limit",
    "1290": _PRIMARY,
    "1305": _SCHEMA,
    "1317": "somebody ended the request with KILL: whether it was carried out is not known",
    "1370": f"the user may not do that: {_SCHEMA}",
    "1665": "set binlog_format to MIXED or ROW",
    "1698": "this user may only come through the server's socket: use another one",
    "1792": _PRIMARY,
    "1836": _PRIMARY,
    "2003": "is the server running there, and is this its address?",
    "2026": "look at sslmode, sslrootcert, sslcert and sslkey in the URL",
    "3159": "the server wants TLS: add ?sslmode=verify-full",
    "4151": "the user's password has to be set first",
}

_HINTS = {
    "has the same hash": "rename one of the two: with mysql+getlock:// they would be one lock",
    "may not create": _SCHEMA,
    "but Fencelock needs": "update the server",
    "sysdate-is-now": "start it without --sysdate-is-now",
    "connections of this client were busy": "raise ?connections= in the URL",
    "the client was closed": "make a new one",
    "Packet sequence number wrong": "is this a MySQL or MariaDB server at all?",
    "speaks otherwise": "is this a MySQL or MariaDB server at all?",
    "certificate verify failed": "name the authority that signed its certificate with ?sslrootcert=FILE",
    "doesn't support SSL": "leave sslmode out, or switch TLS on in the server",
    "cryptography": "use TLS (?sslmode=verify-full), or: pip install cryptography",
    "while connecting": "is the server running there, and is this its address?",
}


def _explained(error: DatabaseFailed) -> str:
    text = str(error)
    advice = next((hint for part, hint in _HINTS.items() if part in text), None)
    if advice is None:
        advice = _CODES.get(error.code)
    if advice is None and error.outcome == "unknown":
        advice = "whether the request was carried out is not known"
    return text if advice is None else f"{text}: {advice}"


TROUBLES = Troubles(
    try_again=("1213", "1020"),  # deadlock, the record has changed
    not_there=("1146", "1305"),  # a table, a procedure
    explained=_explained,
)
