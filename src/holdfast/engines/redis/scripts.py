"""The scripts that keep the queues."""

from __future__ import annotations

from importlib.resources import files

from holdfast.engines.resp.script import Script


def _script(name: str, flags: str = "") -> Script:
    folder = files(__package__) / "lua"
    common, own, queue = (
        (folder / f"{part}.lua").read_text("utf-8") for part in ("common", name, "queue")
    )
    # In the middle, not at the top: what most calls don't need would still cost each of them.
    return Script(common + own.replace("--[[queue.lua]]\n", queue), flags)


ENTER = _script("enter")
RENEW = _script("renew", "allow-oom")
LEAVE = _script("leave", "allow-oom")
EVICT = _script("evict", "allow-oom")
INSPECT = _script("inspect", "allow-oom")
SCRIPTS = (ENTER, RENEW, LEAVE, EVICT, INSPECT)
