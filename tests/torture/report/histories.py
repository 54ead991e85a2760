"""Histories of torture runs that did not take place, but look as if they had."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

Record = dict[str, Any]

NAME = "torture-ab12:0"
TTL = 2.0
TITLES = {
    "stop": "process stopped",
    "kill": "process killed",
    "cut": "network cut",
    "late": "replies delayed",
    "restart": "engine restarted",
}
PROMISES = {
    "no_lost_update": ("No update is lost", "All acknowledged updates are in the storage."),
    "no_stale_write": ("A stale holder can't write", "No write with an older fence was accepted."),
    "fences_grow": ("Fences only grow", "Every fence is higher than all before it."),
    "in_order": ("First come, first served", "No waiter was overtaken."),
    "progress": ("A dead holder does not block", "The longest pause was 3.2 s of 9.5 s."),
}


def held() -> list[Record]:
    """A run in which every promise was kept although faults hit holders."""
    run = _Run(1, seconds=60.0, lanes=5, work=0.25)
    run.play()
    run.engine_fault(27.0)
    run.add("stall", at=42.0, until=42.8)
    return run.history("held", "No update was lost, and no stale holder wrote.")


def broken() -> list[Record]:
    """A run in which the storage accepted a stale holder's write."""
    run = _Run(2, seconds=60.0, lanes=5, work=0.25)
    run.play(until=40.0)
    at, stale, newer = 41.0, run.fence(), run.fence()
    expired = {"sure_until": at + 1.9, "released": None, "lost": at + 3.4, "reason": "expired"}
    run.fault("stop", "w1", at + 0.3, at + 3.3, "holder")
    run.grant("w1", stale, at, **expired)
    run.grant("w3", newer, at + 2.1, sure_until=at + 4.0, released=at + 3.9)
    run.write("w3", newer, at + 2.6)
    run.write("w1", stale, at + 3.35, late=True)
    run.play(since=46.0)
    what = (
        (at, "w1.1", f"was granted the lock with fence {stale}"),
        (at + 0.3, "w1.1", "was stopped for 3 s"),
        (at + 2.1, "w3.1", f"was granted the lock with fence {newer}"),
        (at + 2.6, "w3.1", f"accepted write of 512 with fence {newer}"),
        (at + 3.35, "w1.1", f"accepted write of 511 with fence {stale}"),
    )
    events = [{"at": moment, "worker": worker, "what": text} for moment, worker, text in what]
    text = f"The storage accepted a write with fence {stale} after it had seen {newer}."
    stale_write = {"promise": "no_stale_write", "text": text}
    longer = [{**event, "at": 12.0 + n / 2} for n, event in enumerate([*events, *events])]
    run.add("violation", **stale_write, at=12.0, until=17.0, events=longer)
    run.add("violation", **stale_write, at=at + 2.6, until=at + 3.35, events=events)
    return run.history("broken", "The storage accepted the write of a stale holder.")


def not_exercised() -> list[Record]:
    """A short run in which no fault hit a holder."""
    run = _Run(3, seconds=8.0, lanes=3, work=0.2)
    run.play(faults=False)
    return run.history("not exercised", "No fault hit a holder, so this run proves nothing.")


def huge(leases: int = 50_000) -> list[Record]:
    """As many leases as the page must bear."""
    run = _Run(4, seconds=leases * 0.012, lanes=16, work=0.006)
    run.play()
    return run.history("held", "No update was lost, and no stale holder wrote.")


HOSTILE = (
    "</script><img src=x onerror=\"document.title='owned'\">",
    "<!--<script>document.title='owned'</script>",
    "\u202egnp.seirotsih\u202c שלום عالم",
    "n" * 10_000,
    "lone \ud800 surrogate, ends with \\",
)


