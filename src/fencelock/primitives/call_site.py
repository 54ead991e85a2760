"""Where in the user's program a lock was asked for."""

from __future__ import annotations

import sys
from os.path import dirname
from types import CodeType, FrameType

_PACKAGE = dirname(dirname(__file__))
_LENGTH = len(_PACKAGE)

_DEEPEST = 20
"""The number of frames that a warning shows."""

CallSite = tuple[CodeType, int]
"""Some code of the user's program, and how far it was: the index of an instruction."""


def call_site() -> CallSite | None:
    """The innermost code outside this package that called it, the caller's own caller at least."""
    # Each `acquire()` comes by here. So this only calls `_getframe`, and `place_of` finds the line later.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename[:_LENGTH] == _PACKAGE:
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def call_stack() -> list[CallSite]:
    """The innermost frames of the user's program that led here, the outermost of them first."""
    frame: FrameType | None = sys._getframe(2)
    stack: list[CallSite] = []
    while frame is not None and len(stack) < _DEEPEST:
        if stack or frame.f_code.co_filename[:_LENGTH] != _PACKAGE:
            stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return stack[::-1]


def describe(stack: list[CallSite]) -> str:
    """A stack as text, as in a traceback."""
    from traceback import FrameSummary, format_list  # slow to import, and seldom needed

    places = [(place_of(site), site[0].co_name) for site in stack]
    return "".join(format_list([FrameSummary(*place, name) for place, name in places])).rstrip()


def place_of(site: CallSite | None) -> tuple[str, int]:
    """The file and the line of a call site."""
    if site is None:
        return "an unknown place", 0
    code, index = site
    lines = (line for start, end, line in code.co_lines() if start <= index < end)
    return code.co_filename, next(lines, None) or code.co_firstlineno
