"""From a URL to a connection that can be used: greeted, with its session as we need it."""

from __future__ import annotations

import logging

from fencelock.engines.mysql.calls import binary
from fencelock.engines.mysql.schema import MODE, pieces
from fencelock.engines.mysql.troubles import FORBIDDEN, LOST
from fencelock.engines.mysql.urls import Target
from fencelock.engines.mysql.wire import AsyncioWire, BlockingWire, DriverError, Wire, parts
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.io import clock
from fencelock.io.contract import IO

log = logging.getLogger("fencelock")

_OLDEST = {"MariaDB": (10, 6, 0), "MySQL": (8, 0, 29)}

# Times in UTC, so that no clock is put back in autumn. Nobody waits for a row lock for ever. The rest is
# for servers whose defaults are others: a commit begins or ends nothing else, whoever sleeps may do so.
_SESSION = f"""
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET time_zone = '+00:00', sql_mode = '{MODE}', innodb_lock_wait_timeout = 3, lock_wait_timeout = 3,
    completion_type = 0, sql_safe_updates = 0, group_concat_max_len = 1048576
    /*M!, max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */;
SELECT VERSION(), SYSDATE(6) > NOW(6), @@innodb_flush_log_at_trx_commit
"""

# A session that only holds a lock must not be ended for being idle.
_PATIENT = "SET wait_timeout = 31536000;"

_THERE = """
SELECT ROUTINE_NAME FROM information_schema.ROUTINES
 WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME LIKE '{prefix}\\_v%'
 UNION ALL SELECT TABLE_NAME FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE '{prefix}\\_%'
"""

_INSTALLING = "fencelock.installing"
"""The GET_LOCK of the one who creates the tables."""


class Server:
    """One database."""

    def __init__(self, target: Target, io: IO, *, sessions: bool = False) -> None:
        self._target = target
        self._kind: type[BlockingWire | AsyncioWire] = BlockingWire if io.blocking else AsyncioWire
        self._sessions = sessions
        self._session = (_PATIENT if sessions else "") + _SESSION
        self._warned = False

    async def connect(self, timeout: float) -> Wire:
        """A connection that is ready for use."""
        deadline = clock.now() + timeout
        if timeout <= 0:
            raise DatabaseFailed("no time was left to connect", "not applied")
        wire = await self._open(timeout)
        try:
            await self._greet(wire, deadline - clock.now())
        except DatabaseFailed as error:
            wire.close()
            raise DatabaseFailed(
                f"{error} (while connecting)", "not applied", error.code
            ) from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def install(self, wire: Wire, timeout: float) -> None:
        """Create what is missing; one client does it, the others wait for that.

        If the time does not suffice, the next one goes on where this one stopped.
        """
        deadline = clock.now() + timeout
        lock = f"SELECT GET_LOCK({binary(_INSTALLING)}, {max(0, int(timeout))})"
        if await wire.call(lock, timeout) != ["1"]:
            raise DatabaseFailed("somebody else creates the tables, for long", "not applied")
        prefix = self._target.prefix
        try:
            there = await wire.call(_THERE.format(prefix=prefix), deadline - clock.now())
            for name, piece in pieces(prefix, sessions=self._sessions):
                if (name in there) == piece.startswith("DROP"):
                    await wire.call(piece, deadline - clock.now())
            await wire.call(f"DO RELEASE_LOCK({binary(_INSTALLING)})", deadline - clock.now())
        except DatabaseFailed as error:
            wire.close()
            if error.code not in FORBIDDEN:
                text = f"can't create the tables and procedures {prefix}_…: {error}"
                raise DatabaseFailed(text, "not applied") from error
            raise DatabaseFailed(
                f"the tables and procedures {prefix}_… are not there, and this user may not create "
                f"them: {error}",
                "not applied",
                error.code,
            ) from error

    async def _open(self, timeout: float) -> Wire:
        try:
            return await self._kind.open(self._target.settings, timeout)
        except DriverError as error:
            code, text = parts(error)
            if code in LOST and "Packet" not in text:
                text += " while connecting"
            raise DatabaseFailed(text, "not applied", str(code)) from error
        except TimeoutError as error:
            text = f"no answer within {timeout:.3g} s while connecting"
            raise DatabaseFailed(text, "not applied") from error
        except OSError as error:
            raise DatabaseFailed(f"{error} while connecting", "not applied") from error
        except (
            RuntimeError,
            ImportError,
        ) as error:  # a package is missing that the server asks for
            raise DatabaseFailed(str(error), "not applied") from error
        except Exception as error:  # what a driver does with an answer that is no MySQL
            raise DatabaseFailed(
                f"the server speaks otherwise: {error!r}", "not applied"
            ) from error

    async def _greet(self, wire: Wire, timeout: float) -> None:
        ((version, moves, flush),) = await wire.rows(self._session, timeout)
        kind = "MariaDB" if "MariaDB" in version else "MySQL"
        found = tuple(int(part) for part in version.split("-")[0].split(".")[:3])
        if found < _OLDEST[kind]:
            wanted = ".".join(map(str, _OLDEST[kind]))
            raise DatabaseFailed(f"{kind} {version}, but Fencelock needs {wanted}", "not applied")
        if not moves:
            raise DatabaseFailed("the server runs with --sysdate-is-now", "not applied")
        if flush != 1 and not self._warned:
            self._warned = True
            log.warning(
                "%s: innodb_flush_log_at_trx_commit is %s: a crash of the server forgets the newest "
                "leases and fences; set it to 1",
                self._target.where,
                flush,
            )
