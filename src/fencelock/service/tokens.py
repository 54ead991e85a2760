"""The file with tokens and rights. `fencelock token` writes it, each replica reads it.

    [tokens.3f9c2a7d51e0]
    name = "billing"
    sha256 = "…"
    expires = 2027-02-16T12:00:00Z
    rights = { lock = ["order:*"], read = ["*"] }

    [certificates."CN=worker-7"]
    rights = { lock = ["job:*"] }

A token is `flk_ID_SECRET`. The id is public: it finds the entry. The secret is 256 random bits, and the
file has only the SHA-256 of the token. A slow hash, as for passwords, would protect nothing more: passwords
can be guessed, 256 random bits can't. And it would cost each request far more than the request itself.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import math
import os
import re
import secrets
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fencelock.service.principals import EVERYBODY, Rights, check_rights

_NOBODY = secrets.token_bytes(32)
"""What a token with an unknown id is compared with, so that it takes as long as a known one."""


class Credential(NamedTuple):
    """A token or a certificate that the file knows."""

    label: str
    """What an audit may show: "token ID" or "certificate SUBJECT"."""
    name: str
    """The name of the principal. Two tokens may have the same, for example while one replaces the other."""
    rights: Rights
    digest: bytes = b""
    expires: float = math.inf
    listed: Mapping[str, Any] = {}
    """The rights as they stand in the file."""


class Keys:
    """What the file says."""

    def __init__(self, tokens: dict[str, Credential], certificates: dict[str, Credential]) -> None:
        self.tokens = tokens
        self.certificates = certificates

    def of_token(self, text: str) -> Credential | None:
        """The entry of a token, if the token is right. It may have expired."""
        id = text[4:16] if text.startswith("flk_") else ""
        found = self.tokens.get(id)
        digest = sha256(text.encode("utf-8", "surrogateescape")).digest()
        same = hmac.compare_digest(digest, _NOBODY if found is None else found.digest)
        return found if same else None

    def of_certificate(self, certificate: Mapping[str, Any]) -> Credential | None:
        """The entry of the first subject of a verified certificate that has one."""
        for subject in subjects_of(certificate):
            if subject in self.certificates:
                return self.certificates[subject]
        return None

    def still(self, label: str) -> Credential | None:
        """The entry that had this label before the file was read again."""
        kind, _, key = label.partition(" ")
        return (self.tokens if kind == "token" else self.certificates).get(key)


def subjects_of(certificate: Mapping[str, Any]) -> Iterable[str]:
    """The subjects of a certificate: URI:…, DNS:… and other alternative names, then CN=…."""
    for kind, value in certificate.get("subjectAltName", ()):
        yield f"{kind}:{value}"
    for part in certificate.get("subject", ()):
        for kind, value in part:
            if kind == "commonName":
                yield f"CN={value}"


def read_keys(file: Path) -> Keys:
    """Read the file. Raises `ValueError` with what is wrong."""
    try:
        return _keys(tomllib.loads(file.read_text()))
    except OSError as error:
        raise ValueError(f"{file} can't be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, not UTF-8, or not what we need
        raise ValueError(f"{file}: {error}") from error


def _keys(content: dict[str, Any]) -> Keys:
    for key in content:
        if key not in ("tokens", "certificates"):
            raise ValueError(
                f"unknown table {key!r}: there are [tokens.ID] and [certificates.SUBJECT]"
            )
    tokens = {
        id: _credential(f"token {id}", fields, ("name", "sha256", "expires", "rights"))
        for id, fields in _entries(content, "tokens")
    }
    for id, each in tokens.items():
        if not re.fullmatch("[0-9a-f]{12}", id) or len(each.digest) != 32:
            raise ValueError(f"token {id}: `fencelock token new` makes an entry with id and sha256")
    certificates = {
        subject: _credential(f"certificate {subject}", fields, ("name", "expires", "rights"))
        for subject, fields in _entries(content, "certificates")
    }
    for subject in certificates:
        if not subject.startswith("CN=") and ":" not in subject:
            raise ValueError(f"certificate {subject!r}: a subject is CN=…, DNS:… or URI:…")
    return Keys(tokens, certificates)


def _entries(content: dict[str, Any], table: str) -> Iterable[tuple[str, dict[str, Any]]]:
    entries = content.get(table, {})
    if not isinstance(entries, dict) or not all(
        isinstance(each, dict) for each in entries.values()
    ):
        raise ValueError(f"{table} must be tables of their own: [{table}.…]")
    return entries.items()


def _credential(label: str, fields: dict[str, Any], known: tuple[str, ...]) -> Credential:
    for key in fields:
        if key not in known:
            raise ValueError(f"{label} has the unknown key {key!r}")
    try:
        name = check_principal(fields.get("name", label.partition(" ")[2]))
        rights = fields.get("rights", {})
        if not isinstance(rights, dict):
            raise ValueError("rights must be a table, such as { lock = ['order:*'] }")
        expires = fields.get("expires")
        if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
            raise ValueError("expires must be a moment with a zone, such as 2027-01-31T12:00:00Z")
        digest = bytes.fromhex(fields.get("sha256", ""))
        until = math.inf if expires is None else expires.timestamp()
        return Credential(label, name, check_rights(rights), digest, until, rights)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label}: {error}") from error


def check_principal(name: Any) -> str:
    """The name of a principal. Raises `ValueError`."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.strip()) <= 200:
        raise ValueError(f"{name!r} is not a name: use up to 200 printable characters")
    if name == EVERYBODY.name:
        raise ValueError(f"{name!r} is the name of those without a token: use another one")
    return name


