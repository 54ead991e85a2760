"""`manage.py locked NAME -- COMMAND`: run a management command under a lock."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fencelock.core.durations import check_ttl
from fencelock.core.url import Url
from fencelock.integrations.django import options


def _within(namespace: str | None, url: str) -> str:
    """The URL with the namespace of the project's client: its locks have the same names then."""
    if namespace is None or Url.parse(url).namespace is not None:
        return url
    return f"{url}{'&' if '?' in url else '?'}namespace={namespace}"


class Command(BaseCommand):  # type: ignore[misc]  # Django ships no types
    """Becomes `fencelock run`, which stops the management command before its lease ends."""

    help = (
        "Runs a management command under a lock: manage.py locked NAME -- COMMAND. Before the `--`, it takes "
        "the options of `fencelock run`, such as -n (don't wait) and --once-per 20h."
    )

    def add_arguments(self, parser: Any) -> None:
        """For `manage.py help locked`."""
        parser.add_argument("name", help="the lock's name")
        parser.add_argument("command", nargs="*", help="the management command, after a --")

    def run_from_argv(self, argv: list[str]) -> None:
        """Replace this process: a thread of it could not stop a command that hangs."""
        manage, _, *words = argv
        at = words.index("--") if "--" in words else len(words)
        ours, command = words[:at], words[at + 1 :]
        given = options()
        if not isinstance(given["url"], str):
            sys.exit(
                "locked: the settings name several engines; say which one with --url, or set FENCELOCK_URL"
            )
        if given.get("ttl") is not None:
            ours = ["--ttl", str(check_ttl(given["ttl"])), *ours]
        if command:
            ours = ["--label", command[0], *ours]
            command = ["--", sys.executable, manage, *command]
        sys.stdout.flush()
        os.execve(
            sys.executable,
            [sys.executable, "-m", "fencelock", "run", *ours, *command],
            # Not an argument: it may have a password.
            {**os.environ, "FENCELOCK_URL": _within(given.get("namespace"), given["url"])},
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Refuse to run inside of a program."""
        raise CommandError(
            "`locked` replaces its process: call it from a shell. In a program use "
            "`with client.lock(…): call_command(…)`"
        )
