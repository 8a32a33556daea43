"""Files whose rows are read by many requests at once, bypassing the page cache where the file system allows it.

A pool of threads that block in pread(2) achieves as many requests per second as io_uring, which the default seccomp
profiles of containers block.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s, UInt8s
from snapdb.errors import CorruptError, DatabaseError
from snapdb.kernels.row_reads import read_requests, write_memory
from snapdb.storage.array_files import PAGE, file_region, temporary_file

THREADS = 16
"""The number of threads that read at once. On a virtual disk, 24 to 64 threads served no more requests per second. Two
measurements with the same number of threads differed by a factor of two, so a probe would choose at random."""
_DIRECT = getattr(os, "O_DIRECT", 0)


def aligned_bytes(size: int) -> UInt8s:
    """Return uninitialized memory whose address and length are multiples of `PAGE`, as O_DIRECT requires."""
    memory = mmap.mmap(-1, max(PAGE, -(-size // PAGE) * PAGE))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # random access: each page that is not in the TLB costs a memory access
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


class RowFile:
    """A file from which any number of threads read byte ranges."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            CorruptError: The file does not exist.
            DatabaseError: The file cannot be read.
        """
        self.path = path
        self._plain = self._opened(os.O_RDONLY)
        self.size = os.fstat(self._plain).st_size
        self._direct: int | None = None
        if _DIRECT:
            with suppress(DatabaseError):  # tmpfs and some network file systems do not support it
                self._direct = self._opened(os.O_RDONLY | _DIRECT)
        self._begin()

    def _begin(self) -> None:
        self._counting = threading.Lock()
        self.requests = self.bytes = 0
        """The number of read requests since the file was opened, and their bytes."""
        # The file is closed when its last reference is dropped, because a stream may be dropped without being closed.
        files = [file for file in (self._plain, self._direct) if file is not None]
        self.close = weakref.finalize(self, _close, files)
        """Closes the file. Further calls have no effect."""

    @property
    def direct(self) -> bool:
        """Whether reads bypass the page cache."""
        return self._direct is not None

    def read(self, offsets: Int64s, lengths: Int64s, places: Int64s, into: UInt8s, *, threads: int = THREADS) -> None:
        """Read byte ranges. A range that extends past the end of the file is read up to the end.

        Args:
            offsets: [n] the offset of each range in the file, a multiple of `PAGE`.
            lengths: [n] the length of each range in bytes, a multiple of `PAGE`.
            places: [n] the offset of each range in `into`, a multiple of `PAGE`.
            into: The memory, from `aligned_bytes`.
            threads: The maximum number of requests in progress at once.

        Raises:
            DatabaseError: The disk reports an error. The message names the file and the offset.
            CorruptError: The file is shorter than when it was opened.
        """
        if not offsets.size:
            return
        threads = min(threads, offsets.size)
        file = self._plain if self._direct is None else self._direct
        where = into.ctypes.data

        def share(first: int) -> int:
            return int(read_requests(file, self.size, offsets, lengths, places, where, first, threads))

        pool = _threads()
        # The last share runs in this thread, so that a single request does not cost a thread switch.
        others = [pool.submit(share, first) for first in range(threads - 1)]
        failed = [share(threads - 1), *(other.result() for other in others)]
        for first in sorted(request for request in failed if request >= 0):
            # The requests of a share are read in order, so those after a failed one have not been read either.
            for request in range(first, offsets.size, threads):
                self._read_again(int(offsets[request]), int(lengths[request]), int(places[request]), into)
        if self._direct is None and hasattr(os, "posix_fadvise"):
            # These pages would evict those of the topology, and are rarely read again.
            low, high = int(offsets.min()), int((offsets + lengths).max())
            os.posix_fadvise(self._plain, low, high - low, os.POSIX_FADV_DONTNEED)
        with self._counting:
            self.requests += offsets.size
            self.bytes += int(lengths.sum())

    def read_range(self, offset: int, length: int, into: UInt8s) -> None:
        """Read one long range, with few requests in progress so that those of batches do not have to wait long.

        The arguments and errors are those of `read`.
        """
        places = np.arange(0, length, _PIECE, dtype=np.int64)
        self.read(places + offset, np.minimum(length - places, _PIECE), places, into, threads=_SWEEPERS)

    def _opened(self, flags: int) -> int:
        try:
            return os.open(self.path, flags | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise CorruptError(f"{self.path} is missing; restore it from a backup", code="damaged-file") from error
        except OSError as error:
            raise DatabaseError(
                f"cannot read {self.path}: {error.strerror}; check its permissions, and the limits of this process "
                "(ulimit -a)",
                code="cannot-read",
            ) from error

    def _read_again(self, offset: int, length: int, place: int, into: UInt8s) -> None:
        """Retry a failed range without O_DIRECT, which some file systems reject only when a file is read."""
        done, wanted = 0, min(length, self.size - offset)
        while done < wanted:
            try:
                piece = os.pread(self._plain, wanted - done, offset + done)
            except OSError as error:
                raise DatabaseError(
                    f"cannot read {self.path} at byte {offset + done:,}: {error.strerror}; check the disk, and run "
                    "CHECK DATABASE to find damaged files",
                    code="cannot-read",
                ) from error
            if not piece:
                raise CorruptError(
                    f"{self.path} ends at byte {offset + done:,} instead of {self.size:,}; restore it from a backup "
                    "or create the snapshot again",
                    code="damaged-file",
                )
            into[place + done : place + done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)


_PIECE = 1 << 20
"""The size of a request in a sequential read, in bytes."""
_SWEEPERS = 4
"""The number of requests in progress in a sequential read, enough to reach the bandwidth of the disk."""


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


class DiskSpeed(NamedTuple):
    """The measured speed of a disk."""

    requests: float
    """Random requests for one page each, per second, with many in progress."""
    bytes: float
    """Bytes per second in a sequential read."""


def disk_speed(array: Array) -> DiskSpeed | None:
    """Measure the disk by reading a mapped array's file. Returns None for small arrays and files without O_DIRECT."""
    region = file_region(array)
    if region is None or array.nbytes < _MEASURED:
        return None
    file = RowFile(Path(region.file))
    try:
        if not file.direct:
            return None
        pages, into = file.size // PAGE, aligned_bytes(_MEASURED)
        places = np.arange(_TRIES, dtype=np.int64) * PAGE
        # Multiples of the golden ratio are spread evenly, so that the pages are far apart.
        offsets = (np.arange(1, _TRIES + 1) * 0.6180339887498949 % 1 * (pages - 1)).astype(np.int64) * PAGE
        lengths = np.full(_TRIES, PAGE, np.int64)
        file.read(offsets[:THREADS], lengths[:THREADS], places[:THREADS], into)  # starts the threads
        began = time.perf_counter()
        file.read(offsets, lengths, places, into)
        middle = time.perf_counter()
        file.read_range(0, _MEASURED, into)
        return DiskSpeed(_TRIES / (middle - began), _MEASURED / (time.perf_counter() - middle))
    finally:
        file.close()


