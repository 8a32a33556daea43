"""Array files: .npy files written incrementally, .npz archives, and memory maps with advice to the kernel (madvise)."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s, UInt8s
from snapdb.errors import DatabaseError
from snapdb.memory import available_memory

STATIC = -(2**63)
"""The time of static edges, which sorts before all other times."""

PAGE = 1 << 12
"""The size in bytes of a page of memory and of the file cache, and the alignment that O_DIRECT requires."""

_BUFFER = 1 << 23
"""The size of a write in bytes. Writes start at multiples of it so that the kernel keeps the file in huge pages."""

_RIGHTS = 0o644 << 16
"""The Unix permissions that an archive's members have after unpacking: readable by all."""


class ArrayFile:
    """A .npy file that grows by plain writes, so its pages do not have to stay in the process's memory."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, length: int) -> None:
        self._file = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 -- closed by __exit__
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, values: Array) -> None:
        """Append values, which must have the file's dtype."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        # A piece larger than the buffer would bypass it and start at an offset that is not a multiple of the buffer
        # size.
        for at in range(0, data.size, _BUFFER):
            self._file.write(data[at : at + _BUFFER].data)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def write_array(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...], parts: Iterable[Array]) -> None:
    """Write a .npy file from consecutive parts of its values in C order."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype).reshape(-1).view(np.uint8).data)


def new_row_file(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new .npy file as a writable memory map that reads as zeros, whose data begins at a multiple of `PAGE`.

    The space is allocated, so that a full disk raises OSError here.

    In files written by numpy, data begins at byte 128. Some rows then extend over one page more than necessary, and
    none of them can be read with O_DIRECT alone.
    """
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    text = repr(header).encode("latin1")
    magic = np.lib.format.magic(1, 0)
    padded = text.ljust(PAGE - len(magic) - 3) + b"\n"
    if len(magic) + 2 + len(padded) != PAGE:  # no shape or dtype of a feature is that long
        raise ValueError(f"the header of {path} does not fit into {PAGE} bytes")
    with open(path, "wb") as file:
        file.write(magic + len(padded).to_bytes(2, "little") + padded)
        file.flush()
        size = PAGE + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):  # on a full disk, a write to the map would otherwise kill the process
            os.posix_fallocate(file.fileno(), 0, size)
    return np.lib.format.open_memmap(path, mode="r+")


