"""The scripts that keep the queues."""

from __future__ import annotations

from importlib.resources import files

from holdfast.engines.resp.script import Script

_FOLDER = files(__package__) / "lua"


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text("utf-8")


_QUEUE = _text("queue") + _text("group") + _text("turns")


def _script(name: str, flags: str = "") -> Script:
    # In the middle, not at the top: what most calls don't need would still cost each of them.
    own = _text(name).replace("--[[the queue]]\n", _QUEUE)
    return Script(_text("common") + own, flags)


ENTER = _script("enter")
RENEW = _script("renew", "allow-oom")
LEAVE = _script("leave", "allow-oom")
EVICT = _script("evict", "allow-oom")
INSPECT = _script("inspect", "allow-oom")
SCRIPTS = (ENTER, RENEW, LEAVE, EVICT, INSPECT)
