"""A shopping list on two phones that are offline. Merged, it has what was added, and not what was removed.

To merge two plain sets, their union brings back what was removed, and their intersection drops what was
added. The cure is a CRDT, the *observed-remove set*. Each addition has a tag of its own. To remove an item
means to remove the tags that this phone *has seen*. So an addition that the phone did not know of survives.

It costs: removed tags have to be remembered, at least until every phone has seen them.

Run it: python examples/without_locks/or_set.py
"""

from __future__ import annotations

import json
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OrSet:
    """A set that can be changed in several places. Where one adds and another removes, the item stays."""

    added: frozenset[tuple[str, str]] = frozenset()
    """Each item with the tag of its addition."""
    removed: frozenset[str] = frozenset()
    """The tags that were removed."""

    def add(self, item: str, tag: str | None = None) -> OrSet:
        return OrSet(self.added | {(item, tag or uuid.uuid4().hex)}, self.removed)

    def remove(self, item: str) -> OrSet:
        return OrSet(self.added, self.removed | {tag for each, tag in self.added if each == item})

    def merge(self, other: OrSet) -> OrSet:
        return OrSet(self.added | other.added, self.removed | other.removed)

    @property
    def items(self) -> set[str]:
        return {item for item, tag in self.added if tag not in self.removed}


def load(file: Path) -> OrSet:
    added, removed = json.loads(file.read_text())
    return OrSet(frozenset((item, tag) for item, tag in added), frozenset(removed))


def store(file: Path, items: OrSet) -> None:
    file.write_text(json.dumps([sorted(items.added), sorted(items.removed)]))


def main(folder: Path) -> None:
    """Both phones have bread and milk. Then ada buys the milk, and bob adds eggs, and more milk."""
    before = {"bread", "milk"}
    ada_s, bob_s = before - {"milk"}, before | {"eggs"}
    print("plain sets, union:       ", *sorted(ada_s | bob_s))
    print("plain sets, intersection:", *sorted(ada_s & bob_s))

    ada, bob = folder / "ada.json", folder / "bob.json"
    for file in (ada, bob):
        store(file, OrSet().add("bread", "b1").add("milk", "m1"))
    store(ada, load(ada).remove("milk"))
    store(bob, load(bob).add("eggs"))
    # They are online again. One message comes twice.
    for here, there in ((ada, bob), (bob, ada), (ada, bob)):
        store(here, load(here).merge(load(there)))
    print("an OR-set on both phones:", *sorted(load(ada).items & load(bob).items))
    store(ada, load(ada).remove("eggs"))
    store(bob, load(bob).add("eggs"))  # at the same time, and ada does not know
    merged = load(ada).merge(load(bob))
    print("removed and added again: ", *sorted(merged.items))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
