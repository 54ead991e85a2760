"""Locks for the tests of one run, in all workers of pytest-xdist. The plugin itself is `fencelock_pytest`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pytest

import fencelock
from fencelock.core.durations import seconds

T = TypeVar("T")


class RunLocks:
    """The locks of one worker. All workers use the same file, in the temporary folder of the run."""

    def __init__(self, config: pytest.Config) -> None:
        path = _folder(config) / "fencelock.db"
        try:
            ttl = seconds(config.getini("lock_ttl"))
            self._client = fencelock.Client(f"sqlite://{quote(str(path))}", ttl=ttl)
        except ValueError as error:
            raise pytest.UsageError(f"lock_ttl: {error}") from error
        self._held: list[fencelock.Lease] = []

    def hold(self, item: pytest.Item) -> None:
        """Wait for the locks of this test. They are taken in one order, so no tests wait in a circle."""
        for name, shared in sorted(_wanted(item).items()):
            lock = self._client.rwlock(f"lock {name}", label=item.nodeid[-200:])
            self._held.append((lock.read() if shared else lock.write()).acquire())

    def release(self) -> None:
        """Release the locks of the test. `LeaseLost` if other tests may have run beside it."""
        with ExitStack() as every:  # an error of one leaves out none
            while self._held:
                every.callback(self._held.pop().release)

    def once(self, name: str, work: Callable[[], T]) -> T:
        """Do the work once in the whole run, and return its result everywhere."""

        def told() -> T:
            try:
                return work()
            except pytest.fail.Exception as failure:  # no Exception, so it would not be kept
                raise AssertionError(failure.msg) from failure

        return self._client.once(f"once {name}", told, errors=True)

    def close(self) -> None:
        """Release what is held, and close the file."""
        self._client.close()


def _wanted(item: pytest.Item) -> dict[str, bool]:
    """The names that a test holds, and whether it shares them. If marks differ, it holds the name alone."""
    wanted: dict[str, bool] = {}
    for mark in item.iter_markers("lock"):
        unknown = mark.kwargs.keys() - {"shared"}
        shared = mark.kwargs.get("shared", False)
        strings = all(isinstance(name, str) and name for name in mark.args)
        if unknown or not mark.args or not strings or not isinstance(shared, bool):
            pytest.fail(
                "a mark 'lock' takes names, and shared=True if tests may hold them together: "
                '@pytest.mark.lock("db") or @pytest.mark.lock("db", shared=True)',
                pytrace=False,
            )
        for name in mark.args:
            wanted[name] = shared and wanted.get(name, True)
    return wanted


def _folder(config: pytest.Config) -> Path:
    """The temporary folder that all workers of the run share."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.getbasetemp()
    return folder.parent if hasattr(config, "workerinput") else folder
