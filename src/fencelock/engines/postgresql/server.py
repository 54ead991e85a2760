"""From a URL to a connection that can be used: found, greeted, with its session as we need it."""

from __future__ import annotations

import logging
from ipaddress import ip_address

from fencelock.core.errors import Unsupported
from fencelock.engines.postgresql.readiness import AsyncioReadiness, BlockingReadiness, Readiness
from fencelock.engines.postgresql.schema import script
from fencelock.engines.postgresql.troubles import FORBIDDEN
from fencelock.engines.postgresql.urls import Place, Target
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.io import clock
from fencelock.io.contract import IO

log = logging.getLogger("fencelock")

_OLDEST = 120_000

_FACTS = """
SELECT current_setting('server_version_num'), pg_is_in_recovery(),
       current_setting('fencelock.direct', true), current_setting('synchronous_commit');
"""

_FORGETFUL = ("off", "local", "remote_write")
"""Values of synchronous_commit with which a commit is acknowledged before it is on disk here, or on the disk
of a synchronous standby."""

# Who listens or holds a lock says nothing for long. Older servers don't know these settings, and would
# refuse a connection that names them.
_PATIENCE = """
SELECT set_config(name, '0', false)
  FROM (VALUES ('idle_session_timeout'), ('transaction_timeout')) AS timeouts (name)
 WHERE current_setting(name, true) <> '0' AND current_setting('fencelock.direct', true) = 'yes'
"""

_POOLER = "unsupported startup parameter"
"""How PgBouncer begins to say that it does not pass our settings on."""


class Server:
    """One database, at one or several addresses, of which one is the primary's."""

    def __init__(self, target: Target, io: IO) -> None:
        self._target = target
        self._places = list(target.places)
        self._kind: type[Readiness] = BlockingReadiness if io.blocking else AsyncioReadiness
        self.pooled = False
        """Whether a pooler stands in between: then a session may be another one each time."""
        self._warned = False

    async def connect(self, timeout: float) -> Wire:
        """A connection to whoever is the primary."""
        deadline = clock.now() + timeout
        failures: list[DatabaseFailed] = []
        for number, place in enumerate(list(self._places)):
            left = deadline - clock.now()
            # A server that does not answer must leave some time to the others.
            until = clock.now() + left / (len(self._places) - number)
            try:
                wire = await self._open(place, until)
                try:
                    await self._greet(wire, until)
                except BaseException:
                    wire.close()
                    raise
            except DatabaseFailed as error:
                failures.append(DatabaseFailed(f"{place}: {error}", "not applied", error.code))
                failures[-1].__cause__ = error
                continue
            self._places.remove(place)
            self._places.insert(0, place)  # likely to be the primary next time, too
            return wire
        text = "; ".join(str(failure) for failure in failures)
        raise DatabaseFailed(
            f"can't connect to {text}", "not applied", failures[0].code
        ) from failures[0]

    async def install(self, wire: Wire, timeout: float) -> None:
        """Create what is missing; one client does it, the others wait for that."""
        schema = self._target.schema
        try:
            await wire.script(script(schema), timeout)
        except DatabaseFailed as error:
            wire.close()  # its transaction is still open
            why = "is not there, and this user may not create it"
            if error.code != FORBIDDEN:
                why = "is not complete, and can't be created"
            text = f"the schema {schema!r} {why}: {error}"
            raise DatabaseFailed(text, "not applied", error.code) from error

    async def _open(self, place: Place, deadline: float) -> Wire:
        failure: DatabaseFailed | None = None
        for address in await self._addresses(place, deadline):
            for _ in range(2):
                conninfo = self._target.conninfo(place, address, direct=not self.pooled)
                try:
                    return await Wire.open(conninfo, self._kind, deadline)
                except DatabaseFailed as error:
                    failure = error
                    if self.pooled or _POOLER not in str(error):
                        break
                    self.pooled = True
        assert failure is not None
        raise failure

    async def _addresses(self, place: Place, deadline: float) -> list[str | None]:
        if place.host is None or place.host.startswith("/") or _is_address(place.host):
            return [None]
        try:
            left = deadline - clock.now()
            return [*await self._kind.resolve(place.host, place.port, left)]
        except OSError as error:  # a TimeoutError among them
            raise DatabaseFailed(
                f"can't look up the host: {error or 'no answer'}", "not applied"
            ) from error

    async def _greet(self, wire: Wire, deadline: float) -> None:
        """Look whom we met, and whether it is one that we can rely on."""
        text = _FACTS + _PATIENCE
        ((version, standby, direct, durable), *_) = await wire.script(text, deadline - clock.now())
        if int(version or 0) < _OLDEST:
            raise DatabaseFailed(
                f"PostgreSQL {int(version or 0) // 10_000}, but Fencelock needs 12", "not applied"
            )
        if standby == "t":
            raise DatabaseFailed("this is a standby, which can't give out locks", "not applied")
        self.pooled = self.pooled or direct != "yes"
        if self.pooled and self._target.patient:
            raise Unsupported(
                f"{self._target.where}: a connection pooler is in between, and session locks need a "
                "session: connect to the server itself, or use postgresql://"
            )
        wire.prepares = not self.pooled
        if durable in _FORGETFUL and not self.pooled:
            # What was acknowledged must not be forgotten, whatever others can live with.
            await wire.script("SET synchronous_commit = on", deadline - clock.now())
        elif durable in _FORGETFUL and not self._warned:
            self._warned = True
            log.warning(
                "%s: synchronous_commit is %s: a crash or a failover of the server forgets the newest "
                "leases and fences; switch it on for this user",
                self._target.where,
                durable,
            )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
