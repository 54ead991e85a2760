"""One of three schedulers leads. The leader is killed, and another scheduler takes over.

Each candidate publishes a value, for example its address; here it is its process id. A program that wants
to know the leader observes the election and sees every change. The number of the term only grows, so the
late requests of an old leader can be told from those of the new leader.

Run it: python examples/scheduler_leader.py
"""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator

import fencelock

CANDIDATES = 3
TTL = 1.0  # seconds without a leader after the leader has died; use a longer ttl in production


def schedule(url: str) -> None:
    """One scheduler, in a process of its own: waits until it is elected, then works until it ends."""
    with fencelock.Client(url, label="scheduler") as client:
        election = client.election("scheduler", value=str(os.getpid()), ttl=TTL)
        with election as term:
            while not term.lost.wait(0.05):
                pass  # start the jobs that are due, each with term.fence


def next_leader(observed: Iterator[fencelock.Leader | None]) -> fencelock.Leader:
    """Wait for a leader. For a while there may be none."""
    return next(leader for leader in observed if leader is not None)


def main() -> None:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/locks.db"
        schedulers = [context.Process(target=schedule, args=(url,)) for _ in range(CANDIDATES)]
        for process in schedulers:
            process.start()
        known = {str(process.pid): number for number, process in enumerate(schedulers, 1)}
        with fencelock.Client(url) as client:
            observed = client.election("scheduler", ttl=TTL).observe()
            first = next_leader(observed)
            os.kill(int(first.value), signal.SIGKILL)
            second = next_leader(observed)
        for process in schedulers:
            process.kill()
            process.join()
    assert first.value in known, "the leader publishes its process id"
    assert second.value in known, "and so does the next leader"
    print("one of three leads, and is killed")
    print("another one leads:", first.value != second.value)
    print("its term is later:", first.term < second.term)


if __name__ == "__main__":
    main()
