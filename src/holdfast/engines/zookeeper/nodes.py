"""How names, tickets and what is known of the last holder become znodes, and back.

    <chroot>/holdfast/<name>                    a container: ZooKeeper removes it once it is empty
    <chroot>/holdfast/<name>/x.<digest>.<seq>   a ticket: ephemeral, with its ttl and its owner

The container's data is a mark: who departed last as a holder, and whether it left the name abandoned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote, unquote

from holdfast.core.ticket import Owner, Ticket

_WRAP = 2**32
"""Sequence numbers are signed and of 32 bits."""
_is_ticket = re.compile(r"[xrw]\.[0-9a-z]+\.-?[0-9]{9,10}").fullmatch


def escaped(name: str) -> str:
    """A name as a znode's: no two names share one, and nothing in it is special to ZooKeeper."""
    node = quote(name, safe=" :@+,;=!$&'()*[]{}#~")
    return node if node.strip(".") else node.replace(".", "%2E")


def unescaped(node: str) -> str:
    return unquote(node, errors="replace")


def stem(ticket: Ticket) -> str:
    """What a ticket's node is called, up to its sequence number.

    The id is a secret and whoever may look can read a node's name, so it holds only a digest.
    """
    digest = blake2b(ticket.id.encode(), digest_size=16).hexdigest()
    return f"x.{digest}."


def sequence(node: str) -> int:
    return int(node.rpartition(".")[2])


def in_order(nodes: Iterable[str]) -> list[str]:
    """The tickets among a container's nodes, first come first.

    Compared as distances, so that the order survives the moment when the counter wraps around.
    """
    tickets = [node for node in nodes if _is_ticket(node)]
    if len(tickets) < 2:
        return tickets
    numbered = [(sequence(node), node) for node in tickets]
    somewhere = numbered[0][0] - _WRAP // 2
    return [node for _, node in sorted(((seq - somewhere) % _WRAP, node) for seq, node in numbered)]


class Slip(NamedTuple):
    """What is written on a ticket's node."""

    ttl: float
    owner: Owner

    def pack(self) -> bytes:
        return f"{self.ttl:.6f} {self.owner.pack()}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Slip:
        ttl, _, owner = data.decode().partition(" ")
        return cls(float(ttl), Owner.unpack(owner))


class Mark(NamedTuple):
    """Who departed last as a holder, by its sequence number, and how it left the name."""

    seq: int | None
    abandoned: bool

    def pack(self) -> bytes:
        return f"{self.seq} {int(self.abandoned)}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Mark:
        if not data:  # nobody has departed yet
            return cls(None, False)
        seq, _, abandoned = data.decode().partition(" ")
        return cls(int(seq), abandoned == "1")
