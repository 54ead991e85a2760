"""Two publishers write the same file, and one of them is stopped right before its write.

When it continues, its report is out of date: the other publisher has written a newer one. It does not know
that, but the guarded file does: its newest fence is stored in a file beside it, and it refuses the write.

Run it: python examples/publish_report.py
"""

import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import fencelock
from fencelock.guards import FencedFile


def publish(folder: Path, text: str, stops: bool) -> None:
    """A publisher, in a process of its own."""
    report = FencedFile(folder / "report.txt")
    with fencelock.Client(f"sqlite:///{folder}/locks.db", ttl=1.5) as client:
        lease = client.lock("report", guard=report).acquire()
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            report.write(text.encode(), lease)
            lease.release()
        except fencelock.StaleFence:
            print(f"refused: {text}")


def main(folder: Path) -> None:
    spawn = multiprocessing.get_context("spawn").Process
    first = spawn(target=publish, args=(folder, "the old report", True))
    second = spawn(target=publish, args=(folder, "the new report", False))
    first.start()
    os.waitpid(first.pid or 0, os.WUNTRACED)  # until it is stopped
    second.start()
    second.join()
    os.kill(first.pid or 0, signal.SIGCONT)
    first.join()
    print("published:", FencedFile(folder / "report.txt").read().decode())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
