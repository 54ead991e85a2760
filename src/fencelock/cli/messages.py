"""Messages to the user: on stderr, one line each, after "fencelock: "."""

from __future__ import annotations

import contextlib
import logging
import sys


def say(message: str) -> None:
    """Print a message to the user, in one line."""
    line = " ".join(message.split())
    with contextlib.suppress(OSError):  # stderr is closed: go on without a message
        print(f"fencelock: {line}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Text from another process, without control characters for the terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def say_warnings() -> None:
    """Print the library's warnings, such as a failed renewal, in the same form."""
    logging.getLogger("fencelock").addHandler(_Handler(logging.WARNING))
