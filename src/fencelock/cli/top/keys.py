"""From the bytes that a terminal sends to keys."""

from __future__ import annotations

import codecs
import re

ENTER, ESCAPE, BACKSPACE, CLEAR = "enter", "escape", "backspace", "clear"
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page up", "page down", "home", "end"

_CONTROL = {
    "\r": ENTER,
    "\n": ENTER,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x15": CLEAR,  # Ctrl-U, as in a shell
    "\x10": UP,  # Ctrl-P and Ctrl-N
    "\x0e": DOWN,
}

_SEQUENCES = {
    "A": UP,
    "B": DOWN,
    "H": HOME,
    "F": END,
    "1~": HOME,
    "7~": HOME,
    "4~": END,
    "8~": END,
    "5~": PAGE_UP,
    "6~": PAGE_DOWN,
}

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
"""What a terminal sends for a key that is no character: ESC [ parameters letter, or ESC O letter."""

_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")


class Keys:
    """Collects bytes until they make keys: a sequence may come in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""

    @property
    def unfinished(self) -> bool:
        """Whether the last byte may be the beginning of a sequence, or the Esc key."""
        return bool(self._text)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete now. A character is a key; other keys have a name."""
        self._text += self._decoder.decode(data)
        keys = []
        while self._text:
            if found := _SEQUENCE.match(self._text):
                keys.append(_SEQUENCES.get(found[0][2:], ""))
            elif _UNFINISHED.fullmatch(self._text):
                break
            else:
                found = re.match(r"(?s).", self._text)
                assert found is not None
                keys.append(_key(found[0]))
            self._text = self._text[found.end() :]
        return [key for key in keys if key]

    def flush(self) -> list[str]:
        """Nothing followed in time: an Esc was the key of that name. The rest is cut off, and no key."""
        self._text, text = "", self._text
        return [ESCAPE] if text == "\x1b" else []


def _key(character: str) -> str:
    if character == "\x1b":
        return ESCAPE
    return _CONTROL.get(character, character if character.isprintable() else "")
