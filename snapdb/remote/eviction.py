"""The size of a cache of attached databases: the least recently used files are removed first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from snapdb.remote.attachment import Attachment

_UNITS = {"topology": 2, "features": 2, "snapshots": 1, "tables": None, "ids": None}
"""The depth of the directories that are removed as a unit. None means that single files are."""


class _Unit(NamedTuple):
    """A file, or a directory with its files."""

    used: float
    bytes: int
    path: Path


def note_use(path: Path) -> None:
    """Record that a file is used now."""
    with suppress(OSError):
        os.utime(path)


def make_room(attachment: Attachment, size: int) -> None:
    """Remove the least recently used files until the cache has room for `size` more bytes, if it is limited.

    Directories of which a process has locked the manifest are kept, and so are single files while any statement runs,
    even if the cache is then larger than its limit.
    """
    if attachment.size is None:
        return
    units = sorted(_units(attachment.root.parent / "files"))
    excess = sum(unit.bytes for unit in units) + size - attachment.size
    idle = excess > 0 and _no_statement_reads(attachment.root.parent)
    for unit in units:
        if excess <= 0:
            return
        if (idle or unit.path.is_dir()) and _remove(unit.path):
            excess -= unit.bytes


def _units(files: Path) -> Iterator[_Unit]:
    for folder, depth in _UNITS.items():
        paths = (files / folder).rglob("*") if depth is None else (files / folder).glob("/".join("*" * depth))
        for path in paths:
            if path.name.startswith("."):
                continue
            inside = list(path.iterdir()) if path.is_dir() else [path]
            if depth is None and path.is_dir():
                continue
            stats = [each.stat() for each in inside if each.exists()]
            if stats:
                # A sparse file takes only the blocks that were written.
                taken = sum(min(s.st_size, s.st_blocks * 512) for s in stats)
                yield _Unit(max(s.st_mtime for s in stats), taken, path)


def _no_statement_reads(own: Path) -> bool:
    """Return whether no statement of any generation reads tables now."""
    for lock in own.glob("*/readers.lock"):
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True


def _remove(path: Path) -> bool:
    """Remove a file or directory unless a process holds a lock on it. Returns whether it was removed."""
    held = path / "manifest.json" if path.is_dir() else path
    try:
        descriptor = os.open(held, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            hidden = path.with_name(f".{path.name}.removed")
            path.rename(hidden)
            for each in hidden.iterdir():
                each.unlink()
            hidden.rmdir()
        else:
            path.unlink()
            path.with_name(f".{path.name}.columns").unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
