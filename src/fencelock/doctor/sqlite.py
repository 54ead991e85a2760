"""What to check at a lock file."""

from __future__ import annotations

from fencelock.doctor import common
from fencelock.doctor.checks import Finding, advice, bad, each_server, ok
from fencelock.engines.diagnosis import NotTold, Server

_MB = 2**20
_TOO_LITTLE, _LITTLE = 4 * _MB, 64 * _MB
"""Free space. The log of a busy lock file grows to about 4 MB before it is written into the file."""


@each_server(
    "file-system",
    why="SQLite's locks work only among processes that see the same file, through one kernel.",
    mend="put the file on a local disk or a volume; for several machines use an engine with a server",
    ask="look at what the file lies on: it must be a local disk",
    leaves="not safe",
)
def file_system(server: Server) -> Finding:
    kind = server.text("file_system")
    if not kind:
        raise NotTold("this system does not tell the kind of the file system")
    if server.role == "remote file":
        return bad(f"{kind}, a network file system")
    if kind == "overlay":
        found = "overlay, a container's own layer: other containers have another file at this path"
        return bad(found, leaves="efficiency")
    if kind in ("tmpfs", "ramfs"):
        return advice(
            f"{kind}: after a reboot the file is gone, and only the clock keeps the fences growing",
            "put the file on a disk",
        )
    return ok(kind)


@each_server(
    "writable",
    "file",
    why="Every lock is a write, and SQLite makes two more files beside the lock file.",
    mend="give this user the right to write the file and its folder",
    leaves="not safe",
)
def writable(server: Server) -> Finding:
    if server.text("folder_writable") == "no":
        return bad(f"this user can't write to {server.text('folder')}")
    if server.text("file_writable") == "no":
        return bad("this user can't write the file")
    return ok("the file and its folder")


@each_server(
    "usable",
    "file",
    why="A file that can't be opened holds no locks.",
    mend="choose another path, or move the file away together with its -wal and -shm files",
    leaves="not safe",
)
def usable(server: Server) -> Finding:
    if unusable := server.said.get("unusable"):
        return bad(unusable)
    return ok("yes" if server.text("exists") == "yes" else "it will be made at its first use")


@each_server(
    "space",
    "file",
    why="When the disk is full, no lock can be taken or renewed.",
    mend="free some space, or put the file on another disk",
)
def space(server: Server) -> Finding:
    free = server.number("free_bytes")
    found = f"{free / _MB:,.0f} MB free"
    if server.said.get("free_inodes") == "0":
        return bad("the file system has no inodes left")
    if free < _TOO_LITTLE:
        return bad(found)
    return advice(found) if free < _LITTLE else ok(found)


@each_server(
    "one-machine",
    "file",
    why="Two machines that share the file don't see each other's locks.",
    mend="give each machine a file of its own, or use an engine with a server. "
    "If the file was only copied, use it once and examine it again",
    leaves="not safe",
)
def one_machine(server: Server) -> Finding | None:
    boot = server.said.get("boot")
    if not boot:  # nobody has used it yet, or it can't be opened
        return None
    if not server.text("this_boot"):
        raise NotTold("this system has no boot id")
    if boot == server.text("this_boot"):
        return ok("used in this boot of this machine")
    if server.text("changed_since_boot") == "yes":
        return bad("another machine has written it since this one started")
    return ok("last used before this machine started")


@each_server(
    "same-file",
    "file",
    why="Holders in a file that was removed or replaced keep nobody out.",
    mend="let no job clean up this path, and end the programs that had the old file open",
    leaves="not safe",
)
def same_file(server: Server) -> Finding:
    if server.text("replaced") == "yes":
        return bad("this client has another file open than the one at the path now")
    return ok("nobody replaced it under this client")


RULES = (
    file_system,
    writable,
    usable,
    one_machine,
    same_file,
    space,
    common.round_trip,
    common.hand_over,
)
