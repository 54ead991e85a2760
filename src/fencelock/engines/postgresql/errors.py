"""What PostgreSQL's errors mean, and what to do about them."""

from __future__ import annotations

from fencelock.engines.sql.database import Errors

NOT_PREPARED = "26000"
"""The session has forgotten a prepared statement."""

NOT_ALLOWED = "42501"
"""The user has no right to do that."""

_SCHEMA = "have its owner run the SQL that `fencelock schema postgresql` prints, with its GRANTs"
_TOO_MANY_CONNECTIONS = "raise max_connections, or share one Client per process"
_ADDRESS = "is the server running there, and is this its address?"
_NOT_POSTGRESQL = "is this a PostgreSQL server at all?"

_BY_CODE = {
    "25006": "this is a standby, or the user's transactions are read-only: use the primary's address, "
    "and leave default_transaction_read_only off for this user",
    "25001": "set default_transaction_isolation to 'read committed' for this user",
    "42501": f"the user has no right to do that: {_SCHEMA}",
    "3F000": _SCHEMA,
    "42883": _SCHEMA,
    "42P01": _SCHEMA,
    "53300": f"{_TOO_MANY_CONNECTIONS} and lower its ?connections=",
    "53100": "the server's disk is full: make room",
    "55P03": "another transaction has locked rows of Fencelock for long: look into pg_stat_activity",
    "57014": "the server gave up: another transaction may have locked rows of Fencelock; "
    "look into pg_stat_activity",
    "57P03": "the server is starting up or shutting down: try again in a moment",
    "FL001": "rename one of the two: with postgresql+advisory:// they would be one lock",
    "22P05": "the database's encoding can't store this name: use a database in UTF8",
}

# While connecting, libpq gives no code, only a message.
_BY_MESSAGE = {
    "password authentication failed": "check the user and the password in the URL",
    "no password supplied": "put the password in the URL, or in ~/.pgpass",
    "no pg_hba.conf entry": "let pg_hba.conf admit this user from this address to this database",
    "Peer authentication failed": "over a socket the user must have the name of the system user",
    "does not exist": "check the user and the database in the URL",
    "too many clients": _TOO_MANY_CONNECTIONS,
    "remaining connection slots": _TOO_MANY_CONNECTIONS,
    "too many connections": _TOO_MANY_CONNECTIONS,
    "no more connections allowed": _TOO_MANY_CONNECTIONS,
    "server does not support SSL": "leave sslmode=require out, or switch TLS on in the server",
    "certificate verify failed": "name the authority that signed its certificate with ?sslrootcert=FILE",
    "certificate": "look at sslmode, sslrootcert, sslcert and sslkey in the URL",
    "is a standby": "name the primary in the URL, or all servers: postgresql://a,b/database",
    "but Fencelock needs": "update the server",
    "starting up": "try again in a moment",
    "invalid response to SSL negotiation": _NOT_POSTGRESQL,
    "expected authentication request": _NOT_POSTGRESQL,
    "may not create": _SCHEMA,
    "can't connect to": _ADDRESS,
    "while connecting": _ADDRESS,
}

ERRORS = Errors(
    retriable=("40001", "40P01", NOT_PREPARED),  # could not serialize, deadlock
    missing=("3F000", "42883", "42P01"),  # a schema, a function, a table
    by_code=_BY_CODE,
    by_message=_BY_MESSAGE,
)
