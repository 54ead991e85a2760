"""Messages to the user: on stderr, one line each, after "fencelock: "."""

from __future__ import annotations

import contextlib
import logging
import os
import sys

import click

LEVELS = ("debug", "info", "warning", "error")


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
    if not os.environ.get("FENCELOCK_LOG"):  # else they are in the log
        logging.getLogger("fencelock").addHandler(_Handler(logging.WARNING))


def say_log(logger: str, level: int) -> None:
    """Print what this logger has to say from this level on, in the same form."""
    if not os.environ.get("FENCELOCK_LOG"):
        log = logging.getLogger(logger)
        log.setLevel(level)
        log.addHandler(_Handler(level))


def start_log(level: str) -> None:
    """Write a log of all events to stderr, from this level on: what `FENCELOCK_LOG=debug` is for."""
    if level.lower() not in LEVELS:
        raise click.UsageError(
            f"FENCELOCK_LOG must be {', '.join(LEVELS)} or not set, not {level!r}."
        )
    from fencelock import observe

    log, handler = logging.getLogger("fencelock"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())
    observe.add(observe.Log())
