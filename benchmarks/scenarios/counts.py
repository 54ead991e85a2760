"""Counts that are the same in each run: function calls and system calls per pair."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from benchmarks import counted
from benchmarks.adapters.contract import AnyTurns
from benchmarks.adapters.limits.redis_pair import RawPair
from benchmarks.adapters.limits.redis_pair_asyncio import AsyncRawPair
from benchmarks.adapters.limits.sqlite_row import BareRow
from benchmarks.adapters.ours import AsyncFencelock, Fencelock, FencelockMeasured
from benchmarks.adapters.rivals.filelock import FileLock
from benchmarks.adapters.rivals.portalocker import Portalocker
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock
from benchmarks.adapters.rivals.redis_py_asyncio import AsyncRedisPyLock
from benchmarks.adapters.rivals.sherlock import Sherlock
from benchmarks.rounds import Samples, Table, left_out
from benchmarks.setting import Setting, scenario

REDIS = (Fencelock, FencelockMeasured, Sherlock, RedisPyLock, PythonRedisLock, RawPair)
ASYNC = (AsyncFencelock, AsyncRedisPyLock, AsyncRawPair)
SQLITE = (Fencelock, FileLock, Portalocker, BareRow)
PAIRS = 50


@scenario("counts")
def counts(setting: Setting) -> Iterator[Table]:
    for where, url, adapters in (
        ("Redis pair, sync", setting.redis.url, REDIS),
        ("Redis pair, asyncio", setting.redis.url, ASYNC),
        ("SQLite pair, sync", setting.sqlite_url, SQLITE),
    ):
        for what, count in (("function calls", _function_calls), ("system calls", _system_calls)):
            if count is _system_calls and not _can_trace():
                continue
            notes: list[str] = []
            samples = _counted(adapters, url, count, notes)
            yield Table(f"{where}, {what}", "per pair", "lower", samples, notes=notes)


def _counted(
    adapters: Sequence[type[AnyTurns]],
    url: str,
    count: Callable[[type[AnyTurns], str], float],
    notes: list[str],
) -> Samples:
    samples: Samples = {}
    for adapter in adapters:
        try:
            samples[adapter.label] = [count(adapter, url)]
        except Exception as error:
            if adapter is adapters[0]:
                raise
            notes.append(left_out(adapter.label, error))
    return samples


def _function_calls(adapter: type[AnyTurns], url: str) -> float:
    """Count calls of Python functions, and of C functions from Python, in the calling thread."""
    seen = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    def begin() -> None:
        sys.setprofile(see)

    counted.run(adapter, url, PAIRS, begin, lambda: sys.setprofile(None))
    return seen / PAIRS


def _can_trace() -> bool:
    """Whether strace is installed and may trace."""
    strace = shutil.which("strace")
    return (
        bool(strace)
        and not subprocess.run([str(strace), "-qq", "true"], capture_output=True).returncode
    )


def _system_calls(adapter: type[AnyTurns], url: str) -> float:
    """Count the system calls of a whole process with its threads."""
    words = (adapter.__module__, adapter.__name__, url, str(PAIRS))
    command = ["strace", "-f", "-qq", "-e", "signal=none", sys.executable, "-m", counted.__name__]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
    _, *pairs = done.stderr.split(counted.MARK)
    assert len(pairs) == 2, done.stderr[-300:]
    return (pairs[0].count("\n") - 1) / PAIRS  # one of them is the mark itself
