"""`fencelock serve`: the lock service."""

from __future__ import annotations

import click

from fencelock.cli.messages import say
from fencelock.client.base import default_url


@click.command()
@click.option("--engine", "url", help="The URL of the engine. Default: FENCELOCK_URL.")
@click.option("--listen", default="127.0.0.1:7007", show_default=True, help="HOST:PORT.")
def serve(url: str | None, listen: str) -> None:
    """Serve locks over HTTP and WebSocket, in front of any engine."""
    from fencelock.service.serving import serve as run  # aiohttp is slow to import

    host, _, port = listen.rpartition(":")
    run(url or default_url(), host, int(port), lambda address: say(f"serving on {address}"))
