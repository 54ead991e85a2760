"""What a terminal sends becomes keys, whatever pieces it comes in."""

from __future__ import annotations

import pytest

from fencelock.cli.top.keys import Keys

TYPED = "a\x1b[Bé\x1bOA\x1b[6~\x1b[1;5A\x7f\rq".encode()
MEANT = ["a", "down", "é", "up", "page down", "backspace", "enter", "q"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces(size: int) -> None:
    keys = Keys()
    found = [key for at in range(0, len(TYPED), size) for key in keys.feed(TYPED[at : at + size])]
    assert found == MEANT


def test_escape() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.unfinished
    assert keys.flush() == ["escape"]
    assert keys.feed(b"\x1bq") == ["escape", "q"]
    assert keys.feed(b"\x1b[1;") == []
    assert keys.flush() == []
    assert keys.feed(b"x") == ["x"]


def test_what_is_no_key() -> None:
    assert Keys().feed(b"\x00\x01\x1b[?1;2c\xff") == ["\ufffd"]
