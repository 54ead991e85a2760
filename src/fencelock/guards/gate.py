"""A gate: refuses older holders and leaders in the memory of this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from fencelock.core.errors import StaleFence
from fencelock.guards.lease_like import LeaseLike, RemoteLease, holder_of, holder_of_id, refused

Stamp = LeaseLike | tuple[str, int] | tuple[str, int, str]
"""A lease, a term, or what a message says of one: the name, the fence and, if it is known, the id."""


class Gate:
    """Remembers the newest fence of each name, and refuses older ones with `StaleFence`.

    For followers and services that keep their state in memory and take orders from a leader or a holder. It
    forgets everything when its process ends: then the first fence that comes is the newest. It is for threads
    and for asyncio, because nothing in it waits for long. `size` is how many names it remembers: if there are
    more, it forgets the name that was not seen for the longest time, and accepts any fence of it.
    """

    acts_alone = True

    def __init__(self, size: int = 100_000) -> None:
        if type(size) is not int or size < 1:
            raise ValueError(f"size must be a whole number, one or more, not {size!r}")
        self._size = size
        self._seen: OrderedDict[str, tuple[int, str]] = OrderedDict()
        # Re-entrant, for a check in the body of `writing`.
        self._mutex = threading.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._seen)} names>"

    def __len__(self) -> int:
        return len(self._seen)

    def newest(self, name: str) -> int:
        """The newest fence of a name, or 0 if none is remembered."""
        fence, _ = self._seen.get(name, (0, ""))
        return fence

    def check(self, lease: Stamp) -> None:
        """Raise `StaleFence` if a newer holder of this name was here. Otherwise refuse all older ones from
        now on."""
        name, fence, holder = _read(lease)
        with self._mutex:
            newest, known = self._seen.get(name, (-1, ""))
            # Where an engine fails over, two holders can have the same fence.
            if fence < newest or (fence == newest and holder and known and holder != known):
                raise _refused(lease, name, fence, newest)
            self._seen[name] = fence, holder or (known if fence == newest else "")
            self._seen.move_to_end(name)
            if len(self._seen) > self._size:
                self._seen.popitem(last=False)

    @contextmanager
    def writing(self, lease: Stamp) -> Iterator[None]:
        """`check`, and let nobody else pass until the block has ended: `with gate.writing(term): …`.

        So no newer holder can come between the check and the write. Only change memory in the block: all
        other threads wait. In asyncio, don't `await` in it."""
        with self._mutex:
            self.check(lease)
            yield

    def raise_fence(self, lease: LeaseLike) -> None:
        """`check`, for `lock(…, guard=gate)`."""
        self.check(lease)


class AsyncGate(Gate):
    """A `Gate` for `lock(…, guard=gate)` of an `AsyncClient`. All else is the same, and is not awaited."""

    async def raise_fence(self, lease: LeaseLike) -> None:  # type: ignore[override]
        """`check`, for `lock(…, guard=gate)`."""
        self.check(lease)


def _read(lease: Stamp) -> tuple[str, int, str]:
    """The name, the fence, and the holder if it is known."""
    try:
        if isinstance(lease, tuple) and not isinstance(lease, RemoteLease):
            name, fence, *rest = lease
            holder = holder_of_id(str(rest[0])) if rest and rest[0] else ""
        else:
            name, fence, holder = lease.name, lease.fence, holder_of(lease)
    except (AttributeError, ValueError):
        raise TypeError(
            "a gate takes a lease, a term, or a tuple of name, fence and, if it is known, id, "
            f"not {type(lease).__name__}"
        ) from None
    if type(fence) is not int or not isinstance(name, str):
        raise TypeError(f"a gate compares a name and a whole number, not {name!r} and {fence!r}")
    return name, fence, holder


def _refused(lease: Stamp, name: str, fence: int, newest: int) -> StaleFence:
    whole = RemoteLease(name, fence, "") if isinstance(lease, tuple) else lease
    return refused("gate", whole, newest)
