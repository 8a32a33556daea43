"""Memory-mapped arrays: the memory that there is for them, the advice that the kernel gets, and scratch files."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.errors import DatabaseError

_GROUPS = Path("/sys/fs/cgroup")

_HUGE_PAGE = 1 << 21
_Array = npt.NDArray[Any]
_SMALL = 1 << 21
"""Bytes up to which a map of its own is not worth its pages."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Files(NamedTuple):
    """What a version of control groups calls its files, and the memory that it can get back by forgetting pages."""

    limit: str
    used: str
    forgettable: tuple[str, ...]


_FIRST = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_SECOND = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def available_memory() -> int:
    """Bytes that can be taken, pages of files included that the system would forget for them.

    >>> available_memory() > 0
    True
    """
    return min([_of_machine(), *_of_groups()])


def _of_machine() -> int:
    """Linux tells what it could give; elsewhere it is all that is there."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_groups() -> Iterator[int]:
    """What each group with a limit has left, from this process's own up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield from _of_branch(_GROUPS / "memory", path, _FIRST)
        elif not controllers:
            yield from _of_branch(_GROUPS, path, _SECOND)


def _of_branch(root: Path, path: str, files: _Files) -> Iterator[int]:
    """A container may see its own group as the root, whatever the path says: groups that are not there are passed."""
    inside = PurePosixPath(path)
    for place in (inside, *inside.parents):
        group = root / place.relative_to("/")
        with suppress(OSError, ValueError):  # not there, or no limit: "max"
            limit, used = (int((group / name).read_text()) for name in files[:2])
            facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            yield max(0, limit - used + sum(int(facts.get(name, 0)) for name in files.forgettable))


# What the system is told of memory maps that are read at random places: big pages, or a page at a time


def prefer_huge_pages(array: npt.NDArray[Any]) -> None:
    """Lets a fresh memory map use big pages, where the system has them for files: random reads then find pages faster.

    A file of a large share of memory is left alone: what it needs must come in small pieces, and go.
    """
    if array.nbytes >= _HUGE_PAGE and array.nbytes <= available_memory() // 4:
        _advise(array, "MADV_HUGEPAGE")


def read_singly(arrays: Sequence[npt.NDArray[Any]], room: int) -> bool:
    """Whether these arrays do not fit into `room` bytes together; their maps then give a page at a time, and no more.

    What the system would read ahead of random reads is not needed, and would push out what is.
    """
    mapped = [array for array in arrays if isinstance(_root(array), mmap.mmap) and array.nbytes >= _HUGE_PAGE]
    if not mapped or not hasattr(mmap, "MADV_RANDOM"):
        return False
    if sum(array.nbytes for array in mapped) <= room:
        return False
    for array in mapped:
        _advise(array, "MADV_NOHUGEPAGE")  # a big page would be read whole all the same
        _advise(array, "MADV_RANDOM")
    return True


def _advise(array: npt.NDArray[Any], advice: str) -> None:
    with suppress(AttributeError, OSError, ValueError):  # not this system's, or not this kernel's
        if isinstance(root := _root(array), mmap.mmap):
            root.madvise(getattr(mmap, advice))


def _root(array: npt.NDArray[Any]) -> object:
    """What holds an array's memory."""
    held: object = array
    while isinstance(held, np.ndarray):
        held = held.base
    return held.obj if isinstance(held, memoryview) else held


# Memory-mapped arrays by their files: whether two are of the same one, and the same values read from end to end


class _Place(NamedTuple):
    """Where an array lies."""

    file: str
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def same_values(one: _Array, other: _Array) -> bool:
    """Whether two arrays are equal. Those of two files of a database are taken for different, and are not read.

    What is published under a name never changes.
    """
    if one is other or one.dtype != other.dtype or one.shape != other.shape:
        return one is other
    places = _place(one), _place(other)
    if places == (None, None):
        return np.array_equal(one, other)
    return places[0] == places[1]


def in_order(array: _Array) -> _Array:
    """The same values, for someone who reads them once from the first to the last; read-only.

    Those of a large file come through a map of their own: the system reads ahead of it and soon forgets what was read,
    whatever it was told of the map that others read at random places.
    """
    place = _place(array) if array.nbytes > _SMALL else None
    if place is None:
        return array
    try:
        fresh = np.memmap(place.file, place.dtype, "r", place.offset, place.shape)
    except (OSError, ValueError):  # the file's name is gone; the map that is there stays good
        return array
    base: object = fresh.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_SEQUENTIAL"):
        base.madvise(mmap.MADV_SEQUENTIAL)
    return fresh.view(np.ndarray)


def _place(array: _Array) -> _Place | None:
    """None: it is of no file that has a name, or its values do not follow each other there."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or not array.flags.c_contiguous:
        return None
    inside = array.ctypes.data - root.ctypes.data
    return _Place(str(root.filename), root.offset + inside, array.dtype, array.shape)


# Bytes in a file without a name, which may be more than memory holds and go with the process


def temporary_bytes(folder: Path, size: int, what: str, remedy: str) -> npt.NDArray[np.uint8]:
    """So many zeros in a file that lies in the folder.

    Args:
        what: they are for, in words.
        remedy: what to do instead of making room.

    Raises:
        DatabaseError: the disk has no room for them, or no file can be made there.
    """
    if size == 0:
        return np.zeros(0, np.uint8)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is told here, and not by the end of the process
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, np.uint8, "r+", shape=(size,)).view(np.ndarray)
    except OSError as error:
        if error.errno not in _FULL:
            raise DatabaseError(
                f"cannot make a file of {size:,} bytes for {what} in {folder}: {error.strerror}; look at the folder, "
                "and at the limits of this process (ulimit -a)",
                code="cannot-write",
            ) from error
        raise DatabaseError(
            f"{folder} has no room for {what} ({size:,} bytes); make room there, or {remedy}", code="disk-full"
        ) from error
