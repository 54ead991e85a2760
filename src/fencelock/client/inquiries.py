"""What a client can ask about its engine and its names, and how a lock is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock.client.base import BaseClient
from fencelock.core.durations import Duration, check_positive
from fencelock.core.names import is_name
from fencelock.core.ticket import Inspection
from fencelock.io.blocking import blocking
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

if TYPE_CHECKING:  # few programs need it
    from fencelock.doctor import Report


class AsyncInquiries(BaseClient):
    """The questions of an `AsyncClient`."""

    async def inspect(self: BaseClient, name: str, *, limit: int = 100) -> Inspection:
        """Who holds a name and who waits for it. `limit` is how many waiters are listed."""
        if type(limit) is not int or limit < 0:
            raise ValueError(f"limit must be a whole number, zero or more, not {limit!r}")
        full = self._full(name)
        seen = await self._context.engine.inspect(full, limit=limit, timeout=REQUEST_TIMEOUT)
        return seen._replace(name=name) if self.namespace else seen

    async def names(self: BaseClient, pattern: str = "*") -> list[str]:
        """The names that are held or waited for now, e.g. `names("order:*")`."""
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern must be a str, not {type(pattern).__name__}")
        own = f"{self.namespace}/" if self.namespace else ""
        found = await self._context.engine.names(own + pattern, timeout=REQUEST_TIMEOUT)
        return [name.removeprefix(own) for name in found if is_name(name)]

    async def ping(self: BaseClient) -> float:
        """Ask the engine whether it answers now, and return how many seconds that took. `EngineError` if it
        does not. Nothing is changed, and no right is needed that locks do not need."""
        io = self._context.io
        sent = io.now()
        await self._context.engine.ping(timeout=REQUEST_TIMEOUT)
        return io.now() - sent

    async def break_lock(self: BaseClient, name: str) -> bool:
        """Take a lock from its holder. A holder of this client learns it at once, any other holder at its
        next renewal. Returns False if nobody held it."""
        context, name = self._context, self._full(name)
        broken = await context.engine.evict(name, timeout=REQUEST_TIMEOUT)
        if broken:
            if self._audience.listening:
                from fencelock.observe.events import Broken  # few programs need it

                engine = context.engine.label_of(name)
                owner = context.owned(self._defaults.owner)
                self._audience.tell(Broken, (name, engine, owner))
            await context.notice_eviction(name)
        return broken

    async def diagnose(
        self: BaseClient,
        *,
        ttl: Duration | None = None,
        timeout: Duration = 2.0,
        probe: bool = False,
    ) -> Report:
        """Examine the engine's servers: what is a lock there really good for? As `fencelock doctor`.

        `ttl` is that of your locks; default: the client's. `timeout` is for each request. Nothing is changed,
        unless `probe` is set: then it takes a lock and hands it over. `EngineError` if nothing can be
        examined."""
        from fencelock.doctor import examine  # few programs need it

        ttl = self._defaults.ttl if ttl is None else self._check_ttl(ttl)
        context = self._context
        return await examine(
            context.bare_engine,
            context.io,
            ttl=ttl,
            timeout=check_positive("timeout", timeout),
            probe=probe,
        )


class Inquiries(BaseClient):
    """The questions of a `Client`."""

    inspect = blocking(AsyncInquiries.inspect)
    names = blocking(AsyncInquiries.names)
    ping = blocking(AsyncInquiries.ping)
    break_lock = blocking(AsyncInquiries.break_lock)
    diagnose = blocking(AsyncInquiries.diagnose)
