"""Where in the user's program a lock was asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

_PACKAGE = str(Path(__file__).parents[1])
_LENGTH = len(_PACKAGE)


class CallSite(NamedTuple):
    """A line of the user's program."""

    code: CodeType
    line: int

    def __str__(self) -> str:
        return f"{self.code.co_filename}:{self.line}, in {self.code.co_qualname}"


def call_site() -> CallSite | None:
    """The innermost line outside this package that led to this call. None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    # Each acquire comes by here, so this calls nothing: slices instead of `startswith`.
    while frame is not None and frame.f_code.co_filename[:_LENGTH] == _PACKAGE:
        frame = frame.f_back
    return None if frame is None else CallSite(frame.f_code, frame.f_lineno)
