"""Who may do what: tokens × endpoints × names, every cell."""

from __future__ import annotations

import hmac
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
import pytest

from fencelock.service.identity import Failures
from fencelock.service.principals import EVERYBODY, Principal, check_rights
from fencelock.service.tokens import new_token, read_keys, revoke_tokens
from tests.servers_service import Replica
from tests.service.company import LineClient, ask, entering, said, serving, ticket, token_in
from tests.waiting import eventually, soon

RIGHTS: dict[str, dict[str, list[str]]] = {
    "locker": {"lock": ["order:*"]},
    "reader": {"read": ["order:*"]},
    "breaker": {"break": ["order:*"]},
    "admin": {"admin": ["order:*"]},
    "mixed": {"lock": ["job:*"], "read": ["*"]},
    "nothing": {"lock": []},
}
NAMES = ("order:1", "job:1")


def _acts(name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each endpoint: the right that it needs, and a body."""
    one, timeout = ticket(name), {"timeout": 5}
    return {
        "enter": ("lock", entering(one)),
        "renew": ("lock", {"tickets": [one], **timeout}),
        "park": ("lock", {"ticket": one, **timeout}),
        "remember": ("lock", {"ticket": one, "text": "x", "keep": 60, **timeout}),
        "recall": ("lock", {"name": name, **timeout}),
        "inspect": ("read", {"name": name, **timeout}),
        "evict": ("break", {"name": name, **timeout}),
        "leave": ("lock", {"ticket": one, **timeout}),
    }


def _may(who: str, right: str, name: str) -> bool:
    """The table in the words of the documentation: admin includes the other rights."""
    patterns = [*RIGHTS[who].get(right, []), *RIGHTS[who].get("admin", [])]
    return any(pattern == "*" or name.startswith(pattern.rstrip("*")) for pattern in patterns)


class House:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "tokens.toml"
        self.tokens = {
            who: new_token(self.file, who, rights, 3600.0) for who, rights in RIGHTS.items()
        }
        self.audit = folder / "audit.log"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="module")
def replica(house: House) -> Iterator[Replica]:
    options = ("--tokens", str(house.file), "--audit", str(house.audit))
    with serving(house.file.parent, *options) as running:
        yield running


def test_every_cell(replica: Replica, house: House) -> None:
    for who, token in house.tokens.items():
        for name in NAMES:
            for operation, (right, body) in _acts(name).items():
                reply = ask(replica, f"/v1/{operation}", body, token=token)
                expected = 200 if _may(who, right, name) else 403
                assert reply.status == expected, (who, operation, name, reply.body)
                if expected == 403:
                    assert reply.kind == "forbidden"


async def test_every_cell_on_a_line(replica: Replica, house: House) -> None:
    for who, token in house.tokens.items():
        async with LineClient(replica, token) as line:
            for name in NAMES:
                for operation, (right, body) in _acts(name).items():
                    answer = await line.ask(operation, **body)
                    refused = answer.get("problem", {}).get("status") == 403
                    assert refused is not _may(who, right, name), (who, operation, name, answer)


async def test_a_ping_needs_no_right(replica: Replica, house: House) -> None:
    for token in house.tokens.values():
        async with LineClient(replica, token) as line:
            assert await line.ask("ping", timeout=5) == {"done": True}


def test_without_a_right_token_nothing_is_open(replica: Replica, house: House) -> None:
    good = house.tokens["locker"]
    wrong = ("", "x", good[:-1], good + "x", good[:16] + "x" * 44, "flk_000000000000_" + "A" * 43)
    for number, token in enumerate(wrong):
        source = f"127.0.1.{number + 1}"  # the failures of one address are slowed down
        for path in ("/v1/info", "/v1/line", "/v1/enter"):
            body: object = {} if path == "/v1/enter" else None
            reply = ask(replica, path, body, token=token, source=source)
            assert (reply.status, reply.kind) == (401, "unauthorized"), (token, path)
            assert reply.headers["WWW-Authenticate"] == "Bearer"
    basic = ask(replica, "/v1/info", headers={"Authorization": f"Basic {good}"})
    assert basic.status == 401
    assert ask(replica, "/v1/info", headers={"Authorization": f"bearer {good}"}).status == 200
    for path in ("/livez", "/readyz"):
        assert ask(replica, path).status == 200


def test_listings_show_only_what_one_may_read(replica: Replica, house: House) -> None:
    held = [ticket("order:listed"), ticket("job:listed")]
    assert ask(replica, "/v1/enter", entering(held[0]), token=house.tokens["admin"]).status == 200
    assert ask(replica, "/v1/enter", entering(held[1]), token=house.tokens["mixed"]).status == 200
    seen = {
        who: set(ask(replica, "/v1/names", {"timeout": 5}, token=token).body["names"])
        for who, token in house.tokens.items()
    }
    both = {"order:listed", "job:listed"}
    expected = {"reader": {"order:listed"}, "admin": {"order:listed"}, "mixed": both}
    assert {who: names & both for who, names in seen.items()} == {
        who: expected.get(who, set()) for who in RIGHTS
    }
    inspected = ask(
        replica, "/v1/inspect", {"name": "order:listed", "timeout": 5}, token=house.tokens["mixed"]
    )
    assert len(inspected.body["seen"]["holders"]) == 1
    assert held[0]["id"] not in str(inspected.body)


def test_the_right_and_the_lock_are_for_one_spelling(tmp_path: Path) -> None:
    """A name is checked in the form in which it is locked."""
    file = tmp_path / "tokens.toml"
    token = token_in(file, "cafe", admin=["caf\N{LATIN SMALL LETTER E WITH ACUTE}*"])
    with serving(tmp_path, "--tokens", str(file)) as replica:
        decomposed = "cafe\N{COMBINING ACUTE ACCENT}"
        assert ask(replica, "/v1/enter", entering(ticket(decomposed)), token=token).status == 200
        assert ask(replica, "/v1/names", {"timeout": 5}, token=token).body["names"] == [
            "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
        ]


async def test_revoked_and_changed_by_sighup(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    gone, kept = token_in(file, "gone", lock=["*"]), token_in(file, "kept", lock=["a"])
    with serving(tmp_path, "--tokens", str(file)) as replica:
        async with LineClient(replica, gone) as first, LineClient(replica, kept) as second:
            assert (await second.ask("enter", **entering(ticket("b"))))["problem"]["status"] == 403
            assert revoke_tokens(file, "gone")
            file.write_text(file.read_text().replace('["a"]', '["b"]'))
            replica.tell(signal.SIGHUP)
            closed = await first.socket.receive(timeout=30)
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1008)
            assert "standings" in await second.ask("enter", **entering(ticket("b")))
        assert ask(replica, "/v1/info", token=gone).status == 401
        assert ask(replica, "/v1/info", token=kept).status == 200
        file.write_text("[tokens.broken")
        replica.tell(signal.SIGHUP)
        await soon(lambda: "the old tokens stay in use" in said(replica), "the log to say why")
        assert ask(replica, "/v1/info", token=kept).status == 200


async def test_an_expired_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    token_in(file, "another", lock=["*"])
    with serving(tmp_path, "--tokens", str(file)) as replica:
        # Only now: on a busy machine, a replica takes seconds to start.
        token = token_in(file, "brief", 5.0, lock=["*"])
        replica.tell(signal.SIGHUP)
        eventually(lambda: "tokens were read again" in said(replica), "the new token")
        async with LineClient(replica, token) as line:
            closed = await line.socket.receive(timeout=60)
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1008)
        assert time.time() >= read_keys(file).tokens[token[4:16]].expires
        assert ask(replica, "/v1/info", token=token).status == 401


# --- the parts


def test_tokens_are_compared_in_constant_time(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    token = token_in(file, "a", lock=["*"])
    keys = read_keys(file)
    with mock.patch("hmac.compare_digest", wraps=hmac.compare_digest) as spy:
        assert keys.of_token(token) is not None
        assert keys.of_token(token[:-1] + "!") is None
        assert keys.of_token("flk_000000000000_x") is None
        assert keys.of_token("") is None
    assert spy.call_count == 4


def test_the_file_has_only_hashes(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("# ours\n")
    file.chmod(0o640)
    tokens = [token_in(file, 'a "quoted" name', lock=["x[0-9]*"]) for _ in range(2)]
    other = token_in(file, "other", 1e9, read=["*"])
    text = file.read_text()
    assert all(token.split("_", 2)[2] not in text for token in (*tokens, other))
    assert text.startswith("# ours\n")
    assert file.stat().st_mode & 0o777 == 0o640
    assert len(revoke_tokens(file, 'a "quoted" name')) == 2
    assert [each.name for each in read_keys(file).tokens.values()] == ["other"]
    assert revoke_tokens(file, "nobody") == []
    assert "# ours" in file.read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[other]", "unknown table 'other'"),
        ("tokens = 1", "must be tables"),
        ("[tokens.xyz]\nname = 'a'\nrights = {}", "token xyz"),
        ("[tokens.000000000000]\nname = 'a'\nsha256 = 'zz'", "token 000000000000"),
        ("[certificates.'CN=a']\nrights = { own = ['*'] }", "'own' is not a right"),
        ("[certificates.'CN=a']\nrights = { lock = '*' }", "needs a list of patterns"),
        ("[certificates.'CN=a']\nright = 1", "unknown key 'right'"),
        ("[certificates.a]\nrights = {}", "a subject is"),
        ("[certificates.'CN=a']\nexpires = 2030-01-01", "a moment with a zone"),
        ("[certificates.'CN=everybody']\nname = 'everybody'", "use another one"),
        ("nonsense", "tokens.toml"),
    ],
)
def test_a_bad_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"tokens\.toml") as caught:
        read_keys(file)
    assert says in str(caught.value)


def test_a_bad_name_or_right_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    for name, rights in (("", {"lock": ["*"]}), ("a\n", {"lock": ["*"]}), ("a", {"own": ["*"]})):
        with pytest.raises(ValueError, match="is not a"):
            new_token(file, name, rights, 60.0)
    assert not file.exists()


def test_admin_includes_the_other_rights() -> None:
    someone = Principal("a", check_rights({"admin": ["x:*"], "read": ["y"]}))
    assert all(someone.may(right, "x:1") for right in EVERYBODY.rights)
    assert someone.may("read", "y")
    assert not someone.may("lock", "y")


def test_failures_are_slowed_down_and_forgotten() -> None:
    failures = Failures()
    delays = [failures.delay("192.0.2.1") for _ in range(12)]
    assert delays == sorted(delays)
    assert delays[-1] == 0.8
    assert failures.delay("192.0.2.2") == delays[0]
    for number in range(10_000):
        failures.delay(f"10.0.{number // 250}.{number % 250}")
    assert len(failures._recent) <= 4096
    assert failures.count == 10_013
    first, second = (failures.delay(f"2001:db8::{end}") for end in ("1", "2"))
    assert second > first  # the addresses of one network belong together


def test_a_login_that_fails_does_not_slow_down_others(replica: Replica, house: House) -> None:
    """The failures of an address delay only further failures of this address."""
    for _ in range(3):
        ask(replica, "/v1/info", token="wrong")
    assert ask(replica, "/v1/info", token=house.tokens["locker"]).status == 200
    eventually(
        lambda: house.audit.exists() and '"reason":"unauthorized"' in house.audit.read_text(),
        "the audit log to have the failures",
    )
