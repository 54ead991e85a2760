"""Serves the files of the page: read once, compressed once, and with a strict content security policy."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from aiohttp import web

_FOLDER = Path(__file__).parent / "page"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}

_ABOUT = {
    # Names and labels come from strangers. Whatever the page would make of one, nothing else may run.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "fencelock",
    "Vary": "Accept-Encoding",
    "Cache-Control": "no-cache",  # ask each time: after an upgrade, old and new files don't fit together
}


class _File:
    """One file of the page."""

    def __init__(self, path: Path) -> None:
        self._plain = path.read_bytes()
        self._compressed = gzip.compress(self._plain, mtime=0)
        tag = sha256(self._plain).hexdigest()[:16]
        self._about = {**_ABOUT, "Content-Type": _TYPES[path.suffix], "ETag": f'"{tag}"'}
        self._tag = tag

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request for this file."""
        known = request.if_none_match or ()
        if any(each.value in (self._tag, "*") for each in known):
            return web.Response(status=304, headers=self._about)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            about = {**self._about, "Content-Encoding": "gzip"}
            return web.Response(body=self._compressed, headers=about)
        return web.Response(body=self._plain, headers=self._about)


def routes() -> Iterator[web.RouteDef]:
    """The page at `/`, and its other files below `/page/`. None of them needs a login, or tells anything."""
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_file():
            place = path.relative_to(_FOLDER).as_posix()
            yield web.get("/" if place == "index.html" else f"/page/{place}", _File(path).answer)
