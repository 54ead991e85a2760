"""Settings: a file, flags and variables from one table; `--check`; `fencelock token`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fencelock.service.addresses import network_of, parse_address
from fencelock.service.serving import check
from fencelock.service.settings import TABLE, Settings, load_settings

ROOT = Path(__file__).parents[2]


def fencelock(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FENCELOCK")}
    return subprocess.run(
        [sys.executable, "-m", "fencelock", *words],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('max_ttl = "1h"\nrate = 7\nwaits = 8\nlisten = ["[::1]:1", "unix:/x"]\n')
    variables = {"FENCELOCK_SERVE_RATE": "9", "FENCELOCK_SERVE_WAITS": "10", "OTHER": "x"}
    flags = {"waits": "11", "drain": None, "peers": "http://a:1/, https://b,http://a:1"}
    settings = load_settings(flags, variables, file)
    assert (settings.max_ttl, settings.rate, settings.waits) == (3600.0, 9, 11)
    assert settings.listen == ("[::1]:1", "unix:/x")
    assert settings.drain == Settings().drain
    assert settings.peers == ("http://a:1", "https://b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_tll = 1", "unknown key 'max_tll': is it 'max_ttl'?"),
        ("rate = 'fast'", "rate in serve.toml: 'fast' is not a whole number"),
        ("rate = 0", "rate in serve.toml: it must be between 1 and"),
        ("rate = true", "rate in serve.toml: True is not a whole number"),
        ("insecure = 'perhaps'", "insecure in serve.toml: 'perhaps' is neither true nor false"),
        ("max_ttl = 'long'", "max_ttl in serve.toml: 'long' is not a duration"),
        ("max_ttl = nan", "max_ttl in serve.toml: it must be between"),
        ("listen = 7007", "listen in serve.toml: 7007 is not a list"),
        ("listen = 'here'", "listen: 'here' is not HOST:PORT"),
        ("engine = 1", "engine in serve.toml: 1 is not a text"),
        ("min_ttl = 9\nmax_ttl = 8", "min_ttl (9) is above max_ttl (8)"),
        ("=", "serve.toml is not TOML"),
        ("listen = '0.0.0.0:1'", "without tokens, everybody"),
        ("tokens = 'none.toml'", "none.toml can't be read: No such file"),
        ("certificate = 'none.pem'", "the certificate or its key can't be used: No such file"),
        ("key = 'none.pem'", "need a certificate"),
        ("peers = 'replica-2:7007'", "peers in serve.toml: a peer is a URL such as"),
        ("peers = 'http://x:0'", "a peer is a URL such as"),
        ("peers = 'http://x:y'", "peers in serve.toml: "),
        ("peers = ['https://x', 'https://x/page']", "'https://x/page' has a path"),
        ("peers = 'https://me:secret@x'", "has no user and no password in it"),
    ],
)
def test_a_bad_file(tmp_path: Path, text: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serve.toml").write_text(text)
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        with pytest.raises(ValueError, match=re.escape(says)):
            check(
                load_settings(
                    {"engine": "memory://"} if "engine" not in text else {}, {}, Path("serve.toml")
                )
            )
    finally:
        os.chdir(before)


def test_check_and_its_exit_codes(tmp_path: Path) -> None:
    made = fencelock("token", "new", "a", "--file", "t.toml", "--right", "lock=*", folder=tmp_path)
    assert (made.returncode, made.stdout[:4]) == (0, "flk_")
    (tmp_path / "serve.toml").write_text('tokens = "t.toml"\nengine = "memory://"\n')
    good = fencelock("serve", "--check", folder=tmp_path, FENCELOCK_SERVE_CONFIG="serve.toml")
    assert (good.returncode, good.stderr) == (0, "fencelock: the settings are valid\n")
    bad = fencelock("serve", "--check", "--config", "serve.toml", "--rate", "x", folder=tmp_path)
    assert (bad.returncode, "--rate: 'x' is not a whole number" in bad.stderr) == (64, True)
    engine = "postgresql+advisory://me:secret@localhost/x"
    refused = fencelock("serve", "--check", folder=tmp_path, FENCELOCK_SERVE_ENGINE=engine)
    assert (refused.returncode, "leases expire" in refused.stderr) == (69, True)
    assert "secret" not in refused.stderr
    missing = fencelock("serve", "--check", "--config", "none.toml", folder=tmp_path)
    assert (missing.returncode, "none.toml can't be read" in missing.stderr) == (64, True)


def test_tokens_on_the_command_line(tmp_path: Path) -> None:
    where = ("--file", "t.toml")
    new = ("token", "new", "billing", *where, "--right", "lock=order:*", "--right", "read=*")
    token = fencelock(*new, "--expires", "90d", folder=tmp_path).stdout.strip()
    listed = fencelock("token", "ls", *where, folder=tmp_path).stdout
    assert "billing" in listed
    assert "lock=order:* read=*" in listed
    assert token[17:] not in listed + (tmp_path / "t.toml").read_text()
    wrong = fencelock(*new[:5], "--right", "own=*", folder=tmp_path)
    assert (wrong.returncode, "'own' is not a right" in wrong.stderr) == (64, True)
    assert fencelock("token", "revoke", "billing", *where, folder=tmp_path).returncode == 0
    assert fencelock("token", "revoke", "billing", *where, folder=tmp_path).returncode == 1


def test_addresses() -> None:
    assert str(parse_address("[::1]:70")) == "[::1]:70"
    assert parse_address("unix:/run/x").path == "/run/x"
    for text in ("::1:70", "x", "x:", ":70", "[x:70", "x:70000", "x:-1", "unix:"):
        with pytest.raises(ValueError, match="listen"):
            parse_address(text)
    assert parse_address("localhost:1").is_local
    assert not parse_address("0.0.0.0:1").is_local
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"


def test_the_documentation_has_every_setting() -> None:
    page = (ROOT / "docs" / "service" / "security.md").read_text()
    missing = [key for key in TABLE if f"`{key}`" not in page]
    assert not missing
