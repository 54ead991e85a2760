"""What a MySQL or MariaDB server says about itself. Reads only, and needs no right that locks don't need."""

from __future__ import annotations

from collections.abc import Mapping

from fencelock.engines import diagnosis
from fencelock.engines.diagnosis import is_remote, measure
from fencelock.engines.failure import RequestFailed
from fencelock.engines.mysql.errors import ERRORS, NOT_ALLOWED
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.urls import Target
from fencelock.engines.mysql.wire import Wire
from fencelock.io.contract import IO

# Each question is answered by rows of a name and a value.

_VARIABLES = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    'version', 'hostname', 'datadir', 'server_uid', 'server_uuid', 'read_only', 'super_read_only',
    'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite',
    'log_bin', 'sync_binlog', 'binlog_format', 'wsrep_on', 'max_connections', 'max_user_connections')
"""

_STATUS = """
SHOW GLOBAL STATUS WHERE Variable_name IN (
    'Threads_connected', 'Slaves_connected', 'Slaves_running', 'wsrep_cluster_size',
    'wsrep_cluster_state_uuid')
"""

_SESSION = """
SELECT 'user', CURRENT_USER()
 UNION ALL SELECT 'database', DATABASE()
 UNION ALL SELECT 'clock_moves', IF(SYSDATE(6) > NOW(6), 'yes', 'no')
 UNION ALL SELECT 'session_wait_timeout', @@SESSION.wait_timeout
 UNION ALL SELECT 'user_connections', COUNT(*) FROM information_schema.PROCESSLIST
  WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)
 UNION ALL SELECT 'may_kill', IF(COUNT(*), 'yes', 'no') FROM information_schema.USER_PRIVILEGES
  WHERE PRIVILEGE_TYPE IN ('SUPER', 'CONNECTION ADMIN', 'CONNECTION_ADMIN')
    AND GRANTEE = CONCAT("'", REPLACE(CURRENT_USER(), '@', "'@'"), "'")
 UNION ALL SELECT 'may_create', IF(COUNT(DISTINCT PRIVILEGE_TYPE) = 2, 'yes', 'no') FROM (
    SELECT PRIVILEGE_TYPE, GRANTEE FROM information_schema.USER_PRIVILEGES
     UNION ALL SELECT PRIVILEGE_TYPE, GRANTEE FROM information_schema.SCHEMA_PRIVILEGES
     WHERE DATABASE() LIKE TABLE_SCHEMA) privileges
  WHERE PRIVILEGE_TYPE IN ('CREATE', 'CREATE ROUTINE')
    AND GRANTEE = CONCAT("'", REPLACE(CURRENT_USER(), '@', "'@'"), "'")
"""

# EXPLAIN needs the rights of the statement, and does not carry it out. The procedures read a name that is not
# there. So all rights are tried that a lock needs, wherever they come from.
_RIGHTS = {
    False: (
        "EXPLAIN INSERT INTO {0}_names (name, newest) VALUES ('', 0)",
        "EXPLAIN UPDATE {0}_names SET newest = newest WHERE name = ''",
        "EXPLAIN DELETE FROM {0}_names WHERE name = ''",
        "CALL {0}_v2_recall('')",
    ),
    True: (
        "EXPLAIN INSERT INTO {0}_counters (name, hash, newest) VALUES ('', '', 0)",
        "EXPLAIN UPDATE {0}_counters SET newest = newest WHERE name = ''",
        "EXPLAIN DELETE FROM {0}_counters WHERE name = ''",
        "CALL {0}_v3_session_look('', '', @standing)",
    ),
}
"""Whether it is for session locks, and then statements that need the rights."""

_STRANGERS = """
SELECT 'strangers', COUNT(*) FROM ({}) connections
  LEFT JOIN information_schema.PROCESSLIST p ON p.ID = connections.connection
 WHERE connection IS NOT NULL
   AND (p.ID IS NULL OR p.USER <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1))