def hostile() -> list[Record]:
    """Text in all places that would harm a careless page, and numbers that JSON does not have."""
    records = not_exercised()
    texts = ("name", "text", "detail", "title", "error")
    for at, record in enumerate(records):
        record.update({key: HOSTILE[at % 5] for key in texts if key in record})
        record["unknown"] = {HOSTILE[0]: [HOSTILE[0], float("inf")]}
    records[0].update(names=list(HOSTILE), url="redis://me:hunter2@127.0.0.1:6379")
    events = [{"at": 3 + n / 10, "worker": "w1.1", "what": text} for n, text in enumerate(HOSTILE)]
    violation = {"type": "violation", "promise": HOSTILE[0], "text": HOSTILE[0], "events": events}
    return [*records[:-1], violation, {**records[-1], "verdict": "broken", "text": HOSTILE[0]}]


ALL: tuple[Callable[[], list[Record]], ...] = (held, broken, not_exercised, huge, hostile)


class _Run:
    """Processes that take turns with one lock; now and then something goes wrong."""

    def __init__(self, seed: int, *, seconds: float, lanes: int, work: float) -> None:
        self._random = random.Random(seed)
        self._seconds, self._work = seconds, work
        self._lanes = [f"w{n + 1}" for n in range(lanes)]
        self._lives = dict.fromkeys(self._lanes, 1)
        self._born = dict.fromkeys(self._lanes, 0.05)
        self._free = dict(self._born)
        """Since when each process waits at the earliest."""
        self._fence = 1_794_776_823_290_000
        self._value = 0
        self._records: list[Record] = []
        where = {"engine": "redis", "url": "redis://127.0.0.1:6379", "storage": "sqlite"}
        what = {"primitive": "lock", "ttl": TTL, "seconds": seconds, "depth": "self", "bare": True}
        began = {"began": "2026-11-19T01:42:00Z", "version": "0.1.0", "seed": seed}
        self.add("run", **where, **what, **began, names=[NAME])

    def add(self, type: str, **record: Any) -> None:
        self._records.append({"type": type, **record})

    def fence(self) -> str:
        self._fence += self._random.randint(1, 900)
        return str(self._fence)

    def play(self, since: float = 0.3, until: float | None = None, *, faults: bool = True) -> None:
        """Let the processes take turns."""
        at, turn = since, 0
        until = self._seconds - 2 * self._work if until is None else until
        likely = 0.05 * min(1, 4 * self._work)
        while at < until:
            lane = self._lanes[turn % len(self._lanes)]
            turn += 1
            harm = faults and at < until - 2 * TTL and self._random.random() < likely
            at = self._harmed(lane, at) if harm else self._served(lane, at)

    def _served(self, lane: str, at: float) -> float:
        self._waited(lane, at)
        fence, end = self.fence(), at + self._work * self._random.uniform(0.5, 1.5)
        self.grant(lane, fence, at, sure_until=at + 0.99 * TTL, released=end)
        self.write(lane, fence, (at + end) / 2)
        self._free[lane] = end
        return end + self._work * self._random.uniform(0.05, 0.2)

    def _harmed(self, lane: str, at: float) -> float:
        """A fault hits the holder, so that the others wait for the end of its ttl."""
        self._waited(lane, at)
        kind, fence = self._random.choice(["stop", "kill", "cut", "late"]), self.fence()
        if kind == "kill":
            self.fault(kind, lane, at + 0.1, at + 0.1, "holder")
            self.grant(lane, fence, at, sure_until=at + 0.1, released=None)
            self._ended(lane, at + 0.1, "killed")
            self._lives[lane] += 1
            self._born[lane] = self._free[lane] = at + 0.9
            return at + TTL + 0.1
        end = at + TTL * self._random.uniform(1.2, 1.8)
        self.fault(kind, lane, at + 0.05, end, "holder", "request")
        lost = {"lost": end + 0.05, "reason": "expired"}
        self.grant(lane, fence, at, sure_until=at + 0.99 * TTL, released=None, **lost)
        outcome = "unknown" if kind == "cut" else "refused"
        newest = str(self._fence + 1)
        self.write(lane, fence, end + 0.03, outcome, late=kind != "stop", newest=newest)
        self._free[lane] = end + 0.1
        return at + TTL + 0.1

    def _waited(self, lane: str, at: float) -> None:
        asked = at - self._work * self._random.uniform(0.3, len(self._lanes) - 1)
        asked = min(at, max(self._free[lane], asked))
        who = {"worker": self._worker(lane), "name": NAME}
        self.add("attempt", **who, at=asked, until=at, outcome="granted")

    def _worker(self, lane: str) -> str:
        return f"{lane}.{self._lives[lane]}"

    def _ended(self, lane: str, until: float, end: str) -> None:
        born = {"worker": self._worker(lane), "pid": 4711, "at": self._born[lane]}
        self.add("process", lane=lane, **born, until=until, end=end)

    def grant(self, lane: str, fence: str, at: float, **more: Any) -> None:
        lease = {"worker": self._worker(lane), "name": NAME, "share": "lock", "fence": fence}
        self.add("grant", **{**lease, "at": at, "lost": None, "abandoned": False, **more})

    def write(
        self, lane: str, fence: str, at: float, outcome: str = "accepted", **more: Any
    ) -> None:
        self._value += 1
        write = {"worker": self._worker(lane), "name": NAME, "fence": fence, "at": at}
        values = {"value": self._value, "replaced": self._value - 1}
        self.add("write", **write, **values, outcome=outcome, **more)

    def fault(self, kind: str, lane: str, at: float, until: float, *hit: str) -> None:
        target = self._worker(lane) if kind in ("stop", "kill") else f"network of {lane}"
        what = {"kind": kind, "title": TITLES[kind], "target": target, "lanes": [lane]}
        self.add("fault", **what, at=at, until=until, hit=list(hit), detail=f"{kind}: {target}")

    def engine_fault(self, at: float) -> None:
        """The engine restarts, and an acquisition fails."""
        what = {"kind": "restart", "title": TITLES["restart"], "target": "engine", "lanes": []}
        self.add("fault", **what, at=at, until=at + 1.4, hit=["holder", "waiter", "request"])
        attempt = {"worker": "w2.1", "name": NAME, "at": at - 0.2, "until": at + 0.3}
        self.add("attempt", **attempt, outcome="error", error="EngineError: the server has gone")

    def history(self, verdict: str, text: str) -> list[Record]:
        """All records, with the verdict at their end."""
        for lane in self._lanes:
            self._ended(lane, self._seconds, "ended")
        violated = {each["promise"] for each in self._all("violation")}
        for id, (title, detail) in PROMISES.items():
            otherwise = "held" if verdict == "broken" else verdict
            found = {"verdict": "broken" if id in violated else otherwise, "detail": detail}
            self.add("promise", id=id, title=title, **found)
        self.add("verdict", verdict=verdict, text=text, **self._counts(len(violated)))
        return self._records

    def _all(self, type: str) -> Iterator[Record]:
        return (each for each in self._records if each["type"] == type)

    def _counts(self, missing: int) -> Record:
        outcomes = [each["outcome"] for each in self._all("write")]
        accepted, refused = outcomes.count("accepted"), outcomes.count("refused")
        leases = [each["lost"] for each in self._all("grant")]
        faults: dict[str, Record] = {}
        for each in self._all("fault"):
            none = {"title": each["title"], "times": 0, "holder": 0, "waiter": 0, "request": 0}
            row = faults.setdefault(each["kind"], none)
            for key in ("times", *each["hit"]):
                row[key] += 1
        return {
            "acknowledged": accepted, "stored": accepted - missing, "refused": refused, "bare_lost": refused,
            "grants": len(leases), "lost": sum(lost is not None for lost in leases),
            "longest_idle": 3.2, "bound": 9.5, "faults": faults,
        }  # fmt: skip
