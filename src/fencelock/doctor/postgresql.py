"""What to check at PostgreSQL: lease rows, and session locks (`postgresql+advisory`)."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.engines.diagnosis import NotTold, Server

_OLDEST = 12
_FULL, _FILLING = 0.9, 0.75

_SHORTEST_TIMEOUT = 2.0
"""Seconds that a request may take before its caller gives up. The server must not give up sooner."""

_TOO_MANY_DEAD = 20_000
"""Dead rows at which autovacuum is far behind: it begins at about a thousand in our tables."""

_PRIVILEGE = "have a superuser run GRANT pg_monitor TO the user of the URL, and examine it again"


@whole_setup(
    "primary",
    why="Only the primary takes locks. Two primaries each give out the same locks.",
    mend="name the primary in the URL, or all servers: postgresql://a,b/database",
    leaves="not safe",
)
def primary(setup: Setup) -> Finding:
    primaries = [server.where for server in setup.answering("primary")]
    if len(primaries) > 1 and len({server.identity for server in setup.answering("primary")}) > 1:
        return bad(f"several: {', '.join(primaries)}", "name the servers of one database only")
    if len(primaries) > 1:
        return bad(f"several: {', '.join(primaries)}", "end the old primary, before anything else")
    if not primaries:
        standbys = ", ".join(server.where for server in setup.answering("standby"))
        return bad(f"{standbys}: in recovery, so this is a standby")
    return ok(primaries[0])


@each_server(
    "version",
    why="Fencelock uses what older servers don't have, and refuses them.",
    mend=f"update the server to PostgreSQL {_OLDEST} or newer",
    leaves="not safe",
)
def version(server: Server) -> Finding:
    found = f"PostgreSQL {server.text('server_version')}"
    return bad(found) if server.number("server_version_num") < _OLDEST * 10_000 else ok(found)


@each_server(
    "rights",
    "primary",
    why="Every lock is a write into Fencelock's tables.",
    mend="have the owner of the database run what `fencelock schema postgresql` prints, with its GRANTs",
    leaves="not safe",
)
def rights(server: Server) -> Finding:
    user = server.text("user")
    if server.text("schema_exists") == "no":
        if server.text("may_create") == "no":
            return bad(f"the schema is not there, and {user} may not create it")
        return ok("the schema will be made at its first use")
    if server.text("may_use") == "no" or server.text("may_write") == "no":
        return bad(f"{user} may not write the tables")
    return ok(f"{user} may write the tables")


@each_server(
    "durability",
    why="A crash forgets what was not on the disk: leases that are held, and fences that were given.",
    mend="ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()",
    leaves="efficiency",
)
def durability(server: Server) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if server.text(name) == "off"]
    return bad(f"{' and '.join(off)} off") if off else ok("fsync and full_page_writes are on")


@each_server(
    "commits",
    "primary",
    why="A lease must be on the disk, here and at a standby, before its holder knows of it.",
    mend="ALTER ROLE … SET synchronous_commit = on, for the user of the URL",
    leaves="efficiency",
)
def commits(server: Server) -> Finding:
    found = server.text("synchronous_commit")
    if found in ("on", "remote_apply"):
        return ok(f"synchronous_commit is {found}")
    if server.text("direct") == "yes":
        return ok(f"synchronous_commit is {found}, but Fencelock's connections switch it on")
    if found == "off":
        return bad("synchronous_commit is off, and the pooler hinders Fencelock to switch it on")
    if server.text("synchronous_standby_names"):
        return bad(f"synchronous_commit is {found}: commits don't wait for the disk of a standby")
    return ok(f"synchronous_commit is {found}, without a synchronous standby")


@each_server(
    "standbys",
    "primary",
    why="A standby that is promoted without the newest commits has forgotten who holds what.",
    mend="ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf(); "
    "and promote only a standby that has everything",
    ask=_PRIVILEGE,
    leaves="efficiency",
)
def standbys(server: Server) -> Finding:
    known, absent = server.number("standbys"), server.number("absent_standbys")
    if not server.text("synchronous_standby_names"):
        if known + absent:
            return bad(
                f"{known:.0f} asynchronous, {absent:.0f} away; synchronous_standby_names is empty"
            )
        if server.number("unknown_senders"):
            raise NotTold("the server sends its log somewhere, and hides from this user to whom")
        return ok("none")
    if server.number("hidden_senders"):
        raise NotTold("the server hides from this user which standbys are synchronous")
    synchronous, quorum = server.number("synchronous"), server.number("quorum")
    if not synchronous + quorum:
        return Finding(
            "bad", "no synchronous one is connected, so commits wait", "start it", "correctness"
        )
    rest = known - synchronous - quorum + absent
    if rest:
        names = server.text("asynchronous_names") or "one that is away"
        return advice(f"not synchronous: {names}", "never promote those")
    if quorum > 1:
        return advice(
            f"a quorum of {quorum:.0f}: not each of them has everything",
            "promote only the one that has received most (pg_last_wal_receive_lsn)",
        )
    return ok("synchronous")


@whole_setup(
    "pooler",
    why="It gives the session that has a session lock to others. Lease rows only lose wake-ups.",
    mend="connect to the server itself, or let the pooler run in session mode",
    ask="look into what is at the address of the URL",
)
def pooler(setup: Setup) -> Finding | None:
    servers = setup.answering("primary")
    sessions = not setup.traits.leases_expire
    shared = [server for server in servers if server.text("shares_sessions") == "yes"]
    if shared:
        found = "a pooler in transaction mode: one connection gets several sessions"
        if sessions:
            return bad(found, "connect to the server itself, or use postgresql://", "not safe")
        return advice(f"{found}, so waiters poll")
    if any(server.text("direct") != "yes" for server in servers):
        if sessions:
            found = "a pooler, which drops our settings; Fencelock refuses it"
            return bad(found, "connect to the server itself, or use postgresql://", "not safe")
        return ok("a pooler in session mode")
    return ok("none") if servers else None


@each_server(
    "session",
    "primary",
    why="Some settings refuse our requests, or end them; most of them only behind a pooler.",
    mend="ALTER ROLE … RESET the setting, for the user of the URL; or connect to the server itself",
)
def session(server: Server) -> Finding:
    if server.text("default_transaction_read_only") == "on":
        return bad("default_transaction_read_only is on: no lock can be taken", leaves="not safe")
    isolation = server.text("default_transaction_isolation")
    if isolation != "read committed":
        return bad(f"default_transaction_isolation is {isolation}", leaves="not safe")
    for name in ("statement_timeout", "lock_timeout", "transaction_timeout"):
        seconds = float(server.said.get(name, 0)) / 1000
        if 0 < seconds < _SHORTEST_TIMEOUT:
            return bad(f"{name} is {seconds:g} s: requests need {_SHORTEST_TIMEOUT:g} s at times")
    idle = float(server.said.get("idle_session_timeout", 0)) / 1000
    if idle:
        return advice(
            f"idle_session_timeout is {idle:g} s: a waiter that is silent for so long polls"
        )
    return ok("nothing that ends our requests")


@each_server(
    "vacuum",
    "primary",
    why="Each lock updates a row. Without autovacuum old versions stay, and locks get slow.",
    mend="ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()",
)
def vacuum(server: Server) -> Finding:
    off = [name for name in ("autovacuum", "track_counts") if server.text(name) == "off"]
    if off:
        return bad(f"{' and '.join(off)} off")
    dead, living = server.number("dead_rows"), server.number("living_rows")
    if dead > _TOO_MANY_DEAD and dead > living:
        return advice(
            f"{dead:,.0f} dead rows beside {living:,.0f} in our tables",
            "end what keeps vacuum from removing them: old transactions, prepared ones, replication slots",
        )
    return ok(f"{dead:,.0f} dead rows in our tables")


@each_server(
    "connections",
    "primary",
    why="A client that can't connect can't renew.",
    mend="raise the limit, or share one Client per process",
)
def connections(server: Server) -> Finding:
    reserved = server.number("superuser_reserved_connections")
    reserved += float(server.said.get("reserved_connections", 0))
    limits = [
        (
            "max_connections",
            server.number("connections"),
            server.number("max_connections") - reserved,
        ),
        ("the database", server.number("database_connections"), server.number("datconnlimit")),
        ("the user", server.number("user_connections"), server.number("rolconnlimit")),
    ]
    used, limit, whose = max(
        (used / limit, limit, whose) for whose, used, limit in limits if limit > 0
    )
    found = f"{used * limit:.0f} of {limit:.0f} connections are used (the limit of {whose})"
    if used > _FULL:
        return bad(found)
    return advice(found) if used > _FILLING else ok(found)


RULES = (
    common.reachable,
    primary,
    version,
    rights,
    durability,
    commits,
    standbys,
    pooler,
    session,
    vacuum,
    connections,
    common.round_trip,
    common.clock,
    common.encryption,
    common.hand_over,
)
