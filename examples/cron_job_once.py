"""A nightly job that cron starts on ten machines at the same minute, and that must run once.

The lock keeps the machines apart *while* one of them works: the others don't wait, they leave
(`try_acquire`). A machine that comes later must see that the work is done: it checks under the lock
whether the report exists. A lock alone is never "once".

In a crontab, without Python, the same is:

    fencelock run -n -q -E 0 report:nightly -- ./build-report

Run it: python examples/cron_job_once.py
"""

import multiprocessing
import tempfile
import time
from collections import Counter
from pathlib import Path

import fencelock

MACHINES = 10
DAY = "2026-11-15"


def nightly(folder: Path) -> str:
    """What cron starts. On real machines, the URL would name a server that all machines can reach."""
    report = folder / f"report-{DAY}.txt"
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client:
        lease = client.lock(f"report:{DAY}", ttl=30).try_acquire()
        if lease is None:
            return "another machine is doing it"
        with lease:
            if report.exists():
                return "it was done already"
            build(report)
            return "built the report"


def build(report: Path) -> None:
    """The work: slow, and it must not be done twice."""
    time.sleep(0.5)
    with (report.parent / "builds.log").open("a") as log:
        log.write(f"{report.name}\n")
    draft = report.with_suffix(".draft")
    draft.write_text("all is well\n")
    draft.rename(report)  # all of it or nothing is there


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with multiprocessing.get_context("spawn").Pool(MACHINES) as machines:
            outcomes = Counter(machines.map(nightly, [folder] * MACHINES, chunksize=1))
        outcomes[nightly(folder)] += 1  # a machine whose clock is late
        builds = (folder / "builds.log").read_text().splitlines()
        for outcome, count in outcomes.most_common():
            print(f"{count:>2} {outcome}")
        print(f"{sum(outcomes.values())} runs, {len(builds)} build")


if __name__ == "__main__":
    main()
