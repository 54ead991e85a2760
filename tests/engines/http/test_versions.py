"""A client of version N and a service of version N±1 understand each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencelock.core.ticket import Owner, Place, Standing, Ticket
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Enter,
    Hello,
    Leave,
    Renew,
    Reply,
    Request,
    Wake,
    WireStanding,
    WireTicket,
    WireTraits,
    decode_message,
    decode_request,
    encode,
)

TICKET = WireTicket.pack(Ticket("order:42", "a" * 32, 30.0, Owner("here", 1, "till 3")))
STANDING = WireStanding.pack(Standing(Place.WAITING, 7, recheck=2.0))
TRAITS = WireTraits("correctness", "a counter", "the server's")


def newer(value: Any) -> Any:
    """The same message of a later version, which has one more field everywhere."""
    if isinstance(value, dict):
        return {**{key: newer(each) for key, each in value.items()}, "of_tomorrow": {"x": [1]}}
    return [newer(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "act",
    [Enter([TICKET], 2.0), Renew([TICKET], 2.0), Leave(TICKET, 2.0)],
    ids=lambda act: type(act).__name__,
)
def test_a_newer_client(act: AnyAct) -> None:
    request = Request(3, act)
    assert decode_request(json.dumps(newer(json.loads(encode(request)))).encode()) == request


@pytest.mark.parametrize(
    "message",
    [
        Hello("9.9", "redis", TRAITS, "r1"),
        Reply(3, Answer(standings=[STANDING, None])),
        Wake("a" * 32, STANDING),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_newer_service(message: Hello | Reply | Wake) -> None:
    assert decode_message(json.dumps(newer(json.loads(encode(message)))).encode()) == message


def test_an_older_service_says_less() -> None:
    """What it does not say has the weakest meaning."""
    needed = {"guarantee": "efficiency", "fencing": "?", "clock": "?"}
    hello = {"kind": "Hello", "version": "0", "engine": "x", "traits": needed, "replica": "r"}
    found = decode_message(json.dumps(hello).encode())
    assert isinstance(found, Hello)
    traits = found.traits.unpack()
    assert not any((traits.supports_sharing, traits.supports_notes, traits.portable))
