"""The scripts that keep the queues."""

from __future__ import annotations

import re
from importlib.resources import files

from holdfast.engines.resp.script import Script

_INCLUDE = re.compile(r"--\[\[(\w+)\.lua\]\]\n")


def _text(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")


def _script(name: str, flags: str = "") -> Script:
    # In the middle, not at the top: what most calls don't need would still cost each of them.
    text = _text("record") + _text(name)
    while _INCLUDE.search(text):
        text = _INCLUDE.sub(lambda include: _text(include[1]), text)
    return Script(text, flags)


ENTER = _script("enter")
RENEW = _script("renew", "allow-oom")
LEAVE = _script("leave", "allow-oom")
EVICT = _script("evict", "allow-oom")
INSPECT = _script("inspect", "allow-oom")
# Also if the memory is full: the work is done, and nobody else can join to have something noted down.
REMEMBER = _script("remember", "allow-oom")
# Not a plain GET: a master that has become a replica refuses scripts, and so is found out.
RECALL = Script("return redis.call('GET', KEYS[1])\n", "allow-oom")
SCRIPTS = (ENTER, RENEW, LEAVE, EVICT, INSPECT, REMEMBER, RECALL)
