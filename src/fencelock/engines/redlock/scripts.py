"""The scripts that run on a node. Each is one round trip; the header of its file names its arguments."""

from __future__ import annotations

from fencelock.engines.resp.packing import pack
from fencelock.engines.resp.script import Script, assembled

NODE = "fencelock:redlock"
"""The key under which a node keeps what it knows about itself."""

_LOCK = "fencelock:redlock:lock:"
LOCKS = _LOCK + "*"


def keys_of(name: str) -> tuple[str, ...]:
    """The node's own key, then the lock, the trace and the waiters of a name."""
    return (
        NODE,
        _LOCK + name,
        f"fencelock:redlock:trace:{name}",
        f"fencelock:redlock:waiters:{name}",
    )


def name_of(lock_key: bytes) -> str:
    """The name to which a lock belongs."""
    return lock_key.decode(errors="replace").removeprefix(_LOCK)


def _script(*parts: str, flags: str = "") -> Script:
    return Script(assembled(__package__, *parts), flags)


GRANT = _script("node", "name", "grant")
RAISE = _script("node", "name", "raise", flags="allow-oom")
RENEW = _script("node", "name", "renew", flags="allow-oom")
RELEASE = _script("node", "name", "release", flags="allow-oom")
FIND = _script("node", "name", "find", flags="allow-oom")
TAKE_OVER = _script("node", "name", "take_over", flags="allow-oom")
EVICT = _script("node", "name", "evict", flags="allow-oom")
INSPECT = _script("node", "name", "inspect", flags="allow-oom")
LOOK = _script("node", "look")
READMIT = _script("node", "readmit")
SCRIPTS = (GRANT, RAISE, RENEW, RELEASE, FIND, TAKE_OVER, EVICT, INSPECT, LOOK, READMIT)
LOAD_SCRIPTS = [pack([("SCRIPT", "LOAD", script.text)]) for script in SCRIPTS]
"""For a node that does not know the scripts any more."""
