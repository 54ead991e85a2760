"""What to check at MySQL and MariaDB: lease rows, and session locks (`mysql+getlock`)."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, Setup, advice, bad, each_server, ok, whole_setup
from fencelock.engines.diagnosis import NotTold, Server

_OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 29)}
_FULL, _FILLING = 0.9, 0.75


@each_server(
    "version",
    why="Fencelock needs what older servers don't have, and a clock that goes on within a statement.",
    mend="update the server to MariaDB 10.6 or MySQL 8.0.29",
    leaves="not safe",
)
def version(server: Server) -> Finding:
    text = server.text("version")
    product = "MariaDB" if "MariaDB" in text else "MySQL"
    number = tuple(int(part) for part in text.split("-")[0].split(".")[:3])
    if number < _OLDEST[product]:
        return bad(f"{product} {text}")
    if server.text("clock_moves") == "no":
        return bad("sysdate-is-now is set", "start the server without --sysdate-is-now")
    return ok(f"{product} {text}")


@each_server(
    "role",
    why="Its source does not know the locks of a replica, and gives out the same ones.",
    mend="use the address of the server that the application writes to",
    leaves="not safe",
)
def role(server: Server) -> Finding:
    if float(server.said.get("Slaves_running", 0)):
        return bad("it is a replica")
    if "ON" in (server.text("read_only"), server.said.get("super_read_only")):
        return bad("it is read-only")
    return ok("writable, and no replica" if "Slaves_running" in server.said else "writable")


@each_server(
    "rights",
    why="Every lock is a write into Fencelock's tables.",
    mend="have the owner of the database run what `fencelock schema mysql` prints, with its GRANTs",
    ask="try it with --probe, or have the owner of the database run what `fencelock schema mysql` prints",
    leaves="not safe",
)
def rights(server: Server) -> Finding:
    tables, user = server.text("tables"), server.text("user")
    if tables == "refused":
        return bad(f"{user} lacks a right to use the tables")
    if tables == "usable":
        return ok(f"{user} may write the tables")
    if server.text("may_create") == "yes":
        return ok("the tables will be made at their first use")
    raise NotTold(
        f"the tables are not there, and no right is found with which {user} could create them"
    )


@each_server(
    "durability",
    why="A crash forgets what was not on the disk: leases that are held, and fences that were given.",
    mend="SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in my.cnf",
    leaves="efficiency",
)
def durability(server: Server) -> Finding:
    flush = server.text("innodb_flush_log_at_trx_commit")
    if flush not in ("1", "3"):
        return bad(f"innodb_flush_log_at_trx_commit is {flush}")
    if server.said.get("innodb_flush_method", "").upper() == "NOSYNC":
        return bad("innodb_flush_method is nosync", "take innodb_flush_method out of my.cnf")
    if server.said.get("innodb_doublewrite", "ON").upper() == "OFF":
        return advice(
            "innodb_doublewrite is off: only on a file system that never tears a page",
            "innodb_doublewrite = ON in my.cnf",
        )
    return ok("each commit is flushed")


@each_server(
    "binary-log",
    why="After a crash the server takes back what is not in the binary log, although it was committed.",
    mend="SET GLOBAL sync_binlog = 1, and the same in my.cnf",
    leaves="efficiency",
)
def binary_log(server: Server) -> Finding:
    if server.text("log_bin") == "OFF":
        return ok("off")
    if server.text("binlog_format") == "STATEMENT":
        found = "binlog_format is STATEMENT, with which every lock is refused"
        return bad(found, "set binlog_format to MIXED or ROW", "not safe")
    sync = server.text("sync_binlog")
    return ok("flushed at each commit") if sync == "1" else bad(f"sync_binlog is {sync}")


@each_server(
    "replicas",
    why="A replica that is promoted without the newest commits has forgotten who holds what.",
    mend="no setting helps: promote no replica before you know that it has everything, and --accept "
    "replicas; or use an engine that loses nothing in a failover, such as etcd://",
    ask="ask your provider for the output of SHOW REPLICAS, and whether one is promoted automatically",
    leaves="efficiency",
)
def replicas(server: Server) -> Finding:
    if server.text("log_bin") == "OFF":
        return ok("none: there is no binary log")
    found = server.number("Slaves_connected")
    return bad(f"{found:.0f} connected") if found else ok("none")


@whole_setup(
    "galera",
    why="GET_LOCK locks on one node of a cluster only. Lease rows were never tried there.",
    mend="let all clients use one node, or use mysql://",
    ask="let all clients use one node",
    leaves="efficiency",
)
def galera(setup: Setup) -> Finding | None:
    servers = [each for each in setup.answering() if each.said.get("wsrep_on") == "ON"]
    if not servers:
        return None
    found = f"a Galera cluster of {servers[0].number('wsrep_cluster_size'):.0f}"
    if setup.traits.leases_expire:
        return Finding("unknown", found)
    return bad(found, leaves="not safe")


@whole_setup(
    "kill",
    why="KILL wakes waiters, and breaks session locks. For clients of other users it needs a right.",
    mend="let all clients log in as one user, or GRANT CONNECTION ADMIN ON *.* TO that of the URL",
)
def kill(setup: Setup) -> Finding | None:
    for server in setup.answering():
        if server.said.get("may_kill") == "yes":
            return ok("it may end the statements of other users")
        if "strangers" not in server.said:  # there are no tables yet
            return None
        if strangers := server.number("strangers"):
            late = "a release wakes them late" if setup.traits.leases_expire else "can't be ended"
            return advice(f"clients of other users: {strangers:.0f}; {late}")
    return ok("no client of another user is there")


@whole_setup(
    "idle",
    why="The server ends idle connections. A renewal then has to make a new one first.",
    mend="SET GLOBAL wait_timeout to at least the ttl of your locks",
)
def idle(setup: Setup) -> Finding | None:
    timeouts = [each.number("session_wait_timeout") for each in setup.answering()]
    if not timeouts:
        return None
    shortest = min(timeouts)
    found = f"wait_timeout of our connections is {shortest:.0f} s"
    return advice(found) if shortest < setup.ttl / 3 else ok(found)


@each_server(
    "connections",
    why="A client that can't connect can't renew.",
    mend="raise the limit, or share one Client per process",
)
def connections(server: Server) -> Finding:
    limits = [
        ("max_connections", server.number("Threads_connected"), server.number("max_connections")),
        ("the user", server.number("user_connections"), server.number("max_user_connections")),
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
    version,
    role,
    rights,
    durability,
    binary_log,
    replicas,
    galera,
    kill,
    idle,
    connections,
    common.round_trip,
    common.clock,
    common.encryption,
    common.hand_over,
)
