"""Count what clients ask a Redis to do, by lower-case command name.

    with counting.requests(server) as seen:
        lease = client.lock("order:42").acquire()
    assert seen == {"evalsha": 1}

The counters are filled when the block ends. They count the commands of all clients: use a private server.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from redis.client import Monitor

from tests.servers import RedisServer


@contextmanager
def commands(server: RedisServer) -> Iterator[Counter[str]]:
    """Count the commands that the server executes, including the commands that scripts call."""
    seen: Counter[str] = Counter()
    with server.client() as client:
        before = client.info("commandstats")
        yield seen
        after = client.info("commandstats")
    for entry, stats in after.items():
        name = entry.removeprefix("cmdstat_")
        # The server counts a command when it is done, so `after` knows of the first INFO.
        ours = 1 if name == "info" else 0
        if calls := stats["calls"] - before.get(entry, {"calls": 0})["calls"] - ours:
            seen[name] = calls


@contextmanager
def requests(server: RedisServer) -> Iterator[Counter[str]]:
    """Count the requests that clients send. A script counts as one, whatever it calls. CONFIG is left out."""
    seen: Counter[str] = Counter()
    with server.client() as client, client.monitor() as monitor:
        # The monitor shows all commands in the order of execution, so the commands between our two marks
        # are exactly the commands of the block.
        client.echo(start := uuid4().hex)
        for _ in _until(start, monitor):
            pass
        yield seen
        client.echo(end := uuid4().hex)
        seen.update(_until(end, monitor))


@contextmanager
def writes(server: RedisServer) -> Iterator[list[int]]:
    """Count what the server reads from its sockets: a small batch that was written at once counts as one."""
    seen: list[int] = []
    with server.client() as client:
        before = client.info("stats")["total_reads_processed"]
        yield seen
        seen.append(client.info("stats")["total_reads_processed"] - before - 1)  # the last INFO


def _until(mark: str, monitor: Monitor) -> Iterator[str]:
    for line in monitor.listen():  # type: ignore[no-untyped-call]
        if mark in line["command"]:
            return
        if line["client_type"] != "lua":  # called inside a script
            yield line["command"].split()[0].lower()
