"""Feature rows in memory and in files. Some rows are kept in memory, and all others are read in file order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt8s
from snapdb.graph.features import RowReader
from snapdb.kernels import buffers
from snapdb.kernels.features import NOTHING, Overlay, overlay, truncated
from snapdb.kernels.row_reads import copy_kept, copy_read, keep_rows, list_missing, plan_requests
from snapdb.storage.array_files import PAGE, file_region
from snapdb.storage.row_file import RowFile, aligned_bytes

_LONGEST = 1 << 18
"""The maximum size in bytes of a request for several rows."""


FeatureKey = tuple[str, str]
"""Vertex type and feature name."""


class FileRows(NamedTuple):
    """A file that contains consecutive rows of a feature."""

    file: RowFile
    start: int
    """The offset of its first row in the file."""
    first: int
    """The number of its first row among the feature's rows."""
    stop: int
    """The number after its last row."""


class Staging:
    """Buffers into which threads read rows before they copy them. A thread borrows a buffer for each read."""

    def __init__(self, size: int) -> None:
        """`size` is the size of a buffer in bytes."""
        self.size = size
        self._free: deque[UInt8s] = deque()

    @contextmanager
    def borrowed(self, least: int = 0) -> Iterator[UInt8s]:
        """Yield a buffer that no other thread uses. A buffer with more than `size` bytes is not kept for reuse."""
        if least > self.size:
            yield aligned_bytes(least)
            return
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = aligned_bytes(self.size)
        try:
            yield buffer
        finally:
            self._free.append(buffer)


class KeptRows(NamedTuple):
    """The rows that a closed table had in memory, for the next table of the same files."""

    files: tuple[tuple[Path, int, int, int], ...]
    """The path, start, first row and last row of each file."""
    kept: Overlay
    """The rows that were to be kept."""
    filled: int
    """The row before which they had been loaded."""
    memory: UInt8s
    """Their bytes, by rank."""


class Chunks(NamedTuple):
    """The location of one feature's rows for one batch in a pack. The rows ascend and have no duplicates."""

    file: RowFile
    offsets: Int64s
    """[chunks] the offset of each chunk in the file, a multiple of `PAGE`."""
    counts: Int32s
    """[chunks] the number of rows in each chunk."""


class Sweep:
    """Reads feature files from start to end, one slab ahead of the caller."""

    def __init__(self, slab: int, check: Callable[[], None]) -> None:
        """`slab` is in bytes. `check` is called for every slab; it stops the sweep by raising an exception."""
        self._slabs = (aligned_bytes(slab), aligned_bytes(slab))
        self._check = check
        self.worker = ThreadPoolExecutor(2, thread_name_prefix="snapdb-sweep")
        """The threads that read slabs ahead and write packed rows in the background."""

    def slabs(self, table: FeatureRows, wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, int, UInt8s]]:
        """Yield (first row, row after the last, their bytes) for each slab that contains wanted rows.

        The bytes are valid until the next slab is requested.

        Raises:
            DatabaseError: The disk reports an error.
            CorruptError: A file is shorter than expected.
        """
        todo = (
            (file, first, stop)
            for file in table.files
            for first, stop in _slabs_of(file, table.width, self._slabs[0].size)
            if wanted(first, stop)
        )
        coming: deque[tuple[int, int, UInt8s, Future[int]]] = deque()
        for number in count():
            if (slab := next(todo, None)) is not None:
                file, first, stop = slab
                into = self._slabs[number % 2]
                read = self.worker.submit(_read_slab, file, table.width, first, stop, into)
                coming.append((first, stop, into, read))
                if number == 0:
                    continue  # the second slab is read while the first is used
            if not coming:
                return
            self._check()
            first, stop, bytes_, begin = coming.popleft()
            yield first, stop, bytes_[begin.result() :]

    def close(self) -> None:
        """Wait for reads and writes in progress, and shut the threads down."""
        self.worker.shutdown(wait=True)


class Counts(NamedTuple):
    """The sources of the rows of one read."""

    hits: int
    """The number of rows in memory."""
    misses: int
    """The number of rows that were read from files or packs."""


