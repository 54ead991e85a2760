"""`./site`: makes the site of the documentation, and shows it on this machine."""

from __future__ import annotations

import functools
import sys
from argparse import ArgumentParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from website.build import Faulty, build
from website.pages import ROOT

HOST = "127.0.0.1"


def main() -> None:
    parser = ArgumentParser(prog="./site", description=__doc__)
    parser.add_argument("--build", action="store_true", help="only build it, in build/site/html")
    parser.add_argument("--port", type=int, default=8000, help="of 127.0.0.1; 0 is any free port")
    wanted = parser.parse_args()
    try:
        html = build(ROOT / "build" / "site")
    except KeyboardInterrupt:
        sys.exit(130)
    except Faulty as fault:
        sys.exit(f"fencelock: the site is broken:\n{fault}")
    print(f"built {html.relative_to(ROOT)}")
    if not wanted.build:
        serve(html, wanted.port)


def serve(html: Path, port: int) -> None:
    """Show the site until Ctrl-C."""
    try:
        serving = server(html, port)
    except OSError as error:
        sys.exit(
            f"fencelock: cannot listen on port {port} ({error.strerror}); choose another with --port"
        )
    with serving:
        print(f"open http://{HOST}:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print()


def server(html: Path, port: int) -> ThreadingHTTPServer:
    """A server of this folder, for this machine only."""
    return ThreadingHTTPServer((HOST, port), functools.partial(_Quiet, directory=str(html)))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a page asks for many files."""


if __name__ == "__main__":
    main()