class TimeSpan:
    """The first and last time added, excluding static times.

    >>> span = TimeSpan()
    >>> span.see(np.array([STATIC, 7, 3]))
    >>> span.facts()
    {'first_time': 3, 'last_time': 7}
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = STATIC

    def see(self, time: Int64s) -> None:
        """Add event times."""
        if not time.size or (last := int(time.max())) == STATIC:
            return
        first = int(time.min())
        if first == STATIC:
            first = int(time[time != STATIC].min())
        self._first = first if self._first is None else min(first, self._first)
        self._last = max(last, self._last)

    def facts(self) -> dict[str, int]:
        """`first_time` and `last_time` for a manifest, or an empty dict if no time was added."""
        return {} if self._first is None else {"first_time": self._first, "last_time": self._last}


class ArrayArchive:
    """A .npz file whose arrays are written one after another in parts, so they need not fit into memory.

    `numpy.load(path, allow_pickle=False)` reads it. The same arrays always produce the same bytes.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)

    def add(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...], parts: Iterable[Array]) -> None:
        """Write an array, given as consecutive parts of its values in C order."""
        # A constant modification time makes the archive reproducible byte for byte.
        member = zipfile.ZipInfo(f"{name}.npy")
        member.external_attr = _RIGHTS
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        with self._zip.open(member, "w", force_zip64=True) as file:
            np.lib.format.write_array_header_2_0(file, header)
            for part in parts:
                file.write(np.ascontiguousarray(part, dtype).reshape(-1).view(np.uint8).data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()


_HUGE_PAGE = 1 << 21
"""The size of a huge page in bytes, which is also the minimum size of files that benefit from huge pages."""
_SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""The file with the transparent huge page setting: always, madvise or never."""
_SMALL = 1 << 21
"""The size in bytes up to which a separate memory map costs more than it saves."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors that mean a full disk, an exceeded quota, or a file above the process's size limit."""


def prefer_huge_pages(array: Array) -> None:
    """Request huge pages for a new memory map, to reduce TLB misses, if the kernel supports them for files.

    Files larger than a quarter of the available memory are excluded, because their pages must be loaded and evicted
    individually.
    """
    if array.nbytes >= _HUGE_PAGE and array.nbytes <= available_memory() // 4:
        _advise(array, "MADV_HUGEPAGE")


def drop_cached_pages(path: Path) -> None:
    """Drop a synced file from the page cache so that its next reader caches it in huge pages.

    A write caches the file in small pages, and madvise does not change cached pages. Pages mapped by a process are
    kept. Files for which `prefer_huge_pages` does not request huge pages are left alone.
    """
    if not hasattr(os, "posix_fadvise") or not has_huge_pages():
        return
    with suppress(OSError):  # an error only affects performance
        if not _HUGE_PAGE <= path.stat().st_size <= available_memory() // 4:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def lacks_huge_pages(arrays: Iterable[Array]) -> bool:
    """Return whether any of these arrays is large enough for huge pages but the kernel does not provide them."""
    return not has_huge_pages() and any(array.nbytes >= _HUGE_PAGE for array in arrays)


def has_huge_pages() -> bool:
    """Return whether the kernel provides huge pages for maps that request them.

    For files, the file system must also support them.
    """
    with suppress(OSError):
        return "[never]" not in _SWITCH.read_text()
    return False


def read_singly(arrays: Sequence[Array], room: int) -> bool:
    """Advise the kernel to read these arrays page by page if they exceed `room` bytes in total.

    Returns whether they do.

    Readahead is useless for random reads, and would evict pages that are needed.
    """
    mapped = [array for array in arrays if isinstance(_root(array), mmap.mmap) and array.nbytes >= _HUGE_PAGE]
    if not mapped or not hasattr(mmap, "MADV_RANDOM"):
        return False
    if sum(array.nbytes for array in mapped) <= room:
        return False
    for array in mapped:
        _advise(array, "MADV_NOHUGEPAGE")  # a fault on a huge page would read 2 MiB
        _advise(array, "MADV_RANDOM")
    return True


def _advise(array: Array, advice: str) -> None:
    """Advise the kernel about an array's memory map, if it has one and the system supports the advice."""
    with suppress(AttributeError, OSError, ValueError):  # not supported by this system or kernel
        if isinstance(root := _root(array), mmap.mmap):
            root.madvise(getattr(mmap, advice))


def _root(array: Array) -> object:
    """Return the object that owns an array's memory."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


class FileRegion(NamedTuple):
    """The file region of a mapped array."""

    file: str
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def same_values(one: Array, other: Array) -> bool:
    """Return whether two arrays are equal.

    Mapped arrays are compared by file region, because published files never change.
    """
    if one is other or one.dtype != other.dtype or one.shape != other.shape:
        return one is other
    places = file_region(one), file_region(other)
    if places == (None, None):
        return np.array_equal(one, other)
    return places[0] == places[1]


def in_order(array: Array) -> Array:
    """Return a read-only array with the same values, for one sequential pass.

    A large file gets a separate map with sequential readahead, because the map that other readers use is advised for
    random access.
    """
    place = file_region(array) if array.nbytes > _SMALL else None
    if place is None:
        return array
    try:
        fresh = np.memmap(place.file, place.dtype, "r", place.offset, place.shape)
    except (OSError, ValueError):  # the file was removed, but the existing map remains valid
        return array
    base: object = fresh.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_SEQUENTIAL"):
        base.madvise(mmap.MADV_SEQUENTIAL)
    return fresh.view(np.ndarray)


def file_region(array: Array) -> FileRegion | None:
    """The file region of an array, or None if it has no named file or its values are not contiguous."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or not array.flags.c_contiguous:
        return None
    inside = array.ctypes.data - root.ctypes.data
    return FileRegion(str(root.filename), root.offset + inside, array.dtype, array.shape)


def temporary_bytes(folder: Path, size: int, what: str, remedy: str) -> UInt8s:
    """Return an array of `size` zeros in an unnamed file, which can be larger than memory and is freed with the array.

    Args:
        folder: The folder in which the file is created.
        size: The number of bytes.
        what: The array's purpose, for the error message.
        remedy: An alternative to freeing disk space, for the error message.

    Raises:
        DatabaseError: The disk is full, or no file can be created in the folder.
    """
    if size == 0:
        return np.zeros(0, np.uint8)
    with temporary_file(folder, size, what, remedy) as file:
        return np.memmap(file, np.uint8, "r+", shape=(size,)).view(np.ndarray)


@contextmanager
def temporary_file(folder: Path, size: int, what: str, remedy: str) -> Iterator[IO[bytes]]:
    """Yield an unnamed file of `size` bytes, which exists until its last descriptor or map is closed.

    The arguments and errors are those of `temporary_bytes`.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Allocate the file so that a full disk raises an error here. Otherwise a later write would fail, or kill
            # the process (SIGBUS) if the file is mapped.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            yield file
    except OSError as error:
        if error.errno not in _FULL:
            raise DatabaseError(
                f"cannot create a file of {size:,} bytes for {what} in {folder}: {error.strerror}; check the folder, "
                "and the limits of this process (ulimit -a)",
                code="cannot-write",
            ) from error
        raise DatabaseError(
            f"{folder} has no space for {what} ({size:,} bytes); free some space, or {remedy}", code="disk-full"
        ) from error
