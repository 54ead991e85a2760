"""Whether a folder is on this machine. SQLite's locks and shared memory do not work over a network."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK = re.compile(
    r"9p|acfs|afs|beegfs|ceph|cifs|coda|davfs|fhgfs|gfs2?|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs"
    r"|panfs|prl_fs|pvfs2|shfs|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
    # A FUSE file system can be anything. These are known to keep their files on this machine.
    r"|fuse(?!\.(?:bindfs|encfs|fuse-overlayfs|gocryptfs|mergerfs|ntfs-3g)$)(?:\..*)?"
)


def network_kind(folder: str) -> str | None:
    """The kind of the folder's network file system, or None if it is local."""
    kind = kind_of_folder(folder)
    return kind if _NETWORK.fullmatch(kind) else None


def kind_of_folder(folder: str) -> str:
    """The kind of a folder's file system; "" if the system does not tell."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""  # not Linux: it can't be detected, and the documentation says so
    return kind_of(folder, mounts)


def kind_of(folder: str, mounts: str) -> str:
    """The kind of a folder's file system, by the text of a mountinfo file. The folder need not exist."""
    best, found = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = _unescaped(before.split(" ")[4]).rstrip("/")
        # Of two mounts on the same point, the later one covers the earlier one.
        if (folder == point or folder.startswith(point + "/")) and len(point) >= best:
            best, found = len(point), after.split(" ")[0]
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
