"""Opens connections: checks the server, and sets up the session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fencelock.engines.failure import RequestFailed
from fencelock.engines.mysql.drivers import DriverError, code_and_message
from fencelock.engines.mysql.errors import LOST, NOT_ALLOWED
from fencelock.engines.mysql.requests import literal
from fencelock.engines.mysql.schema import MODE, statements
from fencelock.engines.mysql.urls import Target
from fencelock.engines.mysql.wire import AsyncioWire, BlockingWire, Wire
from fencelock.io import clock
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines import diagnosis

log = logging.getLogger("fencelock.engine")

_OLDEST = {"MariaDB": (10, 6, 0), "MySQL": (8, 0, 29)}

# Times in UTC: local time goes back an hour in autumn. A wait for a row lock ends after 3 seconds. The other
# settings undo unusual defaults of a server: a commit must not begin a new transaction or end the session,
# and a statement may sleep.
_SESSION = f"""
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET time_zone = '+00:00', sql_mode = '{MODE}', innodb_lock_wait_timeout = 3, lock_wait_timeout = 3,
    completion_type = 0, sql_safe_updates = 0, group_concat_max_len = 1048576
    /*M!, max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */;
SELECT VERSION(), SYSDATE(6) > NOW(6), @@innodb_flush_log_at_trx_commit
"""

# The server must not end a session that holds a lock and is idle.
_NO_IDLE_TIMEOUT = "SET wait_timeout = 31536000;"

_EXISTING = """
SELECT ROUTINE_NAME FROM information_schema.ROUTINES
 WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME LIKE '{prefix}\\_v%'
 UNION ALL SELECT TABLE_NAME FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE '{prefix}\\_%'
"""

_INSTALLING = "fencelock.installing"
"""The GET_LOCK of the client that creates the tables."""


class Server:
    """One database."""

    def __init__(self, target: Target, io: IO, *, sessions: bool = False) -> None:
        self._target = target
        self._wire: type[BlockingWire | AsyncioWire] = BlockingWire if io.blocking else AsyncioWire
        self._sessions = sessions
        self._session = (_NO_IDLE_TIMEOUT if sessions else "") + _SESSION
        self._warned = False

    async def connect(self, timeout: float) -> Wire:
        """Open a connection that is ready for use."""
        deadline = clock.now() + timeout
        if timeout <= 0:
            raise RequestFailed("no time was left to connect", "not applied")
        wire = await self._open(timeout)
        try:
            await self._check(wire, deadline - clock.now())
        except RequestFailed as error:
            wire.close()
            text = f"{error} (while connecting)"
            raise RequestFailed(text, "not applied", error.code) from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def visit(self, timeout: float) -> Wire:
        """Open a connection, also to a server that can't give correct locks."""
        deadline = clock.now() + timeout
        wire = await self._open(timeout)
        try:
            await wire.rows(self._session, deadline - clock.now())
        except BaseException:
            wire.close()
            raise
        return wire

    async def describe(self, io: IO, timeout: float) -> list[diagnosis.Server]:
        from fencelock.engines.mysql.diagnosis import describe  # few programs need it

        return [await describe(self, self._target, self._sessions, io, timeout)]

    async def install(self, wire: Wire, timeout: float) -> None:
        """Create what is missing. Of many concurrent clients one does it, and the others wait for it.

        If the time is too short, the next client goes on where this one stopped.
        """
        deadline = clock.now() + timeout
        lock = f"SELECT GET_LOCK({literal(_INSTALLING)}, {max(0, int(timeout))})"
        if await wire.call(lock, timeout) != ["1"]:
            raise RequestFailed("another client is still creating the tables", "not applied")
        prefix = self._target.prefix
        try:
            existing = await wire.call(_EXISTING.format(prefix=prefix), deadline - clock.now())
            for name, statement in statements(prefix, sessions=self._sessions):
                if name not in existing:
                    await wire.call(statement, deadline - clock.now())
            await wire.call(f"DO RELEASE_LOCK({literal(_INSTALLING)})", deadline - clock.now())
        except RequestFailed as error:
            wire.close()
            why = "are not there, and this user may not create them"
            if error.code not in NOT_ALLOWED:
                why = "are not complete, and can't be created"
            text = f"the tables and procedures {prefix}_… {why}: {error}"
            raise RequestFailed(text, "not applied") from error  # the code's advice would mislead

    async def _open(self, timeout: float) -> Wire:
        try:
            return await self._wire.open(self._target.settings, timeout)
        except DriverError as error:
            code, text = code_and_message(error)
            if code in LOST and "Packet" not in text:
                text += " while connecting"
            raise RequestFailed(text, "not applied", str(code)) from error
        except OSError as error:
            late = isinstance(error, TimeoutError)
            text = f"no answer within {timeout:.3g} s" if late else str(error)
            raise RequestFailed(f"{text} while connecting", "not applied") from error
        except (RuntimeError, ImportError) as error:  # a login method that needs another package
            raise RequestFailed(str(error), "not applied") from error
        except Exception as error:  # a driver may raise anything if the server is not MySQL
            text = f"the server sent an answer that is not MySQL's: {error!r}"
            raise RequestFailed(text, "not applied") from error

    async def _check(self, wire: Wire, timeout: float) -> None:
        """Set up the session, and check that this server can give correct locks."""
        ((version, clock_moves, flush),) = await wire.rows(self._session, timeout)
        product = "MariaDB" if "MariaDB" in version else "MySQL"
        found = tuple(int(part) for part in version.split("-")[0].split(".")[:3])
        if found < _OLDEST[product]:
            oldest = ".".join(map(str, _OLDEST[product]))
            text = f"{product} {version}, but Fencelock needs {oldest}"
            raise RequestFailed(text, "not applied")
        if not clock_moves:
            raise RequestFailed("the server runs with --sysdate-is-now", "not applied")
        if flush != 1 and not self._warned:
            self._warned = True
            log.warning(
                "%s: innodb_flush_log_at_trx_commit is %s: a crash of the server forgets the newest "
                "leases and fences; set it to 1",
                self._target.where,
                flush,
            )
