"""Acquire, renew, release, show, list, break and check, as curl would."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from fencelock.guards.http import HEADER, refusal, remote_lease
from fencelock.service.operations import Call
from fencelock.service.principals import Principal
from tests.servers_service import Replica
from tests.service.rest.api import KEY, A, Api, B


def test_a_lease_from_its_beginning_to_its_end(api: Api, name: str) -> None:
    held = api.lock(name, "acquire", A, ttl=20, label="nightly job")
    assert held.status == 200
    assert held.headers[KEY] == A
    assert 19 < held.body["expires_in"] < 20
    claim = remote_lease(held.headers[HEADER])
    assert (claim.name, str(claim.fence)) == (name, held.body["fence"])
    again = api.lock(name, "acquire", A, ttl=20, label="nightly job")
    assert again.body["fence"] == held.body["fence"]  # the same lease
    renewed = api.lock(name, "renew", A, ttl=60, label="nightly job")
    assert renewed.status == 200
    assert renewed.headers[HEADER] == held.headers[HEADER]
    assert 59 < renewed.body["expires_in"] < 60

    other = api.lock(name, "acquire", B)
    assert (other.status, other.kind) == (409, "held")
    assert other.body["holder"]["owner"]["label"] == "nightly job"
    assert other.body["holder"]["since"] >= 0
    assert api.show(name)["waiters"] == []
    assert api.lock(name, "renew", B).status == 410
    assert api.lock(name, "release", B).status == 410

    assert api.lock(name, "release", A).body == {"name": name}
    for verb in ("renew", "release"):
        gone = api.lock(name, verb, A)
        assert (gone.status, gone.kind) == (410, "gone")
    assert api.lock(name, "acquire", B).status == 200


def test_the_service_makes_a_key_if_there_is_none(api: Api, name: str) -> None:
    held = api.lock(name, "acquire")
    other = api.lock(name, "acquire")
    assert (held.status, other.status) == (200, 409)
    assert api.lock(name, "release", held.headers[KEY]).status == 200


@pytest.mark.parametrize("key", ["1", "x" * 15, "x" * 201, "sixteen letters and a space", ""])
def test_keys_that_are_refused(api: Api, name: str, key: str) -> None:
    refused = api.lock(name, "acquire", key)
    assert (refused.status, refused.kind) == (400, "malformed")
    assert "16 to 200" in refused.body["detail"]
    assert not key or key == "1" or key not in str(refused.body)
    assert api.show(name)["holders"] == []


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_lease_without_its_key(api: Api, name: str, verb: str) -> None:
    refused = api.lock(name, verb)
    assert (refused.status, refused.kind) == (400, "malformed")


def test_strangers_with_the_same_key_share_nothing() -> None:
    request: Any = SimpleNamespace()
    ids = {
        Call(request, Principal(who), name, A).id for who in ("ann", "bob") for name in ("x", "y")
    }
    assert len(ids) == 4
    assert all(len(id) == 32 and A not in id for id in ids)


def test_secrets_are_not_logged(replica: Replica, api: Api, name: str) -> None:
    api.lock(name, "acquire", A)
    id = Call(SimpleNamespace(), Principal("everybody"), name, A).id  # type: ignore[arg-type]
    api.lock(name, "renew", A, ttl=-1)
    written = (replica.folder / "server.log").read_text()
    assert A not in written
    assert id not in written


LONGEST = ["n" * 512, "ü" * 256, "🔒" * 128]


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a%2Fb",
        "größer 🔒",
        "..",
        ".",
        "{name}",
        "a?b#c&d=e",
        "100%",
        "+",
        "\\",
        "acquire",
        *LONGEST,
    ],
)
def test_names(api: Api, name: str) -> None:
    held = api.lock(name, "acquire", A)
    assert held.status == 200
    assert held.body["name"] == remote_lease(held.headers[HEADER]).name == name
    assert api.show(name)["holders"][0]["fence"] == held.body["fence"]
    listed = api.ask("GET", "/v1/locks")
    assert name in listed.body["names"]
    assert api.lock(name, "release", A).status == 200


def test_two_spellings_are_one_lock(api: Api) -> None:
    assert api.lock("u\N{COMBINING DIAERESIS}ber", "acquire", A).body["name"] == "über"
    assert api.lock("über", "acquire", B).status == 409
    assert api.lock("über", "release", A).status == 200


@pytest.mark.parametrize(
    "coded", ["n" * 513, quote("🔒" * 129), "%00", "a%0Ab", "%FF", "%ED%A0%80", "%E2%80%AE"]
)
def test_names_that_are_refused(api: Api, coded: str) -> None:
    for method, path in (("POST", "/acquire"), ("GET", "")):
        refused = api.ask(method, f"/v1/locks/{coded}{path}", {} if method == "POST" else None)
        assert (refused.status, refused.kind) == (400, "malformed"), refused


def test_a_list(api: Api) -> None:
    names = [f"list:{n}" for n in range(3)]
    for name in names:
        api.lock(name, "acquire", A)
    assert api.ask("GET", "/v1/locks?pattern=list:*").body == {"names": names, "more": False}
    assert api.ask("GET", "/v1/locks?pattern=list:*&limit=2").body == {
        "names": names[:2],
        "more": True,
    }
    assert api.ask("GET", "/v1/locks?pattern=nothing").body == {"names": [], "more": False}


def test_only_the_holder_that_was_seen_is_evicted(api: Api, name: str) -> None:
    path = f"/v1/locks/{name}"
    seen = api.lock(name, "acquire", A).body["fence"]
    assert api.ask("DELETE", path).status == 400
    other = api.ask("DELETE", f"{path}?fence=7")
    assert (other.status, other.kind) == (409, "stale-fence")
    assert (other.body["given"], other.body["newest"]) == ("7", seen)
    assert api.lock(name, "renew", A).status == 200

    broken = api.ask("DELETE", f"{path}?fence={seen}")
    assert broken.status == 200
    assert broken.body["holders"][0]["fence"] == seen
    assert api.lock(name, "renew", A).status == 410
    again = api.ask("DELETE", f"{path}?fence={seen}")
    assert (again.status, again.body["newest"]) == (409, "0")
    assert api.lock(name, "acquire", B).body["abandoned"]


def test_sharing(api: Api, name: str) -> None:
    readers = [api.lock(name, "acquire", key, read=True) for key in (A, B)]
    assert [each.status for each in readers] == [200, 200]
    assert api.lock(name, "renew", A).status == 200
    assert api.lock(name, "acquire").status == 409
    permits = [api.lock(f"{name}/permits", "acquire", permits=2).status for _ in range(3)]
    assert permits == [200, 200, 409]
    both = api.lock(name, "acquire", read=True, permits=2)
    assert (both.status, both.kind) == (400, "malformed")


def test_whether_a_fence_holds(api: Api, name: str) -> None:
    def check(fence: str) -> Any:
        return api.ask("POST", "/v1/fences/check", {"name": name, "fence": fence})

    first = api.lock(name, "acquire", A).body["fence"]
    assert check(first).body["fence"] == first
    waiting = api.lock(name, "acquire", B, wait=0.001)
    assert waiting.status == 202
    (waiter,) = api.show(name)["waiters"]
    assert int(waiter["fence"]) > int(first)
    assert check(first).status == 200  # the waiters have newer fences, but they do not hold
    assert check(waiter["fence"]).status == 409
    api.lock(name, "release", A)
    stale = check(first)
    assert (stale.status, stale.kind) == (409, "stale-fence")
    assert stale.body["newest"] == waiter["fence"]


def test_a_refused_fence_is_that_of_the_guards(api: Api, name: str) -> None:
    stale = api.ask("POST", "/v1/fences/check", {"name": name, "fence": "7"})
    error = refusal(json.dumps(stale.body).encode())
    assert error is not None
    assert (error.name, error.given, error.newest) == (name, 7, 0)
