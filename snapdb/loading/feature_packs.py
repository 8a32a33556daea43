"""Packs: the features of many upcoming batches, collected in one pass over the files and stored batch by batch.

A batch's number determines its nodes; no features are needed to sample them. Therefore, the rows of the next batches,
called a segment, are listed first. Then the files are read once from start to end, and each batch's rows are appended
to a scratch file. Later, the batch is read from this file in a few large requests. Two sequential streams replace
random reads of single rows. The method is that of DiskGNN (Liu et al., 2024), except that samples are not stored,
because each epoch has its own batches.

A segment's region of the file is ordered by feature, then by slab, then by batch. It contains the rows of the slab that
the batch needs and that are not in memory, in ascending order and without duplicates. There are two regions: the
batches of one segment are read while the next segment is packed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt8s
from snapdb.kernels.row_reads import chunk_bytes, pack_slab
from snapdb.loading.epochs import BatchSeeds
from snapdb.loading.feature_rows import Chunks, FeatureKey, FeatureRows, Sweep
from snapdb.storage.array_files import PAGE
from snapdb.storage.row_file import ScratchFile, aligned_bytes
from snapdb.types.text import counted, size_words

BatchRows = Callable[[BatchSeeds], dict[FeatureKey, Int64s]]
"""Samples a batch and returns the rows that it needs of each feature, in any order."""

_FIRST = 8
"""The first segment of an epoch uses an eighth of a region, so that training starts early."""
_FEWEST = 8
"""The minimum number of batches per segment for which a pass over the files costs less than direct reads."""
_PATIENCE = 0.1
"""The interval between two checks of whether the stream is closed, in seconds."""


class Coming(NamedTuple):
    """The batches of an iteration, in the order in which they are read."""

    places: range
    """Their positions in the epoch."""
    batches: Callable[[Sequence[int]], Iterator[BatchSeeds]]
    """Returns the batches at the given positions."""
    rows: Callable[[], BatchRows | None]
    """A weak reference. A strong one would keep the stream alive after all other references to it are gone."""


class PackSizes(NamedTuple):
    """The bytes that packs may use."""

    region: int
    """The bytes of the scratch file for one segment."""
    lists: int
    """The memory for the lists of rows to pack."""
    out: int
    """The memory of a buffer in which a slab's rows are collected before they are written. There are two buffers."""
    slab: int
    """The memory of a slab, the part of a file that is read at once. There are two slabs."""


class _Segment:
    """Consecutive batches whose rows are packed together."""

    def __init__(self, numbers: Sequence[int], region: int) -> None:
        self.region = region
        self.columns = {number: column for column, number in enumerate(numbers)}
        self.left = set(self.columns)
        """The numbers of the batches that have not been read yet."""
        self.reading: set[int] = set()
        """The numbers of the batches that are being read or are waiting for the segment to be packed."""
        self.stale = False
        """Whether the iteration of these batches has ended."""
        self.offsets: dict[FeatureKey, Array] = {}
        """[slabs, batches] the offset of each chunk in the file."""
        self.counts: dict[FeatureKey, Array] = {}
        """[slabs, batches] the number of rows in each chunk."""
        self.ended = threading.Event()
        self.failed = False


