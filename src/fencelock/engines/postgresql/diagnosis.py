"""What PostgreSQL servers say about themselves. Reads only, and needs no right that locks don't need."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fencelock.engines import diagnosis
from fencelock.engines.diagnosis import is_remote, measure
from fencelock.engines.failure import RequestFailed
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.requests import Statement
from fencelock.engines.postgresql.schema import within
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.urls import Host
from fencelock.engines.postgresql.wire import Wire
from fencelock.io.contract import IO

_SETTINGS = """
SELECT json_object_agg(name, setting) FROM pg_settings WHERE name IN (
    'server_version', 'server_version_num', 'fsync', 'full_page_writes', 'synchronous_commit',
    'synchronous_standby_names', 'autovacuum', 'track_counts', 'statement_timeout', 'lock_timeout',
    'idle_session_timeout', 'transaction_timeout', 'default_transaction_isolation',
    'default_transaction_read_only', 'max_connections', 'superuser_reserved_connections',
    'reserved_connections')
"""

# Counted without pg_stat_activity, which hides from most users what kind of process each one is.
_SESSION = """
SELECT to_json(facts) FROM (
    SELECT pg_is_in_recovery() AS in_recovery,
           coalesce(current_setting('fencelock.direct', true), '') AS direct,
           current_user AS "user", d.datname AS database, d.oid AS database_id,
           (SELECT sum(numbackends) FROM pg_stat_database) AS connections,
           pg_stat_get_db_numbackends(d.oid) AS database_connections, d.datconnlimit,
           (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid) AS user_connections,
           r.rolconnlimit
      FROM pg_database d, pg_roles r
     WHERE d.datname = current_database() AND r.rolname = current_user) facts
"""

# Most users see that a process sends the log, but not to whom: then its columns are NULL. A permanent
# physical slot belongs to a standby. A logical one belongs to a subscriber, which nobody promotes.
_REPLICATION = """
SELECT to_json(facts) FROM (
    SELECT count(*) FILTER (WHERE known OR slot) AS standbys,
           count(*) FILTER (WHERE NOT known AND NOT slot) AS unknown_senders,
           count(*) FILTER (WHERE NOT known) AS hidden_senders,
           count(*) FILTER (WHERE sync_state = 'sync') AS synchronous,
           count(*) FILTER (WHERE sync_state = 'quorum') AS quorum,
           coalesce(string_agg(application_name, ', ' ORDER BY application_name)
                    FILTER (WHERE sync_state NOT IN ('sync', 'quorum')), '') AS asynchronous_names,
           (SELECT count(*) FROM pg_replication_slots
             WHERE slot_type = 'physical' AND NOT active AND NOT temporary) AS absent_standbys
      FROM (SELECT r.application_name, r.sync_state, r.state IS NOT NULL AS known,
                   coalesce(s.slot_type = 'physical' AND NOT s.temporary, false) AS slot
              FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
             WHERE s.slot_type IS DISTINCT FROM 'logical'
               AND coalesce(r.application_name NOT IN ('pg_basebackup', 'pg_receivewal'), true)
           ) senders) facts
"""

_TABLES = """
SELECT to_json(facts) FROM (
    SELECT to_regnamespace('fencelock') IS NOT NULL AS schema_exists,
           coalesce(has_schema_privilege(to_regnamespace('fencelock'), 'USAGE'), false) AS may_use,
           has_database_privilege(current_database(), 'CREATE') AS may_create,
           coalesce(bool_and(
               has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND
               has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
           ), true) AS may_write,
           coalesce(sum(pg_stat_get_live_tuples(c.oid)), 0) AS living_rows,
           coalesce(sum(pg_stat_get_dead_tuples(c.oid)), 0) AS dead_rows
      FROM pg_class c WHERE c.relnamespace = to_regnamespace('fencelock') AND c.relkind = 'r') facts
"""

_SYSTEM = "SELECT json_build_object('system', system_identifier::text) FROM pg_control_system()"

_QUESTIONS = {
    "settings": _SETTINGS,
    "the session": _SESSION,
    "pg_stat_replication": _REPLICATION,
    "pg_control_system": _SYSTEM,
}

_NOW = "SELECT extract(epoch FROM clock_timestamp()), pg_backend_pid()"


async def describe(server: Server, schema: str, io: IO, timeout: float) -> list[diagnosis.Server]:
    """Each server of the URL, whether it gives out locks or not."""
    found = [await _describe(server, host, schema, io, timeout) for host in server.hosts]
    if any(each.role == "primary" for each in found):  # the others only wait to take over
        found = [each._replace(serves=each.role != "standby") for each in found]
    return found


async def _describe(
    server: Server, host: Host, schema: str, io: IO, timeout: float
) -> diagnosis.Server:
    remote = host.name is not None and not host.name.startswith("/") and is_remote(host.name)
    described = diagnosis.Server(str(host), remote=remote)
    said: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        wire = await server.visit(host, timeout)
        try:
            questions = {**_QUESTIONS, "the tables": within(schema, _TABLES)}
            for question, sql in questions.items():
                try:
                    said |= await _ask(wire, sql, timeout)
                except RequestFailed as error:
                    if wire.broken:
                        raise
                    refused[question] = str(error)
            described = described._replace(encrypted=wire.encrypted)
            pids: set[str] = set()
            timing = await measure(lambda: _now(wire, pids, timeout), io)
            try:
                said["shares_sessions"] = await _shares(server, host, wire, pids, timeout)
            except RequestFailed as error:
                if wire.broken:
                    raise
                refused["a second connection"] = str(error)
        finally:
            wire.close()
    except RequestFailed as error:
        return described._replace(failure=ERRORS.explain(error))
    identity = ""
    if "system" in said and "database_id" in said:
        identity = f"postgresql {said['system']} {said['database_id']} {schema}"
    return described._replace(
        role="standby" if said.get("in_recovery") == "yes" else "primary",
        said=said,
        refused=refused,
        round_trips=timing.round_trips,
        clock=timing.clock,
        identity=identity,
    )


async def _ask(wire: Wire, sql: str, timeout: float) -> Mapping[str, str]:
    """The facts of a query that returns one JSON object."""
    (answer,) = await wire.call((Statement(b"", sql.encode()), ()), timeout)
    facts = json.loads(answer)
    return {key: _text(value) for key, value in facts.items() if value is not None}


def _text(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


async def _now(wire: Wire, pids: set[str], timeout: float) -> float:
    """The server's clock. Notes which session has answered."""
    ((seconds, pid),) = await wire.script(_NOW, timeout)
    pids.add(pid or "")
    return float(seconds or 0)


async def _shares(server: Server, host: Host, wire: Wire, pids: set[str], timeout: float) -> str:
    """Whether a pooler gives one session to several connections.

    Then a second connection gets the session of the idle first one, or a transaction on the second makes the
    first one change to another session.
    """
    other = await server.visit(host, timeout)
    try:
        await other.script("BEGIN", timeout)
        its_pids: set[str] = set()
        await _now(other, its_pids, timeout)
        await _now(wire, pids, timeout)
        await other.script("ROLLBACK", timeout)
    finally:
        other.close()
    return "yes" if len(pids) > 1 or pids & its_pids else "no"
