"""What the servers behind an engine say about themselves: facts for the doctor, which judges them.

An engine answers `diagnose` with a `Server` for each server that it uses. These are facts only: what is good
or bad for a lock stands in `fencelock/doctor/`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from fencelock.io.contract import IO

_MOST = 100
"""The most round trips that are measured at one server."""

_DURATION = 0.3
"""Seconds after which no further round trip is measured."""

_FEWEST = 5
"""The fewest round trips, also at a slow server: one alone says little about its clock."""

_STEP = 0.01
"""Seconds by which two answers of a clock must disagree to call it a jump. Less may be a correction."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class NotTold(Exception):
    """A server does not tell what a check needs to know."""


class Clock(NamedTuple):
    """The wall clock of a server, compared with ours."""

    offset: float
    """Seconds by which it is ahead of our clock."""
    uncertainty: float
    """The true offset is at most so many seconds more or less."""
    stepped: bool = False
    """Whether one of the two clocks jumped while they were compared."""


class Server(NamedTuple):
    """One server (or file) behind an engine, as it describes itself."""

    where: str
    """Its address or path, without a password."""
    role: str = ""
    """What it is among the servers of this set-up: "master", "replica", "sentinel" and so on."""
    said: Mapping[str, str] = _NOTHING
    """What it told about itself, by its own words for it."""
    refused: Mapping[str, str] = _NOTHING
    """What it refused to tell: the question, and why."""
    serves: bool = True
    """Whether requests for locks go to it now, and not only after a failover."""
    failure: str = ""
    """Why it could not be examined at all."""
    round_trips: tuple[float, ...] = ()
    """How long simple requests took, in seconds."""
    clock: Clock | None = None
    """None if its clock can't be asked."""
    own_clock: bool = True
    """Whether leases end by a wall clock of its own, which may differ from this machine's."""
    remote: bool = False
    """Whether it is reached over a network, and not on this machine."""
    encrypted: bool = False
    """Whether the connection to it is encrypted."""
    identity: str = ""
    """Of the place where it keeps the locks: the same from wherever it is examined, and of no other place.
    Empty if it can't be told."""

    def text(self, fact: str) -> str:
        """What it said about this; `NotTold` if it said nothing."""
        try:
            return self.said[fact]
        except KeyError:
            if self.refused:
                why = "; ".join(f"{what} was refused: {why}" for what, why in self.refused.items())
                raise NotTold(why) from None
            raise NotTold(f"the server does not tell {fact}") from None

    def number(self, fact: str) -> float:
        """The same for a number; `NotTold` if it is none."""
        text = self.text(fact)
        try:
            return float(text)
        except ValueError:
            raise NotTold(f"the server does not tell {fact} as a number, but as {text!r}") from None


def identity_of(servers: Iterable[Server]) -> str:
    """The identity of the place where these servers keep the locks together."""
    return digest_of(server.identity for server in servers)


def digest_of(identities: Iterable[str]) -> str:
    """One identity for several, which tells nothing about the servers. Empty if one of them is not known."""
    known = sorted(identities)
    if not known or not all(known):
        return ""
    return blake2b("\n".join(known).encode(), digest_size=8).hexdigest()


class Timing(NamedTuple):
    """What `measure` has found out."""

    round_trips: tuple[float, ...]
    clock: Clock | None


async def measure(ask: Callable[[], Awaitable[float | None]], io: IO) -> Timing:
    """Time a simple request many times, and compare the server's clock with ours.

    `ask` returns the time of the server's wall clock in seconds, or None if it has none to ask.

    When the server read its clock, ours showed something between the moment of sending and the moment of the
    reply. So each answer says that the offset lies in a range, and the true offset lies in all these ranges.
    """
    round_trips: list[float] = []
    low, high, asked = float("-inf"), float("inf"), False
    began = io.now()
    while len(round_trips) < _MOST:
        sent, sent_at = io.now(), time.time()
        theirs = await ask()
        took = io.now() - sent
        round_trips.append(took)
        if theirs is not None:
            asked = True
            low, high = max(low, theirs - sent_at - took), min(high, theirs - sent_at)
        if len(round_trips) >= _FEWEST and io.now() - began >= _DURATION:
            break
    clock = Clock((low + high) / 2, abs(high - low) / 2, low > high + _STEP) if asked else None
    return Timing(tuple(round_trips), clock)


def is_remote(host: str) -> bool:
    """Whether requests to this host leave the machine, as far as its name tells."""
    if host.startswith("/"):  # the path of a Unix socket
        return False
    import ipaddress  # slow to import, and rarely needed

    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"