class FeatureRows:
    """The rows of one feature, some of which are kept in memory. Threads share this object."""

    def __init__(self, feature: RowReader, staging: Staging) -> None:
        """Open the files of a feature for which `is_in_files` is true.

        Raises:
            CorruptError: A file is missing.
            DatabaseError: A file cannot be read.
        """
        self.feature, self._staging = feature, staging
        self._shape, self._dtype = feature.arrays[0].shape[1:], feature.arrays[0].dtype
        self.width = int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize
        """The size of a row in bytes."""
        self.files = tuple(_open_files(feature.arrays))
        self.rows: int = sum(array.shape[0] for array in feature.arrays)
        """The number of rows in the files."""
        self._blank = np.ascontiguousarray(feature.blank).reshape(-1).view(np.uint8)
        self.kept: Overlay = NOTHING
        """The rows to keep in memory."""
        self._memory = np.empty(0, np.uint8)
        self._chosen = 0
        self._filled = 0
        self._pages = _pages_of(self.width, self.files)

    @property
    def bytes(self) -> int:
        """The bytes of the rows in memory and of the bitmap that locates them."""
        return self._memory.nbytes + self.kept.words.nbytes + self.kept.ranks.nbytes

    def keep(self, rows: Int64s) -> None:
        """Allocate memory for the rows to keep, which `fill` or `take` loads. `rows` ascend."""
        self._memory, self._chosen = aligned_bytes(rows.size * self.width), rows.size
        self.kept = overlay(rows, self.rows)

    def leave(self) -> KeptRows:
        """Return the rows in memory, for `inherit` of another table."""
        return KeptRows(_regions(self.files), self.kept, self._filled, self._memory)

    def shared(self, left: KeptRows) -> int:
        """Return the number of leading rows that this table and a closed one read from the same files."""
        same = 0
        for mine, theirs in zip(_regions(self.files), left.files, strict=False):
            if mine != theirs:
                break
            same = mine[-1]
        return min(same, left.filled)

    def bytes_with(self, left: KeptRows) -> int:
        """Return `bytes` after `inherit`."""
        return int(left.memory.nbytes) + 2 * 8 * -(-self.rows // 64)

    def inherit(self, left: KeptRows) -> int:
        """Keep the rows of a closed table that are also rows of this one. Returns their number."""
        self.kept = truncated(left.kept, self.shared(left), self.rows)
        chosen = int(np.bitwise_count(self.kept.words).sum())
        self._memory, self._chosen = left.memory, chosen
        self.filled()
        return chosen

    @property
    def filled_rows(self) -> int:
        """The number of rows in memory."""
        if self._filled < self.rows:
            return int(self.kept.ranks[self._filled // 64]) if self.kept.ranks.size else 0
        return self._chosen

    @property
    def is_filled(self) -> bool:
        """Whether all rows to keep are in memory."""
        return bool(self._filled == self.rows)

    def take(self, first: int, stop: int, slab: UInt8s) -> None:
        """Copy the rows to keep from a slab into memory, where reads find them from then on. Slabs are taken in order.

        Args:
            first: The slab's first row.
            stop: The row after its last.
            slab: Its bytes.
        """
        keep_rows(slab, first, stop, self.width, self.kept, self._memory)
        self._filled = stop  # only now, so that no thread reads an incomplete row

    def fill(self, sweep: Sweep) -> None:
        """Read the files, and copy the rows to keep into memory."""
        for slab in sweep.slabs(self, self.keeps_any):
            self.take(*slab)
        self.filled()

    def filled(self) -> None:
        """Record that all slabs with rows to keep have been taken."""
        self._filled = self.rows

    def keeps_any(self, first: int, stop: int) -> bool:
        """Return whether any row first ≤ row < stop is to be kept. The bounds are widened to multiples of 64."""
        return bool(self.kept.words[first // 64 : -(-stop // 64)].any())

    def find_missing(self, rows: Int64s) -> Int32s:
        """Return the distinct rows that are not to be kept in memory, ascending. Rows of -1 are skipped."""
        missing = np.empty(rows.size, np.int32)
        found = np.sort(missing[: list_missing(rows, self.kept, missing)])
        first = np.empty(found.size, np.bool_)  # faster than np.unique, which hashes integers before it sorts them
        first[:1], first[1:] = True, found[1:] != found[:-1]
        return found[first]

    def packed_bytes(self, rows: Array, slab: int) -> int:
        """Return the bytes that a batch's rows take in a pack: one chunk per slab, each padded to whole pages.

        Args:
            rows: [n] the rows' numbers, ascending.
            slab: The size of a slab in bytes.
        """
        total = 0
        for file in self.files:
            bounds = [first for first, _ in _slabs_of(file, self.width, slab)]
            many = np.diff(np.searchsorted(rows, [*bounds, file.stop]))
            total += int((-(-many * self.width // PAGE) * PAGE).sum())
        return total

    def page_bytes(self, rows: Array) -> int:
        """Return the total size in bytes of the pages that contain rows. `rows` ascend."""
        total = 0
        for file in self.files:
            own = rows[(rows >= file.first) & (rows < file.stop)] - file.first
            first = (file.start + own * self.width) // PAGE
            last = (file.start + (own + 1) * self.width - 1) // PAGE
            # Two neighbouring rows share a page if one begins on the page on which the previous one ends.
            shared = int(np.count_nonzero(first[1:] == last[:-1]))
            total += (int((last - first + 1).sum()) - shared) * PAGE
        return total

    def read(self, rows: Int64s, chunks: Chunks | None = None) -> tuple[Array, Counts]:
        """Return these rows as a new array, and how many of them were in memory. A row of -1 is blank.

        Args:
            rows: [n] the rows' numbers.
            chunks: The location of the rows in a pack, or None. If the pack has other rows, the files are read instead.

        Raises:
            DatabaseError: The disk reports an error.
            CorruptError: A file is shorter than expected.
        """
        out = buffers.empty((rows.size, *self._shape), self._dtype)
        flat = out.reshape(-1).view(np.uint8)
        slots, missing = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
        memory = self._memory, self.width, self._blank
        many = int(copy_kept(rows, self.kept, self._filled, *memory, flat, slots, missing))
        if not many:
            return out, Counts(rows.size, 0)
        positions = missing[:many][np.argsort(rows[missing[:many]])]
        wanted = rows[positions]
        if chunks is None or not self._read_packed(wanted, positions, chunks, flat):
            self._read_missing(wanted, positions, flat)
        return out, Counts(rows.size - many, many)

    def close(self) -> None:
        """Close the files and free the rows. Further calls have no effect."""
        for file in self.files:
            file.file.close()
        self._filled, self.kept, self._memory = 0, NOTHING, np.empty(0, np.uint8)

    def _read_missing(self, wanted: Int64s, positions: Int64s, flat: UInt8s) -> None:
        """Read ascending rows directly from the files, each into its position in `flat`."""
        with self._staging.borrowed() as stage:
            size = max(1, stage.size // (self._pages * PAGE))
            requests, inside = tuple(np.empty(size, np.int64) for _ in range(3)), np.empty(size, np.int64)
            for file in self.files:
                low, high = np.searchsorted(wanted, [file.first, file.stop]).tolist()
                # Rows are read in blocks, so that the buffers do not evict the topology from memory.
                for at in range(low, high, size):
                    block = wanted[at : min(at + size, high)] - file.first
                    many = plan_requests(block, file.start, self.width, PAGE, _LONGEST, 0, requests, inside)
                    file.file.read(requests[0][:many], requests[1][:many], requests[2][:many], stage)
                    copy_read(stage, inside[: block.size], positions[at : at + block.size], self.width, flat)

    def _read_packed(self, wanted: Int64s, positions: Int64s, chunks: Chunks, flat: UInt8s) -> bool:
        """Read ascending rows from a pack into their positions in `flat`. Returns False if the pack has other rows."""
        # A pack contains each row once, but disjoint trees can repeat it.
        distinct = np.concatenate([[0], np.cumsum(wanted[1:] != wanted[:-1])])
        if distinct[-1] + 1 != chunks.counts.sum():
            return False
        used = np.flatnonzero(chunks.counts)
        offsets, counts = chunks.offsets[used], chunks.counts[used].astype(np.int64)
        lengths = -(-counts * self.width // PAGE) * PAGE
        ends = np.cumsum(lengths)
        begin = row = 0
        while begin < used.size:
            before = int(ends[begin] - lengths[begin])
            stop = max(begin + 1, int(np.searchsorted(ends, before + self._staging.size, side="right")))
            group = slice(begin, stop)
            with self._staging.borrowed(int(ends[stop - 1]) - before) as stage:
                places = ends[group] - lengths[group] - before
                chunks.file.read(offsets[group], lengths[group], places, stage)
                rows = int(counts[group].sum())
                firsts = np.cumsum(counts[group]) - counts[group]
                begins = np.repeat(places - firsts * self.width, counts[group]) + np.arange(rows) * self.width
                low, high = np.searchsorted(distinct, [row, row + rows]).tolist()
                copy_read(stage, begins[distinct[low:high] - row], positions[low:high], self.width, flat)
            begin, row = stop, row + rows
        return True


def is_in_files(feature: RowReader) -> bool:
    """Return whether all rows of a feature are stored in files and are not empty."""
    return all(
        array.ndim > 0 and 0 not in array.shape[1:] and (array.shape[0] == 0 or file_region(array) is not None)
        for array in feature.arrays
    )


def _slabs_of(file: FileRows, width: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last for each part of a file that fits in `size` bytes."""
    rows = max(1, (size - 2 * PAGE) // width)
    for first in range(file.first, file.stop, rows):
        yield first, min(first + rows, file.stop)


def _read_slab(file: FileRows, width: int, first: int, stop: int, slab: UInt8s) -> int:
    """Read the rows first ≤ row < stop of a file, and return the offset of the first one in the slab."""
    begin = file.start + (first - file.first) * width
    low = begin // PAGE * PAGE
    end = -(-(file.start + (stop - file.first) * width) // PAGE) * PAGE
    file.file.read_range(low, end - low, slab)
    return begin - low


def _open_files(arrays: tuple[Array, ...]) -> Iterator[FileRows]:
    first = 0
    for array in arrays:
        region = file_region(array)
        if region is not None and array.shape[0]:
            yield FileRows(RowFile(Path(region.file)), region.offset, first, first + array.shape[0])
        first += array.shape[0]


def _regions(files: tuple[FileRows, ...]) -> tuple[tuple[Path, int, int, int], ...]:
    """Return what identifies the rows of each file. Published files never change."""
    return tuple((file.file.path, file.start, file.first, file.stop) for file in files)


def _pages_of(width: int, files: tuple[FileRows, ...]) -> int:
    """Return the maximum number of pages that a row spans."""
    aligned = all(file.start % PAGE == 0 for file in files) and (PAGE % width == 0 or width % PAGE == 0)
    return -(-width // PAGE) + (not aligned)
