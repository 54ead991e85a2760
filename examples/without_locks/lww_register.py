"""Two clerks correct the same address offline. "Last writer wins" loses one of them; a vector clock notices.

A *last-writer-wins register* keeps the value with the later time. All copies agree in the end, but one of
two concurrent writes is gone, and nobody is told: it may even be the write that was made last, if clocks
differ. That is fine for a status line, where only the newest value counts.

If each change counts, use a *vector clock*: how many changes of each clerk a value has seen. If one value
has seen all that the other has, it is newer. If neither has, they are concurrent: keep both, and let a
person decide.

Run it: python examples/without_locks/lww_register.py
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, order=True)
class LwwRegister:
    """A value with the time of its writer's clock. Writers that write at the same time are told apart."""

    time: float
    writer: str
    value: str

    def merge(self, other: LwwRegister) -> LwwRegister:
        return max(self, other)


@dataclass(frozen=True)
class VectorClock:
    """How many changes of each writer have been seen."""

    seen: dict[str, int] = field(default_factory=dict)

    def tick(self, writer: str) -> VectorClock:
        return VectorClock({**self.seen, writer: self.seen.get(writer, 0) + 1})

    def merge(self, other: VectorClock) -> VectorClock:
        writers = self.seen.keys() | other.seen.keys()
        return VectorClock({w: max(self.seen.get(w, 0), other.seen.get(w, 0)) for w in writers})

    def compare(self, other: VectorClock) -> Literal["same", "before", "after", "concurrent"]:
        both = self.merge(other).seen
        mine, theirs = self.seen == both, other.seen == both
        if mine:
            return "same" if theirs else "after"
        return "before" if theirs else "concurrent"


def main(folder: Path) -> None:
    """Ada corrects the street. An hour later bob corrects the town, but his clock is two hours behind."""
    ada, bob = folder / "ada.json", folder / "bob.json"
    first = VectorClock().tick("ada")
    ada.write_text(json.dumps([11.0, "ada", "2 New Street, Oldtown", first.tick("ada").seen]))
    bob.write_text(json.dumps([10.0, "bob", "1 Old Street, Newtown", first.tick("bob").seen]))

    (time, writer, value, seen), (time_b, writer_b, value_b, seen_b) = (
        json.loads(file.read_text()) for file in (ada, bob)
    )
    one, other = LwwRegister(time, writer, value), LwwRegister(time_b, writer_b, value_b)
    print("last writer wins:", one.merge(other).value)
    order = VectorClock(seen).compare(VectorClock(seen_b))
    print("the vector clock says:", order)
    if order == "concurrent":
        print("so keep both, and ask:", f"{value!r} or {value_b!r}?")
    # Ada is asked: she has seen both, and decides.
    merged = VectorClock(seen).merge(VectorClock(seen_b)).tick("ada")
    print("the answer comes", merged.compare(VectorClock(seen_b)), "both")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
