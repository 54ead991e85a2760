"""Runs a replica until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from fencelock.service.addresses import Address, parse_address
from fencelock.service.app import Service
from fencelock.service.connections import Door, make_tls
from fencelock.service.settings import Settings
from fencelock.service.tokens import Keys, read_keys

log = logging.getLogger("fencelock.service")


class Prepared(NamedTuple):
    """What the settings name, read and checked."""

    addresses: list[Address]
    keys: Keys | None
    tls: ssl.SSLContext | None


def prepare(settings: Settings) -> Prepared:
    """Read what the settings name. Raises `ValueError` if something is missing, broken or unsafe."""
    addresses = [parse_address(each) for each in settings.listen]
    keys = read_keys(Path(settings.tokens)) if settings.tokens else None
    tls = make_tls(settings)
    if settings.client_ca and keys is None:
        raise ValueError("client_ca needs the file `tokens`: the rights of certificates are there")
    others = [str(each) for each in addresses if not each.is_local]
    if others and keys is None:
        if not settings.insecure:
            raise ValueError(
                f"without tokens, everybody who can reach {', '.join(others)} could take and break all "
                "locks: make tokens with `fencelock token new`, listen on 127.0.0.1, or say --insecure"
            )
        log.warning("INSECURE: everybody who reaches %s may do everything", ", ".join(others))
    elif others and tls is None:
        log.warning("tokens travel in clear text to %s: set `certificate`", ", ".join(others))
    return Prepared(addresses, keys, tls)


def check(settings: Settings) -> None:
    """Do everything but listen. Raises what is wrong."""

    async def make() -> None:
        service = Service(settings, prepare(settings).keys)
        await service.acts.engine.close()
        await service.acts.io.close()
        await service.audit.close()

    _run(make())


def serve(settings: Settings, listening: Callable[[str], None]) -> None:
    """Serve. Calls `listening` with each address, and returns after SIGTERM or SIGINT.

    The first signal drains: `/readyz` says no, waiting clients are sent elsewhere, and requests under way
    finish. A second one ends at once. SIGHUP reads tokens and certificates again.
    """
    _run(_serve(settings, listening))


async def _serve(settings: Settings, listening: Callable[[str], None]) -> None:
    prepared = prepare(settings)
    service = Service(settings, prepared.keys)
    runner = web.AppRunner(service.app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        assert runner.server is not None
        door = Door(runner.server, settings, prepared.tls)
        ended = _on_signals(lambda: _read_again(settings, service, door))
        for address in prepared.addresses:
            listening(door.open(address))
        await ended.wait()
        log.info("draining: a second signal ends at once")
        service.draining = True
        await asyncio.sleep(settings.linger)
        try:
            async with asyncio.timeout(settings.drain):
                await service.drain()
                await door.close()
                await service.rest()
        except TimeoutError:
            log.warning("%d requests were not finished in time", service.under_way)
        await door.close()
    finally:
        await runner.cleanup()


def _on_signals(read_again: Callable[[], None]) -> asyncio.Event:
    """Returns the event of the first SIGTERM or SIGINT."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end(signum: int) -> None:
        if ended.is_set():
            os._exit(128 + signum)  # at once: whatever hangs is not asked
        ended.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, end, signum)
    loop.add_signal_handler(signal.SIGHUP, read_again)
    return ended


def _read_again(settings: Settings, service: Service, door: Door) -> None:
    """Read tokens and certificates again, and reopen the audit log. What is broken stays as it was."""
    if settings.tokens:
        try:
            service.use_keys(read_keys(Path(settings.tokens)))
            log.info("tokens were read again")
        except ValueError as error:
            log.error("the old tokens stay in use: %s", error)
    if settings.certificate:
        try:
            door.tls = make_tls(settings)
            log.info("certificates were read again")
        except ValueError as error:
            log.error("the old certificates stay in use: %s", error)
    try:
        service.audit.reopen()
    except OSError as error:
        log.error("the audit log can't be reopened, its old file stays in use: %s", error.strerror)


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run in the faster event loop, if it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(main)
    else:
        uvloop.run(main)
