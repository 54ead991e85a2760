"""Ctrl-C at each moment at which Python lets one in, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

_OPEN = {dis.opmap.get(name) for name in ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME")}
"""After these Python looks whether a signal has come; not when a `with` has just taken a lock."""


def interrupted(moment: int, function: Callable[[], object], *files: str) -> bool:
    """Call a function with a KeyboardInterrupt at one of the moments in code whose file has such a name.

    False: it has no such moment any more, and has come to its end.
    """
    moments = count()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in files):
            return trace
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = last.get(frame)
            last[frame] = frame.f_code.co_code[frame.f_lasti]
            if before in _OPEN and next(moments) == moment:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
    return False
