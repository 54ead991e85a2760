"""What a lock may be called: anything printable, and what looks the same is the same."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.names import MAX_NAME_BYTES, check_name, matches

GOOD = [
    "a",
    "order:42",
    "{order}:42",
    "{}",
    "a/b/../c",
    "/",
    "*",
    "?[a]",
    "with spaces  in it ",
    " ",
    "%s %(name)s",
    "Straße 7",
    "注文:42",
    "🔒",
    "👩🔬 at work",
    "null\\0",
    "'; DROP TABLE locks; --",
    "x" * MAX_NAME_BYTES,
    "é" * (MAX_NAME_BYTES // 2),
]


@pytest.mark.parametrize("name", GOOD, ids=lambda name: ascii(name)[:20])
def test_names_are_taken_literally(name: str) -> None:
    assert check_name(name) == name


BAD = [
    ("", "must not be empty"),
    ("x" * (MAX_NAME_BYTES + 1), "at most 512 bytes of UTF-8, but this one has 513"),
    ("é" * 257, "at most 512 bytes of UTF-8, but this one has 514"),
    ("🔒" * 129, "but this one has 516"),
    ("a\nb", r"must be printable, but it contains '\\n'"),
    ("a\tb", r"'\\t'"),
    ("\x00", r"'\\x00'"),
    ("\x7f", r"'\\x7f'"),
    ("\u0085", r"'\\x85'"),
    ("\u200b", r"'\\u200b'"),
    ("\u202e", r"'\\u202e'"),
    ("\ufeff", r"'\\ufeff'"),
    ("\ud800", r"'\\ud800'"),
    ("a\udfff", r"'\\udfff'"),
]


@pytest.mark.parametrize(("name", "message"), BAD, ids=lambda value: ascii(value)[:20])
def test_bad_names_say_what_is_wrong(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        check_name(name)
    assert str(caught.value).isprintable(), "the message itself can be shown anywhere"


@pytest.mark.parametrize("name", [None, 42, b"bytes", 1.5, ["list"]])
def test_a_name_is_a_string(name: Any) -> None:
    with pytest.raises(TypeError, match="a lock's name must be a str"):
        check_name(name)


def test_two_spellings_that_look_the_same_are_the_same_lock() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert composed != decomposed
    assert check_name(composed) == check_name(decomposed) == composed


def test_what_looks_different_stays_different() -> None:
    # Compatibility forms are not folded: ² is not 2, and a ligature is not its letters.
    assert check_name("m²") != check_name("m2")
    assert check_name("ﬁ") != check_name("fi")
    assert check_name("A") != check_name("a")
    assert check_name("a ") != check_name("a")


def test_the_length_is_that_of_the_stored_form() -> None:
    decomposed = "e\u0301" * 256  # 768 bytes, 512 when composed
    assert len(check_name(decomposed).encode()) == MAX_NAME_BYTES


@given(st.text())
def test_a_name_is_refused_or_stored_in_one_form(name: str) -> None:
    try:
        stored = check_name(name)
    except ValueError:
        normal = unicodedata.normalize("NFC", name)
        # Only these three reasons; a lone surrogate is one that can't be printed.
        too_long = len(normal.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
        assert not normal or not normal.isprintable() or too_long
    else:
        assert stored == unicodedata.normalize("NFC", name)
        assert check_name(stored) == stored
        assert 0 < len(stored.encode()) <= MAX_NAME_BYTES
        assert stored.isprintable()


@given(st.text(), st.text())
def test_equal_forms_are_equal_names(name: str, other: str) -> None:
    def form(text: str) -> str | None:
        try:
            return check_name(text)
        except ValueError:
            return None

    for spelling in ("NFC", "NFD"):
        assert form(unicodedata.normalize(spelling, name)) == form(name)
    if form(name) == form(other) and form(name) is not None:
        same = unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", other)
        assert same


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("order:42", "*", True),
        ("order:42", "order:*", True),
        ("order:42", "order:?", False),
        ("order:42", "order:??", True),
        ("order:42", "ORDER:*", False),
        ("order:42", "order", False),
        ("a/b/c", "a/*", True),
        ("[x]", "[[]x]", True),
        ("b", "[!a]", True),
        ("", "*", True),
        ("{order}", "{order}", True),
        ("a*b", "a[*]b", True),
        ("axb", "a[*]b", False),
    ],
)
def test_patterns(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected


def test_a_pattern_is_brought_to_the_stored_form_too() -> None:
    assert matches(check_name("cafe\u0301:1"), "cafe\u0301:*")
