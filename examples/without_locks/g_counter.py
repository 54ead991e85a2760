"""Two servers count likes while they can't reach each other. Merged counts lose nothing, without a lock.

If each server has one number, nobody can merge them: the larger number forgets likes, and the sum counts the
old ones twice. The cure is a CRDT, a type whose values can always be merged. A *grow-only counter* has one
number per server, and each server raises only its own. To merge, take the larger number of each server. The
order of merges does not matter, and it does no harm to merge twice: so servers can exchange their files
whenever they like.

Run it: python examples/without_locks/g_counter.py
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class GCounter:
    """A number that only grows, counted in several places."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, place: str, number: int = 1) -> GCounter:
        return GCounter({**self.counts, place: self.counts.get(place, 0) + number})

    def merge(self, other: GCounter) -> GCounter:
        places = self.counts.keys() | other.counts.keys()
        return GCounter(
            {place: max(self.counts.get(place, 0), other.counts.get(place, 0)) for place in places}
        )

    @property
    def value(self) -> int:
        return sum(self.counts.values())


def load(file: Path) -> GCounter:
    return GCounter(json.loads(file.read_text()))


def store(file: Path, counter: GCounter) -> None:
    file.write_text(json.dumps(counter.counts))


def main(folder: Path) -> None:
    """Ten likes are known everywhere; then the line is cut, and each server counts on its own."""
    numbers = {"paris": 10 + 5, "tokyo": 10 + 3}
    print("one number each, the larger:", max(numbers.values()), "of 18")
    print("one number each, the sum:   ", sum(numbers.values()), "of 18")

    paris, tokyo = folder / "paris.json", folder / "tokyo.json"
    for file in (paris, tokyo):
        store(file, GCounter().add("paris", 6).add("tokyo", 4))
    store(paris, load(paris).add("paris", 5))
    store(tokyo, load(tokyo).add("tokyo", 3))
    # The line is back. The servers exchange their files, and one message comes twice.
    for here, there in ((paris, tokyo), (tokyo, paris), (paris, tokyo)):
        store(here, load(here).merge(load(there)))
    print("a G-counter in paris:       ", load(paris).value, "of 18")
    print("a G-counter in tokyo:       ", load(tokyo).value, "of 18")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
