"""Where a directory lies: on a disk of this machine, or on a network disk that SQLite's log does not work on."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs"}
    | {"fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"}
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system(path: str, mounts: str) -> str | None:
    r"""The type of the file system that an absolute path is on, or None when the text does not tell.

    Args:
        mounts: The text of /proc/self/mountinfo.

    >>> mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n31 22 0:9 / /my\\040data rw - nfs4 host:/x rw"
    >>> file_system("/my data/shop.snapdb", mounts), file_system("/my database", mounts)
    ('nfs4', 'ext4')
    """
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path == point or path.startswith(point if point.endswith("/") else f"{point}/")
        # Of two mounts at one point the later hides the earlier.
        if inside and (found is None or len(point) >= found[0]):
            found = (len(point), kinds[0])
    return None if found is None else found[1]


def network_disk(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the network file system that a path is on, which need not be there yet; None on any other."""
    try:
        # Mount points are bytes: latin-1 keeps each, as the octal escapes do.
        text = mounts.read_bytes().decode("latin-1")
    except OSError:  # not Linux, or a container that hides it
        return None
    kind = file_system(os.fsencode(os.path.realpath(path)).decode("latin-1"), text)
    return kind if kind in _NETWORK else None