class FeaturePacks:
    """The packs of one stream in one process. `run` writes them on one thread, and other threads read them."""

    def __init__(
        self,
        tables: Mapping[FeatureKey, FeatureRows],
        file: ScratchFile,
        sizes: PackSizes,
        check: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Use a scratch file with two regions.

        Args:
            tables: The features.
            file: The scratch file.
            sizes: The bytes that packs may use.
            check: Raises an exception when the stream is closed.
            warn: Reports why packs do not pay off.
        """
        self._tables, self.file, self._sizes, self._check, self._warn = tables, file, sizes, check, warn
        # One row per batch must fit in the buffer, with each chunk padded to whole pages.
        widest = max(table.width for table in tables.values())
        self._most = max(1, sizes.out // (-(-widest // PAGE) * PAGE + PAGE))
        self._changed = threading.Condition()
        self._coming: Coming | None = None
        self._begun: set[int] = set()
        """The numbers of the batches of this iteration that have started."""
        self._segments: list[_Segment] = []
        self.segments = self.batches = 0
        """The number of packed segments, and the number of batches in them."""
        self.direct = 0
        """The number of batches that were not in a pack."""
        self.seconds = self.waited = 0.0
        """The seconds spent packing, and the seconds that threads spent waiting for packs, summed over threads."""

    @property
    def ready(self) -> int:
        """The number of batches in complete packs that have not been read yet."""
        return sum(len(s.left) for s in list(self._segments) if s.ended.is_set() and not s.failed)

    @property
    def is_idle(self) -> bool:
        """Whether no iteration has been announced."""
        return self._coming is None

    def expect(self, coming: Coming | None) -> None:
        """Pack the batches of this iteration from now on, instead of those of the previous one. None packs nothing."""
        with self._changed:
            self._coming, self._begun = coming, set()
            for segment in self._segments:
                segment.stale = True
                segment.left &= segment.reading  # its region must not change while it is read
            self._prune()

    def wake(self) -> None:
        """Make `run` check whether the stream is closed."""
        with self._changed:
            self._changed.notify_all()

    def chunks_of(self, number: int) -> dict[FeatureKey, Chunks]:
        """Wait for a batch's segment and return the location of the batch's rows, or {} if the batch is not in a pack.

        After reading the rows, call `done`.
        """
        with self._changed:
            self._begun.add(number)
            segment = next((s for s in self._segments if number in s.left and not s.stale), None)
            if segment is None:
                self.direct += 1
                return {}
            segment.reading.add(number)
        began = time.perf_counter()
        while not segment.ended.wait(_PATIENCE):
            self._check()
            if segment.stale:
                return {}
        with self._changed:
            self.waited += time.perf_counter() - began
            self.direct += segment.failed
        if segment.failed:
            return {}
        column = segment.columns[number]
        return {
            key: Chunks(self.file, offsets[:, column].copy(), segment.counts[key][:, column].copy())
            for key, offsets in segment.offsets.items()
        }

    def done(self, number: int) -> None:
        """Record that a batch has been read. After its last batch, a segment's region can be reused."""
        with self._changed:
            for segment in self._segments:
                if number in segment.reading:
                    segment.reading.discard(number)
                    segment.left.discard(number)
            self._prune()

    def _prune(self) -> None:
        self._segments = [s for s in self._segments if s.left or not s.ended.is_set()]
        self._changed.notify_all()

    def run(self, ahead: int) -> None:
        """Pack segment after segment until `check` raises an exception.

        Args:
            ahead: The number of batches that threads may start before the rows of the first segment are listed.
        """
        known: Coming | None = None
        position = 0
        while True:
            with self._changed:
                while (
                    self._coming is None
                    or len(self._segments) > 1
                    or (self._coming is known and position >= len(known.places))
                ):
                    self._check()
                    self._changed.wait(_PATIENCE)
                first, known = self._coming is not known, self._coming
                position = 0 if first else position
                # Batches that start before their rows are listed are read directly.
                position = max(position, len(self._begun) + ahead) if first else position
                region = 1 - self._segments[-1].region if self._segments else 0
            began = time.perf_counter()
            listed, position = self._list(known, position, short=first)
            if not self._pays(listed, len(known.places) - position):
                return
            if listed:
                self._pack(listed, region, known)
                self.seconds += time.perf_counter() - began

    def _pays(self, listed: Mapping[int, Mapping[FeatureKey, Int32s]], left: int) -> bool:
        """Return whether a segment has enough batches for packs to beat direct reads, and warn if it does not.

        Args:
            listed: The missing rows of the segment's batches.
            left: The number of batches of the iteration that have not been listed yet.
        """
        sizes = [sum(map(self._packed_bytes, missing, missing.values())) for missing in listed.values()]
        largest = max(sizes, default=0)
        if largest <= self._sizes.region and (not left or self._sizes.region >= _FEWEST * largest):
            return True
        self._warn(
            f"the SPILL size of {size_words(2 * self._sizes.region)} allows "
            f"{counted(self._sizes.region // largest, 'batch', 'batches')} per segment; packs are faster than direct "
            f"reads only with {_FEWEST} batches or more, which need a SPILL size of {size_words(2 * _FEWEST * largest)}"
        )
        return False

    def _packed_bytes(self, key: FeatureKey, rows: Int32s) -> int:
        return self._tables[key].packed_bytes(rows, self._sizes.slab)

    def _list(self, coming: Coming, position: int, *, short: bool) -> tuple[dict[int, dict[FeatureKey, Int32s]], int]:
        """Return the missing rows of as many of the next batches as fit in a region, and the position after them."""
        rows_of = coming.rows()
        if rows_of is None:  # the stream has been garbage-collected
            return {}, len(coming.places)
        region = self._sizes.region // _FIRST if short else self._sizes.region
        listed: dict[int, dict[FeatureKey, Int32s]] = {}
        packed = held = 0
        for seeds in coming.batches(coming.places[position:]):
            self._check()
            missing = {key: self._tables[key].find_missing(rows) for key, rows in rows_of(seeds).items()}
            packed += sum(map(self._packed_bytes, missing, missing.values()))
            held += sum(rows.nbytes for rows in missing.values())
            full = packed > region or held > self._sizes.lists // 2 or len(listed) == self._most
            if listed and full:
                break
            listed[seeds.number] = missing
            position += 1
        return listed, position

    def _pack(self, listed: Mapping[int, Mapping[FeatureKey, Int32s]], region: int, coming: Coming) -> None:
        """Pack a segment into a region of the file."""
        segment = _Segment(list(listed), region)
        with self._changed:
            if self._coming is not coming:  # another iteration has begun
                return
            segment.left -= self._begun  # these are read directly, so nothing would read their packs
            self._segments.append(segment)
        sweep = Sweep(self._sizes.slab, self._check)
        writer = _Writer(self.file, sweep, self._sizes.out, region * self._sizes.region)
        try:
            for key, table in self._tables.items():
                rows = [missing.get(key, np.empty(0, np.int32)) for missing in listed.values()]
                segment.offsets[key], segment.counts[key] = self._pack_feature(table, rows, sweep, writer)
            writer.finish()
            self.segments += 1
            self.batches += len(listed)
        except BaseException:
            segment.failed = True
            raise
        finally:
            sweep.close()
            segment.ended.set()
            with self._changed:
                self._prune()

    def _pack_feature(
        self, table: FeatureRows, rows: Sequence[Int32s], sweep: Sweep, writer: _Writer
    ) -> tuple[Array, Array]:
        """Append a feature's rows for each batch, and return the offsets and row counts of its chunks.

        The first sweep also loads the rows that are kept in memory.
        """
        ends = np.cumsum([one.size for one in rows])
        cursors = ends - [one.size for one in rows]
        wanted = np.concatenate(rows)
        wanted_at = np.unique(wanted // 64)
        filling = not table.is_filled

        def is_wanted(first: int, stop: int) -> bool:
            here = np.searchsorted(wanted_at, [first // 64, -(-stop // 64)])
            return bool(here[0] < here[1]) or (filling and table.keeps_any(first, stop))

        offsets: list[Array] = [np.zeros((0, len(rows)), np.int64)]
        counts: list[Array] = [np.zeros((0, len(rows)), np.int32)]
        for first, stop, slab in sweep.slabs(table, is_wanted):
            if filling:
                table.take(first, stop, slab)
            at = first
            while at < stop:
                # Take the part of the slab whose rows fit in the buffer.
                past = _fitting(wanted, ends, cursors, at, stop, table.width, writer.size)
                begins, many = np.empty(len(rows), np.int64), np.empty(len(rows), np.int32)
                out = writer.buffer()
                bytes_ = slab[(at - first) * table.width :]
                used = pack_slab(bytes_, at, past, table.width, PAGE, wanted, ends, cursors, many, begins, out)
                offsets.append(begins + writer.write(int(used)))
                counts.append(many)
                at = past
        if filling:
            table.filled()
        return np.vstack(offsets), np.vstack(counts)


def _fitting(wanted: Int32s, ends: Int64s, cursors: Int64s, first: int, stop: int, width: int, size: int) -> int:
    """Return the greatest row ≤ `stop` for which the chunks of the rows before it fit in `size` bytes in total."""
    low, high = first, stop
    while low < high:
        middle = high if (low, high) == (first, stop) else (low + high + 1) // 2
        if chunk_bytes(wanted, ends, cursors, middle, width, PAGE) <= size:
            low = middle
        else:
            high = middle - 1
    # The buffer has space for at least one row per batch, so at least one row is packed.
    return max(low, first + 1)


class _Writer:
    """Writes the collected rows in the background, in the order in which they are collected."""

    def __init__(self, file: ScratchFile, sweep: Sweep, size: int, offset: int) -> None:
        self.size = size
        self._file, self._sweep, self._offset = file, sweep, offset
        self._buffers = [aligned_bytes(size), aligned_bytes(size)]
        self._writes: list[Future[None] | None] = [None, None]
        self._turn = 0

    def buffer(self) -> UInt8s:
        """Return the buffer for the next rows, after its previous rows have been written."""
        if (write := self._writes[self._turn]) is not None:
            write.result()
        return self._buffers[self._turn]

    def write(self, length: int) -> int:
        """Start writing the rows in the current buffer, and return their offset in the file."""
        offset = self._offset
        if length:
            buffer = self._buffers[self._turn]
            self._writes[self._turn] = self._sweep.worker.submit(self._file.write, buffer, length, offset)
            self._turn, self._offset = 1 - self._turn, offset + length
        return offset

    def finish(self) -> None:
        """Wait until all rows have been written."""
        for write in self._writes:
            if write is not None:
                write.result()
