"""How names and tickets become keys. `values.py` has what is stored under them.

- `fencelock/q/NAME/.LABEL`: a ticket. All tickets of a name, in order of creation, are its queue. The id is
  in the value. The label belongs to the client, which uses it again for its next tickets: etcd remembers
  every key that ever was until it is compacted, and goes through them all when it reads a range.
- `fencelock/q/NAME/.~GROUP~LABEL`: a ticket that joined to share. So one range has the tickets of a group,
  and two ranges have all others. A ticket that held alone and shares now keeps its key; it is the oldest.
- `fencelock/q/NAME/!`: the marker; see `markers.py`. It is in one range with the tickets, so that a single
  condition says that there is nothing at all.
- `fencelock/i/NAME/ID`: the pointer of a ticket. Its value is the ticket's key. It comes and goes together
  with the ticket, so every client finds the ticket by its id, and no two clients put it into the queue
  twice. It is not among the queues, because no range is ever read here: a pointer that was deleted costs
  etcd some memory until it is compacted, but no time.
- `fencelock/n/NAME`: the note; see `notes.py`. It is not among the queues: a note does not make a name used.
"""

from __future__ import annotations

import os
from itertools import count
from typing import NamedTuple
from urllib.parse import quote

QUEUES = b"fencelock/q/"
QUEUES_END = b"fencelock/q0"
"""The first key after all queues: `0` follows `/`."""

_POINTERS = b"fencelock/i/"
_NOTES = b"fencelock/n/"
_MARKER = b"!"


def _escaped(text: str) -> bytes:
    """Without slashes, so that no name's keys are among those of another."""
    if "/" in text or "%" in text:
        text = text.replace("%", "%25").replace("/", "%2F")
    return text.encode()


class Range(NamedTuple):
    """All keys from the first one up to the second, without the second."""

    key: bytes
    end: bytes


class Keys(NamedTuple):
    """The keys of one name."""

    queue: bytes
    end: bytes
    """The tickets are all keys from `queue` up to here."""
    marker: bytes
    everything: bytes
    everything_end: bytes
    pointers: bytes

    @classmethod
    def of(cls, name: str) -> Keys:
        escaped = _escaped(name)
        tag = QUEUES + escaped
        base = tag + b"/"
        pointers = _POINTERS + escaped + b"/"
        return cls(base + b".", base + b"/", base + _MARKER, base, tag + b"0", pointers)

    def ticket(self, label: str, group: str = "") -> bytes:
        return (self.peers(group).key if group else self.queue) + label.encode()

    def pointer(self, id: str) -> bytes:
        """Where the key of the ticket with this id is stored."""
        return self.pointers + id.encode()

    def peers(self, group: str) -> Range:
        """The tickets that joined as members of a group."""
        start = self.queue + b"~" + quote(group, safe="").replace("~", "%7E").encode()
        return Range(start + b"~", start + b"\x7f")

    def others(self, group: str) -> tuple[Range, Range]:
        """All other tickets: those before and those after the group's keys."""
        peers = self.peers(group)
        return Range(self.queue, peers.key), Range(peers.end, self.end)

    def near(self, ticket: bytes) -> Range:
        """A small part of the queue around a ticket: its client's tickets, and a sixteenth of the others."""
        start = ticket[: len(self.queue) + 1]
        return Range(start, start[:-1] + bytes([start[-1] + 1]))


def note_key(name: str) -> bytes:
    return _NOTES + _escaped(name)


def name_of(key: bytes) -> str | None:
    """The name in whose queue a ticket is. None if the key is not a ticket's."""
    tag_bytes, _, rest = key.removeprefix(QUEUES).partition(b"/")
    if rest == _MARKER:
        return None
    tag = tag_bytes.decode(errors="replace")
    return tag.replace("%2F", "/").replace("%25", "%")


class Labels:
    """The labels of one client: as many as it ever had tickets at the same time."""

    def __init__(self) -> None:
        self._client = os.urandom(6).hex()
        self._numbers = count()
        self._free: list[str] = []

    def take(self) -> str:
        try:
            return self._free.pop()  # the label given back last, so that a lock sees few of them
        except IndexError:
            return f"{self._client}.{next(self._numbers)}"

    def give_back(self, label: str) -> None:
        """Only if all requests about its ticket were answered: a late one could hit the next ticket."""
        self._free.append(label)
