"""The scripts that run on a node. Each is one round trip; the header of its file names its arguments."""

from __future__ import annotations

from importlib.resources import files

from holdfast.engines.resp.packing import pack
from holdfast.engines.resp.script import Script

NODE = "holdfast:redlock"
"""The key of what a node knows of itself."""

_LOCK = "holdfast:redlock:lock:"
LOCKS = _LOCK + "*"


def keys_of(name: str) -> tuple[str, ...]:
    """A name's lock, its trace and its waiters, after the node's own key."""
    return NODE, _LOCK + name, f"holdfast:redlock:trace:{name}", f"holdfast:redlock:waiters:{name}"


def name_of(lock_key: bytes) -> str:
    """The name to which a lock belongs."""
    return lock_key.decode(errors="replace").removeprefix(_LOCK)


def _script(name: str, *before: str, flags: str = "") -> Script:
    folder = files(__package__) / "lua"
    parts = [(folder / f"{part}.lua").read_text("utf-8") for part in (*before, name)]
    return Script("".join(parts), flags)


GRANT = _script("grant", "node", "name")
RAISE = _script("raise", "node", "name", flags="allow-oom")
RENEW = _script("renew", "node", "name", flags="allow-oom")
RELEASE = _script("release", "node", "name", flags="allow-oom")
EVICT = _script("evict", "node", "name", flags="allow-oom")
INSPECT = _script("inspect", "node", "name", flags="allow-oom")
LOOK = _script("look", "node")
WELCOME = _script("welcome", "node")
SCRIPTS = (GRANT, RAISE, RENEW, RELEASE, EVICT, INSPECT, LOOK, WELCOME)
LOADING = [pack([("SCRIPT", "LOAD", script.text)]) for script in SCRIPTS]
"""For a node that has forgotten them."""
