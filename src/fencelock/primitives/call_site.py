"""Where in the user's program a lock was asked for."""

from __future__ import annotations

import sys
from os.path import dirname
from types import CodeType, FrameType

_PACKAGE = dirname(dirname(__file__))
_LENGTH = len(_PACKAGE)


CallSite = tuple[CodeType, int]
"""A line of the user's program: a plain tuple, because each acquire makes one."""


def call_site() -> CallSite | None:
    """The innermost line outside this package that led to this call. None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    # Each acquire comes by here, so this calls nothing: slices instead of `startswith`.
    while frame is not None and frame.f_code.co_filename[:_LENGTH] == _PACKAGE:
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


def told(site: CallSite | None) -> str:
    """A call site, for people."""
    if site is None:
        return "an unknown place"
    code, line = site
    return f"{code.co_filename}:{line}, in {code.co_qualname}"
