"""Opens connections: finds the primary, checks it, and sets up the session."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING

from fencelock.core.errors import Unsupported
from fencelock.engines.failure import RequestFailed
from fencelock.engines.postgresql.errors import NOT_ALLOWED
from fencelock.engines.postgresql.schema import script
from fencelock.engines.postgresql.sockets import AsyncioSocketWait, BlockingSocketWait, SocketWait
from fencelock.engines.postgresql.urls import Host, Target
from fencelock.engines.postgresql.wire import Wire
from fencelock.io import clock
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines import diagnosis

log = logging.getLogger("fencelock.engine")

_OLDEST = 12

_FACTS = """
SELECT current_setting('server_version_num'), pg_is_in_recovery(),
       current_setting('fencelock.direct', true), current_setting('synchronous_commit');
"""

_NOT_DURABLE = ("off", "local", "remote_write")
"""Values of synchronous_commit with which a commit is acknowledged before it is on the server's disk, or on
the disk of a synchronous standby."""

# A session that listens or holds a lock is silent for long. Older servers don't know these settings, and
# would refuse a connection string that names them.
_NO_IDLE_TIMEOUTS = """
SELECT set_config(name, '0', false)
  FROM (VALUES ('idle_session_timeout'), ('transaction_timeout')) AS timeouts (name)
 WHERE current_setting(name, true) <> '0' AND current_setting('fencelock.direct', true) = 'yes'
"""

_POOLER_ERROR = "unsupported startup parameter"
"""How PgBouncer's message begins when it does not pass our settings on."""


class Server:
    """One database, at one or several addresses. One of them is the primary's."""

    def __init__(self, target: Target, io: IO) -> None:
        self._target = target
        self._hosts = list(target.hosts)
        self._wait: type[SocketWait] = BlockingSocketWait if io.blocking else AsyncioSocketWait
        self.pooled = False
        """Whether a pooler is in between: then each request may get another session."""
        self._warned = False

    async def connect(self, timeout: float) -> Wire:
        """Open a connection to the primary."""
        deadline = clock.now() + timeout
        failures: list[RequestFailed] = []
        for number, host in enumerate(list(self._hosts)):
            left = deadline - clock.now()
            # A server that does not answer must leave some time to the others.
            until = clock.now() + left / (len(self._hosts) - number)
            try:
                wire = await self._open(host, until)
                try:
                    await self._check(wire, until)
                except BaseException:
                    wire.close()
                    raise
            except RequestFailed as error:
                failures.append(RequestFailed(f"{host}: {error}", "not applied", error.code))
                failures[-1].__cause__ = error
                continue
            self._hosts.remove(host)
            self._hosts.insert(0, host)  # likely to be the primary next time, too
            return wire
        text = "can't connect to " + "; ".join(str(failure) for failure in failures)
        raise RequestFailed(text, "not applied", failures[0].code) from failures[0]

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Where the servers are, in the order of the URL."""
        return self._target.hosts

    async def visit(self, host: Host, timeout: float) -> Wire:
        """Open a connection to one server, also to one that can't give out locks."""
        deadline = clock.now() + timeout
        try:
            wire = await self._open(host, deadline)
        except RequestFailed as error:
            text = f"{error} (while connecting)"
            raise RequestFailed(text, "not applied", error.code) from error
        try:
            await wire.script(_NO_IDLE_TIMEOUTS, deadline - clock.now())
        except BaseException:
            wire.close()
            raise
        return wire

    async def describe(self, io: IO, timeout: float) -> list[diagnosis.Server]:
        from fencelock.engines.postgresql.diagnosis import describe  # few programs need it

        return await describe(self, self._target.schema, io, timeout)

    async def install(self, wire: Wire, timeout: float) -> None:
        """Create what is missing. Of many concurrent clients one does it, and the others wait for it."""
        schema = self._target.schema
        try:
            await wire.script(script(schema), timeout)
        except RequestFailed as error:
            wire.close()  # its transaction is still open
            why = "is not there, and this user may not create it"
            if error.code != NOT_ALLOWED:
                why = "is not complete, and can't be created"
            text = f"the schema {schema!r} {why}: {error}"
            raise RequestFailed(text, "not applied", error.code) from error

    async def _open(self, host: Host, deadline: float) -> Wire:
        failure: RequestFailed | None = None
        for address in await self._addresses(host, deadline):
            for _ in range(2):
                conninfo = self._target.conninfo(host, address, direct=not self.pooled)
                try:
                    return await Wire.open(conninfo, self._wait, deadline)
                except RequestFailed as error:
                    failure = error
                    if self.pooled or _POOLER_ERROR not in str(error):
                        break
                    self.pooled = True
        assert failure is not None
        raise failure

    async def _addresses(self, host: Host, deadline: float) -> list[str | None]:
        if host.name is None or host.name.startswith("/") or _is_address(host.name):
            return [None]
        try:
            return [*await self._wait.resolve(host.name, host.port, deadline - clock.now())]
        except OSError as error:  # a TimeoutError among them
            text = f"can't look up the host: {error or 'no answer'}"
            raise RequestFailed(text, "not applied") from error

    async def _check(self, wire: Wire, deadline: float) -> None:
        """Check that this server can give correct locks, and set up the session."""
        facts, *_ = await wire.script(_FACTS + _NO_IDLE_TIMEOUTS, deadline - clock.now())
        version, standby, direct, durability = facts
        major = int(version or 0) // 10_000
        if major < _OLDEST:
            text = f"PostgreSQL {major}, but Fencelock needs {_OLDEST}"
            raise RequestFailed(text, "not applied")
        if standby == "t":
            raise RequestFailed("this is a standby, which can't give out locks", "not applied")
        self.pooled = self.pooled or direct != "yes"
        if self.pooled and self._target.sessions:
            raise Unsupported(
                f"{self._target.where}: a connection pooler is in between, and session locks need a "
                "session: connect to the server itself, or use postgresql://"
            )
        wire.prepares = not self.pooled
        if durability in _NOT_DURABLE and not self.pooled:
            # An acknowledged lease must survive a crash. Other programs keep their own setting.
            await wire.script("SET synchronous_commit = on", deadline - clock.now())
        elif durability in _NOT_DURABLE and not self._warned:
            self._warned = True
            log.warning(
                "%s: synchronous_commit is %s: a crash or a failover of the server forgets the newest "
                "leases and fences; switch it on for this user",
                self._target.where,
                durability,
            )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
