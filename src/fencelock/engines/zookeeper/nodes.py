"""How names, tickets and the last holder are stored in ZooKeeper's nodes.

    <chroot>/fencelock/<name>                            a container: ZooKeeper removes it once it is empty
    <chroot>/fencelock/<name>/x.<digest>.<seq>           a ticket: ephemeral, with its ttl and its owner
    <chroot>/fencelock/<name>/r.<share>g<digest>.<seq>   a ticket that shares
    <chroot>/fencelock/<name>/t.<share>g.<seq>           a downgrade: the ticket with this number shares now
    <chroot>/fencelock/^x.<digest>.<seq>                 a release signal: made and deleted in one transaction

The container's data is a `HolderRecord`, a ticket's data is `TicketData`.
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
"""How many sequence numbers there are: they are signed, with 32 bits."""
_share_of = re.compile(r"[rt]\.([0-9]+)w([0-9]+)p([0-9a-f]*)g").match
is_downgrade = re.compile(r"t\.[0-9]+w[0-9]+p[0-9a-f]*g\.-?[0-9]{9,10}").fullmatch
_is_ticket = re.compile(r"[xr]\.[0-9a-z]+\.-?[0-9]{9,10}").fullmatch


def escaped(name: str) -> str:
    """The node of a name. No two names have the same one, and nothing in it is special to ZooKeeper."""
    node = quote(name, safe=" :@+,;=!$&'()*[]{}#~")
    return node if node.strip(".") else node.replace(".", "%2E")


def unescaped(node: str) -> str:
    """The name of a node."""
    return unquote(node, errors="replace")


def release_signal(root: str, node: str) -> str:
    """The path that the release of a ticket creates and deletes at once. No name has such a node."""
    return f"{root}/^{node}"


def node_prefix(ticket: Ticket) -> str:
    """The name of a ticket's node, up to its sequence number."""
    share = ticket.share
    return f"{'r.' + _packed(share) if share.group else 'x.'}{digest(ticket)}."


def digest(ticket: Ticket) -> str:
    """What identifies a ticket in its node's name. The id itself is a secret, and a node's name is not."""
    return blake2b(ticket.id.encode(), digest_size=16).hexdigest()


def downgrade_node(node: str, share: Share) -> str:
    """The node that says that a ticket, which joined to hold alone, shares now."""
    return f"t.{_packed(share)}.{node.rpartition('.')[2]}"


def _packed(share: Share) -> str:
    return f"{share.weight}w{share.permits}p{share.group.encode().hex()}g"


def share_of(node: str) -> Share:
    """How a ticket shares, by the name of its node or of its downgrade."""
    found = _share_of(node)
    if found is None:
        return ALONE
    weight, permits, group = found.groups()
    return Share(bytes.fromhex(group).decode(), int(weight), int(permits))


def sequence(node: str) -> int:
    """The sequence number at the end of a node's name."""
    return int(node.rpartition(".")[2])


def in_order(nodes: Iterable[str]) -> list[str]:
    """The tickets among a container's nodes, first come first.

    Numbers are compared as distances, so that the order survives the moment when the counter wraps around.
    """
    numbers = {node: number for node in nodes if (number := _number(node)) is not None}
    somewhere = max(numbers.values(), default=0) - _WRAP // 2
    return sorted(numbers, key=lambda node: (numbers[node] - somewhere) % _WRAP)


@lru_cache(4096)  # most nodes of a long queue were there the last time, too
def _number(node: str) -> int | None:
    """A ticket's sequence number; None if the node is not a ticket."""
    return sequence(node) if _is_ticket(node) else None


class TicketData(NamedTuple):
    """What a ticket's node contains."""

    ttl: float
    owner: Owner
    downgraded: bool = False
    """Whether the ticket shares now, though it joined to hold alone. Stored as a plus before the ttl."""

    def pack(self) -> bytes:
        return f"{'+' * self.downgraded}{self.ttl:.6f} {self.owner.pack()}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> TicketData:
        ttl, _, owner = data.decode().partition(" ")
        return cls(float(ttl), Owner.unpack(owner), ttl.startswith("+"))


class HolderRecord(NamedTuple):
    """What a container says of the last holder: how it departed, or that it holds."""

    seq: int | None
    """The sequence number of its ticket."""
    abandoned: bool
    state: str = ""
    """`held`: this ticket holds alone, and has vanished if it is not there. `shared`: the holders share,
    and none of them makes the name abandoned by vanishing. Empty: this ticket held alone and has departed."""

    def pack(self) -> bytes:
        return f"{self.seq} {int(self.abandoned)} {self.state}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> HolderRecord:
        if not data:  # no ticket has departed yet
            return cls(None, False)
        seq, abandoned, state = data.decode().split(" ")
        return cls(None if seq == "None" else int(seq), abandoned == "1", state)
