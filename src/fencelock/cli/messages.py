"""What `fencelock` says to people: on stderr, one line each, with its name in front."""

from __future__ import annotations

import contextlib
import logging
import sys


def say(message: str) -> None:
    """Tell the user something, in one line."""
    line = " ".join(message.split())
    with contextlib.suppress(OSError):  # nobody listens any more: no reason to act differently
        print(f"fencelock: {line}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Text from elsewhere, without anything that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def say_warnings() -> None:
    """Let the library's warnings, such as a renewal that failed, come out in the same form."""
    logging.getLogger("fencelock").addHandler(_Handler(logging.WARNING))
