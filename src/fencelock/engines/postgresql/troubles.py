"""The one place where PostgreSQL's failures become ours: what happened, and what to do about it."""

from __future__ import annotations

from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Troubles

UNPREPARED = "26000"
"""The session has forgotten what it had prepared."""

FORBIDDEN = "42501"
"""The user may not do that."""

_SCHEMA = "have its owner run the SQL that `fencelock schema postgresql` prints, with its GRANTs"

_CODES = {
    "25006": "this is a standby, or the user's transactions are read-only: use the primary's address, "
    "and leave default_transaction_read_only off for this user",
    "25001": "set default_transaction_isolation to 'read committed' for this user",
    "42501": f"the user may not do that: {_SCHEMA}",
    "3F000": _SCHEMA,
    "42883": _SCHEMA,
    "42P01": _SCHEMA,
    "53300": "raise max_connections, or share one Client per process and lower its ?connections=",
    "53100": "the server's disk is full: make room",
    "55P03": "somebody's transaction has locked rows of Fencelock for long: look into pg_stat_activity",
    "57014": "the server gave up on it: somebody's transaction may have locked rows of Fencelock; "
    "look into pg_stat_activity",
    "57P03": "the server is starting up or shutting down: try again in a moment",
    "FL001": "rename one of the two: with postgresql+advisory:// they would be one lock",
    "22P05": "the database's encoding can't store this name: use a database in UTF8",
}
_SAME_AS_53300 = "raise max_connections, or share one Client per process"

# While connecting libpq gives no code, only a message.
_HINTS = {
    "password authentication failed": "check the user and the password in the URL",
    "no password supplied": "put the password in the URL, or in ~/.pgpass",
    "no pg_hba.conf entry": "let pg_hba.conf admit this user from this address to this database",
    "Peer authentication failed": "over a socket the server wants the system user's own name",
    "does not exist": "check the user and the database in the URL",
    "too many clients": _SAME_AS_53300,
    "remaining connection slots": _SAME_AS_53300,
    "too many connections": _SAME_AS_53300,
    "no more connections allowed": _SAME_AS_53300,
    "server does not support SSL": "leave sslmode=require out, or switch TLS on in the server",
    "certificate verify failed": "name the authority that signed its certificate with ?sslrootcert=FILE",
    "certificate": "look at sslmode, sslrootcert, sslcert and sslkey in the URL",
    "is a standby": "name the primary in the URL, or all servers: postgresql://a,b/database",
    "but Fencelock needs": "update the server",
    "starting up": "try again in a moment",
    "invalid response to SSL negotiation": "is this a PostgreSQL server at all?",
    "expected authentication request": "is this a PostgreSQL server at all?",
    "may not create": _SCHEMA,
    "connections of this client were busy": "raise ?connections= in the URL",
    "the client was closed": "make a new one",
}


def _explained(error: DatabaseFailed) -> str:
    text = str(error)
    advice = _CODES.get(error.code)
    if advice is None:
        advice = next((hint for part, hint in _HINTS.items() if part in text), None)
    if advice is None and error.outcome == "not applied" and not error.code:
        advice = "is the server running there, and is this its address?"
    elif advice is None and error.outcome == "unknown":
        advice = "whether the request was carried out is not known"
    return text if advice is None else f"{text}: {advice}"


TROUBLES = Troubles(
    try_again=("40001", "40P01", UNPREPARED),  # could not serialize, deadlock
    not_there=("3F000", "42883", "42P01"),  # a schema, a function, a table
    explained=_explained,
)
