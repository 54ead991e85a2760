"""The scripts that keep the queues."""

from __future__ import annotations

from fencelock.engines.resp.script import Script, assembled


def _script(name: str, flags: str = "") -> Script:
    return Script(assembled(__package__, "record", name), flags)


ENTER = _script("enter")
RENEW = _script("renew", "allow-oom")
LEAVE = _script("leave", "allow-oom")
EVICT = _script("evict", "allow-oom")
INSPECT = _script("inspect", "allow-oom")
# Also if the memory is full: the work is done, and there are few notes, as no new ticket can join.
REMEMBER = _script("remember", "allow-oom")
# Not a plain GET: a master that has become a replica refuses scripts, so it is noticed.
RECALL = Script("return redis.call('GET', KEYS[1])\n", "allow-oom")
SCRIPTS = (ENTER, RENEW, LEAVE, EVICT, INSPECT, REMEMBER, RECALL)
