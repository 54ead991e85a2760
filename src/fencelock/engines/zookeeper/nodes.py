"""How names, tickets and what is known of the last holder become znodes, and back.

    <chroot>/fencelock/<name>                            a container: ZooKeeper removes it once it is empty
    <chroot>/fencelock/<name>/x.<digest>.<seq>           a ticket: ephemeral, with its ttl and its owner
    <chroot>/fencelock/<name>/r.<share>g<digest>.<seq>   one that shares
    <chroot>/fencelock/<name>/t.<share>g.<seq>           the ticket with this number has turned to share
    <chroot>/fencelock/^x.<digest>.<seq>                 a farewell: made and deleted in one transaction

The container's data is a mark: whether the name is abandoned, and who would make it so by vanishing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote, unquote

from fencelock.core.ticket import ALONE, Owner, Share, Ticket

_WRAP = 2**32
"""Sequence numbers are signed and of 32 bits."""
_REMEMBERED = 4096
"""Nodes of which it is remembered whether they are tickets, and their place."""
_share_of = re.compile(r"[rt]\.([0-9]+)w([0-9]+)p([0-9a-f]*)g").match
is_turn = re.compile(r"t\.[0-9]+w[0-9]+p[0-9a-f]*g\.-?[0-9]{9,10}").fullmatch
_is_ticket = re.compile(r"[xrw]\.[0-9a-z]+\.-?[0-9]{9,10}").fullmatch


def escaped(name: str) -> str:
    """A name as a znode's: no two names share one, and nothing in it is special to ZooKeeper."""
    node = quote(name, safe=" :@+,;=!$&'()*[]{}#~")
    return node if node.strip(".") else node.replace(".", "%2E")


def farewell(root: str, node: str) -> str:
    """What a ticket's release makes, for a moment that nobody sees. No name has such a node."""
    return f"{root}/^{node}"


def unescaped(node: str) -> str:
    return unquote(node, errors="replace")


def stem(ticket: Ticket) -> str:
    """What a ticket's node is called, up to its sequence number."""
    share = ticket.share
    return f"{'r.' + _packed(share) if share.group else 'x.'}{ending(ticket)}"


def ending(ticket: Ticket) -> str:
    """The end of that, which is the same however it shares.

    The id is a secret and whoever may look can read a node's name, so it holds only a digest.
    """
    return blake2b(ticket.id.encode(), digest_size=16).hexdigest() + "."


def turned(node: str, share: Share) -> str:
    """The node that says that a ticket, which joined to hold alone, shares by now."""
    return f"t.{_packed(share)}.{node.rpartition('.')[2]}"


def _packed(share: Share) -> str:
    # All of this is a ticket to versions that know nothing of sharing: they wait for it.
    return f"{share.weight}w{share.permits}p{share.group.encode().hex()}g"


def share_of(node: str) -> Share:
    """How a ticket shares, or has turned to share, by the name of its node."""
    found = _share_of(node)
    if found is None:
        return ALONE
    weight, permits, group = found.groups()
    return Share(bytes.fromhex(group).decode(), int(weight), int(permits))


def sequence(node: str) -> int:
    return int(node.rpartition(".")[2])


def in_order(nodes: Iterable[str]) -> list[str]:
    """The tickets among a container's nodes, first come first.

    Compared as distances, so that the order survives the moment when the counter wraps around.
    """
    numbers = {node: number for node in nodes if (number := _number(node)) is not None}
    if len(numbers) < 2:
        return list(numbers)
    lowest, highest = min(numbers.values()), max(numbers.values())
    if highest - lowest < _WRAP // 2:
        return sorted(numbers, key=numbers.__getitem__)
    somewhere = highest - _WRAP // 2
    return sorted(numbers, key=lambda node: (numbers[node] - somewhere) % _WRAP)


@lru_cache(_REMEMBERED)
def _number(node: str) -> int | None:
    """A ticket's sequence number. In a long queue most nodes were there the last time, too."""
    return sequence(node) if _is_ticket(node) else None


class Slip(NamedTuple):
    """What is written on a ticket's node."""

    ttl: float
    owner: Owner
    turned: bool = False
    """Whether it has turned to share: whoever watches it has to look."""

    def pack(self) -> bytes:
        return f"{'+' * self.turned}{self.ttl:.6f} {self.owner.pack()}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Slip:
        ttl, _, owner = data.decode().partition(" ")
        return cls(float(ttl), Owner.unpack(owner), ttl.startswith("+"))


class Mark(NamedTuple):
    """How things were left: by a holder that departed, or by one that holds and says so."""

    seq: int | None
    """Whose it is."""
    abandoned: bool
    state: str = ""
    """`held`: that one holds alone; if it is not there, it has vanished. `shared`: those who hold share, and
    none of them makes a name abandoned by vanishing. Else it has departed, and it held alone."""

    def pack(self) -> bytes:
        text = f"{self.seq} {int(self.abandoned)}"
        return (f"{text} {self.state}" if self.state else text).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Mark:
        if not data:  # nobody has departed yet
            return cls(None, False)
        seq, abandoned, *state = data.decode().split(" ")
        return cls(None if seq == "None" else int(seq), abandoned == "1", *state)
