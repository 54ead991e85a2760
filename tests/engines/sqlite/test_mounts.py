"""A lock file on a network file system is refused, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencelock.engines.sqlite import mounts
from tests.engines.sqlite.elsewhere import in_namespace

# Lines as various kernels wrote them.
MOUNTINFO = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
22 21 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
36 21 0:41 / /users rw,relatime shared:20 - nfs4 fs1:/export/home rw,vers=4.2,rsize=1048576,hard
37 36 254:3 / /users/local rw,relatime shared:21 - xfs /dev/vdb rw,attr2,inode64
40 21 0:50 / /mnt/team\\040share rw,relatime - cifs //nas/team rw,vers=3.1.1,username=x
41 21 0:51 / /run/user/1000/doc rw,nosuid,nodev,relatime - fuse.portal portal rw,user_id=1000
42 21 0:52 / /srv/remote rw,nosuid,nodev,relatime - fuse.sshfs me@host:/ rw,user_id=1000
43 21 0:53 / /var/lib/containers rw,relatime - fuse.fuse-overlayfs fuse-overlayfs rw
44 21 0:54 / /c rw,noatime - 9p C:\\134 rw,dirsync,aname=drvfs;path=C:\\134
45 21 8:1 / /media/usb rw,nosuid,nodev - fuseblk /dev/sda1 rw,blksize=4096
46 21 0:55 / /over rw,relatime - nfs fs1:/a rw
47 46 0:56 / /over rw,relatime - tmpfs tmpfs rw
48 21 0:57 / /guest rw,relatime - virtiofs share rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/app", "ext4"),
        ("/users/ann/.local/state/fencelock", "nfs4"),
        ("/users", "nfs4"),
        ("/usersland", "ext4"),
        ("/users/local/ann", "xfs"),
        ("/mnt/team share/locks", "cifs"),
        ("/over/there", "tmpfs"),
        ("/c/Users", "9p"),
    ],
)
def test_the_mount_with_the_longest_path_counts(folder: str, kind: str) -> None:
    assert mounts.kind_of(folder, MOUNTINFO) == kind


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        *[(kind, True) for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre")],
        *[(kind, True) for kind in ("virtiofs", "vboxsf", "fuse", "fuse.sshfs", "fuse.s3fs")],
        *[(kind, False) for kind in ("ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay")],
        *[(kind, False) for kind in ("fuseblk", "fuse.fuse-overlayfs", "vfat", "nfsd", "")],
    ],
)
def test_kinds(kind: str, network: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "kind_of", lambda folder, text: kind)
    assert mounts.network_kind("/x") == (kind if network else None)


def test_this_machine(tmp_path: Path) -> None:
    assert mounts.network_kind(str(tmp_path / "does" / "not" / "exist")) is None


def test_a_real_mount_is_refused(tmp_path: Path) -> None:
    """A FUSE file system that calls itself sshfs, served by a few lines of Python."""
    answer = in_namespace(
        """
        from tests.engines.sqlite.fuse import mount
        mount(folder, "fuse.sshfs")
        def attempt(act):
            try:
                return repr(act())
            except fencelock.FencelockError as error:
                return f"{type(error).__name__}: {error} [{error.name}]"
        with fencelock.Client(f"sqlite:///{folder}/deep/locks.db") as client:
            answer = [attempt(client.lock("x").acquire), attempt(client.names)]
        """,
        tmp_path,
    )
    expected = (
        f"Unsupported: {tmp_path}/deep/locks.db is on a network file system (fuse.sshfs), where "
        "SQLite's locks don't work: put the lock file on a local disk, or, for several machines, "
        "use an engine with a server"
    )
    assert answer == [f"{expected} [x]", f"{expected} [None]"]