"""
"""How many clients log in as another user: most users do not see the connections of others."""

_CONNECTIONS = {
    False: "SELECT IS_USED_LOCK(CONCAT('fencelock.', channel)) AS connection FROM ("
    "SELECT DISTINCT channel FROM {0}_tickets WHERE admitted IS NULL AND channel <> '') channels",
    True: "SELECT connection FROM {0}_sessions "
    "WHERE IS_USED_LOCK(CONCAT('fencelock.', MD5(id))) = connection "
    "UNION SELECT connection FROM {0}_counters WHERE IS_USED_LOCK(hash) = connection",
}
"""Whether it is for session locks, and then the connections of the clients that wait or hold."""

_NOW = "SELECT UNIX_TIMESTAMP(SYSDATE(6))"


async def describe(
    server: Server, target: Target, sessions: bool, io: IO, timeout: float
) -> diagnosis.Server:
    """The server of the URL."""
    host = target.settings.get("host")
    where = target.settings.get("unix_socket") or f"{host}:{target.settings['port']}"
    described = diagnosis.Server(
        where,
        "server",
        remote=host is not None and is_remote(host),
        encrypted=target.settings["ssl"] is not None,
    )
    asking = _Asking(server, timeout)
    try:
        questions = {"SHOW VARIABLES": _VARIABLES, "SHOW STATUS": _STATUS, "the session": _SESSION}
        for question, sql in questions.items():
            await asking.ask(question, sql)
        if await asking.try_rights(target.prefix, sessions) == "usable":
            connections = _CONNECTIONS[sessions].format(target.prefix)
            await asking.ask("the connections", _STRANGERS.format(connections))
        wire = await asking.wire()

        async def now() -> float:
            (answer,) = await wire.call(_NOW, timeout)
            return float(answer)

        timing = await measure(now, io)
    except RequestFailed as error:
        return described._replace(failure=ERRORS.explain(error))
    finally:
        asking.close()
    return described._replace(
        said=asking.said,
        refused=asking.refused,
        round_trips=timing.round_trips,
        clock=timing.clock,
        identity=_identity(asking.said, target.prefix),
    )


class _Asking:
    """Questions to one server, over one connection after the other: an error ends a connection."""

    def __init__(self, server: Server, timeout: float) -> None:
        self.said: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._server = server
        self._timeout = timeout
        self._wire: Wire | None = None

    async def wire(self) -> Wire:
        if self._wire is None or self._wire.broken:
            self._wire = await self._server.visit(self._timeout)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    async def ask(self, question: str, sql: str) -> None:
        """Note the rows that answer a question, or why it was refused."""
        wire = await self.wire()
        try:
            for name, value in await wire.rows(sql, self._timeout):
                self.said[_text(name)] = _text(value)
        except RequestFailed as error:
            if error.outcome == "unknown":  # no answer
                raise
            self.refused[question] = str(error)

    async def try_rights(self, prefix: str, sessions: bool) -> str:
        """Note whether locks can be taken in the tables: "usable", "missing" or "refused". "": not known."""
        found = "usable"
        for statement in _RIGHTS[sessions]:
            wire = await self.wire()
            try:
                await wire.rows(statement.format(prefix), self._timeout)
            except RequestFailed as error:
                if error.outcome == "unknown":  # no answer
                    raise
                found = "missing" if error.code in ERRORS.missing else ""
                found = "refused" if error.code in NOT_ALLOWED else found
                if not found:  # as on a server that is read-only
                    self.refused["the tables"] = str(error)
                    return found
                break
        self.said["tables"] = found
        return found


def _identity(said: Mapping[str, str], prefix: str) -> str:
    """The nodes of a Galera cluster have the same tables."""
    server = said.get("wsrep_cluster_state_uuid") or said.get("server_uid", said.get("server_uuid"))
    if not server or "database" not in said:
        return ""
    place = "" if said.get("wsrep_cluster_state_uuid") else f"{said['hostname']} {said['datadir']}"
    return f"mysql {server} {place} {said['database']} {prefix}"


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