_TRIES = 4096
"""The number of random requests that measure a disk."""
_MEASURED = 1 << 26
"""The number of bytes read sequentially to measure a disk."""


class ScratchFile(RowFile):
    """A file without a name, for writing and reading byte ranges. It is removed when its last descriptor is closed."""

    def __init__(self, folder: Path, size: int, what: str) -> None:
        """Create the file and reserve its disk space.

        Args:
            folder: A folder on the file system that will contain the file.
            size: The number of bytes to reserve.
            what: Its purpose, for error messages.

        Raises:
            DatabaseError: The disk is full, or no file can be created in the folder.
        """
        self.path, self.size, self._what = folder / what, size, what
        with temporary_file(folder, size, what, "make SPILL smaller") as file:
            self._plain = os.dup(file.fileno())
            self._direct = None
            if _DIRECT:
                # The file is opened again, because O_DIRECT applies to an open file, not to a descriptor.
                with suppress(OSError):
                    self._direct = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR | _DIRECT | os.O_CLOEXEC)
        self._begin()
        self.written = 0
        """The bytes written since the file was created."""

    def write(self, memory: UInt8s, length: int, offset: int) -> None:
        """Write the first `length` bytes of memory from `aligned_bytes`. Both numbers are multiples of `PAGE`.

        Raises:
            DatabaseError: The disk reports an error.
        """
        file = self._plain if self._direct is None else self._direct
        done = int(write_memory(file, memory.ctypes.data, length, offset))
        while done < length:  # retry without O_DIRECT, to find out why the write failed
            try:
                done += os.pwrite(self._plain, memory[done:length].data, offset + done)
            except OSError as error:
                raise DatabaseError(
                    f"cannot write {self._what} in {self.path.parent}: {error.strerror}; check the disk",
                    code="cannot-write",
                ) from error
        if self._direct is None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._plain, offset, length, os.POSIX_FADV_DONTNEED)
        self.written += length


_POOLS: dict[int, ThreadPoolExecutor] = {}
"""Process id → the threads that read files. A fork does not copy threads, so the child process starts its own."""


def _threads() -> ThreadPoolExecutor:
    """Return the thread pool of this process. Its threads start with the first read."""
    process = os.getpid()
    pool = _POOLS.get(process)
    # `setdefault` is atomic. An executor has no threads until it receives work, so an extra one costs nothing.
    return pool or _POOLS.setdefault(process, ThreadPoolExecutor(THREADS, thread_name_prefix="snapdb-read"))