# --- changes of the file


def new_token(file: Path, name: str, rights: Mapping[str, list[str]], lifetime: float) -> str:
    """Add a token to the file, which may not exist yet, and return the token. Nobody can read it again."""
    check_principal(name)
    check_rights(rights)
    id = secrets.token_hex(6)
    token = f"flk_{id}_{secrets.token_urlsafe(32)}"
    lines = [
        f"[tokens.{id}]",
        f"name = {_quoted(name)}",
        f'sha256 = "{sha256(token.encode()).hexdigest()}"',
    ]
    if lifetime < math.inf:
        until = datetime.fromtimestamp(time.time() + lifetime, UTC)
        lines.append(f"expires = {until:%Y-%m-%dT%H:%M:%SZ}")
    listed = (f"{right} = [{', '.join(map(_quoted, each))}]" for right, each in rights.items())
    lines.append(f"rights = {{ {', '.join(listed)} }}")
    _change(file, lambda text: f"{text}\n" * bool(text) + "\n".join(lines) + "\n")
    return token


def revoke_tokens(file: Path, who: str) -> list[str]:
    """Delete the tokens with this name or id, and return their ids."""
    ids: list[str] = []

    def without(text: str) -> str:
        tokens = _keys(tomllib.loads(text)).tokens
        ids.extend(id for id, each in tokens.items() if who in (id, each.name))
        for id in ids:
            text = re.sub(rf"^\[tokens\.{id}\]\n(?:(?!\[).*\n?)*", "", text, flags=re.MULTILINE)
        if tokens.keys() - ids != _keys(tomllib.loads(text)).tokens.keys():
            raise ValueError(f"delete the tables [tokens.…] of {', '.join(ids)} by hand")
        return text

    _change(file, without)
    return ids


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # printable text is the same in JSON and TOML


def _change(file: Path, change: Callable[[str], str]) -> None:
    """Replace the file at once: a replica that reads it meanwhile sees the old or the new one."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two changes at the same time must not undo each other
        before = file.read_text() if file.exists() else ""
        text = change(before)
        if text == before:
            return
        _keys(tomllib.loads(text))
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
        try:
            with os.fdopen(handle, "w") as new:
                if file.exists():
                    stat = file.stat()
                    os.fchmod(new.fileno(), stat.st_mode & 0o777)
                    with suppress(PermissionError):  # only root can keep another owner
                        os.fchown(new.fileno(), stat.st_uid, stat.st_gid)
                new.write(text)
                new.flush()
                os.fsync(new.fileno())
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise
        os.fsync(folder)
    finally:
        os.close(folder)
