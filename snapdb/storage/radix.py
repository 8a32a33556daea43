"""Edges in any order become rows in bounded memory: chunks are scattered by bucket of nodes, then each bucket sorted.

A bucket's rows fit the processor's cache, so that no step jumps about in memory; chunks over the budget wait in a file.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.kernels.radix import count_buckets, order_nodes, pick, place_in_buckets, settle_rows, spread

Array = npt.NDArray[Any]
Item = TypeVar("Item")
Made = TypeVar("Made")

CHUNK = 1 << 20
"""Edges scattered at a time."""
OPTIONAL = {"time": np.dtype(np.int64), "until": np.dtype(np.int64), "weight": np.dtype(np.float64)}
"""Columns that edges may have besides `node`, `indices` and `edge_id`."""

_BUCKET_NODES = 14
_BUCKETS = 4096
_BUCKET_ROWS = 1 << 18
_THREADS = 2
_WAITING = 6
"""Chunks that may wait for a thread, so that whoever reads them is not held up."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """What rows are made of."""

    nodes: int
    """Number of rows."""
    far_nodes: int
    """Indices are 0 ≤ id < far_nodes."""
    last_id: int
    """Edge ids are 0 ≤ id < last_id."""
    shift: int
    """A bucket holds the rows of 2^shift nodes."""
    columns: Mapping[str, np.dtype[Any]]
    """By name, as narrow as they can be; `node` is the node's number within its bucket."""

    @property
    def buckets(self) -> int:
        """How many there are."""
        return -(-self.nodes >> self.shift)


def row_shape(nodes: int, far_nodes: int, last_id: int, rows: int, optional: Iterable[str]) -> RowShape:
    """The shape of about so many rows' edges with these optional columns.

    >>> row_shape(10_000_000, 100, 100, 100_000_000, ["time"]).buckets
    611
    """
    shift = _BUCKET_NODES
    while nodes >> shift > _BUCKETS:
        shift += 1
    while shift > 0 and nodes >> (shift - 1) <= _BUCKETS // 2 and rows / ((nodes >> shift) + 1) > _BUCKET_ROWS:
        shift -= 1
    columns = {
        "node": np.dtype(np.uint16 if shift <= 16 else np.uint32),
        "indices": np.dtype(np.int32 if far_nodes < 2**31 else np.int64),
        "edge_id": np.dtype(np.int32 if last_id < 2**31 else np.int64),
        **{name: dtype for name, dtype in OPTIONAL.items() if name in optional},
    }
    return RowShape(nodes, far_nodes, last_id, shift, columns)


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The finished rows of one bucket."""

    ends: npt.NDArray[np.int64]
    """[nodes of the bucket] where each row ends, counted from the bucket's first edge."""
    columns: dict[str, Array]
    """All but `node`."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One chunk by bucket: in memory, or at a place in the file."""

    starts: npt.NDArray[np.int64]
    """[buckets + 1]"""
    columns: dict[str, Array]
    offsets: dict[str, int]
    """Where each column begins in the file; empty when it is in memory."""


class RowSort:
    """Takes edges chunk by chunk, then gives the rows bucket by bucket."""

    def __init__(self, shape: RowShape, memory: int, folder: Path | None = None) -> None:
        """Keep chunks in memory up to `memory` bytes and the rest in a nameless file in `folder`."""
        self._shape = shape
        self._free = memory
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._runs: list[_Run] = []
        self._open = ExitStack()

    def __enter__(self) -> RowSort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs.clear()
        self._open.close()

    @property
    def edges(self) -> int:
        """How many have come."""
        return sum(int(run.starts[-1]) for run in self._runs)

    def take(self, chunks: Iterable[Sequence[Mapping[str, Array]]]) -> Iterator[int]:
        """Take edges: a chunk is pieces of equal columns, where `node` is the node itself. Yields each one's size.

        Raises:
            CorruptError: an id is out of its range.
        """
        for run in _ahead(self._scattered, chunks, _WAITING):
            self._runs.append(self._kept(run))
            yield int(run.starts[-1])

    def buckets(self) -> Iterator[BucketRows]:
        """The rows of every bucket, in order; two are in work at a time."""
        return _ahead(self._bucket, range(self._shape.buckets), _THREADS)

    def _scattered(self, pieces: Sequence[Mapping[str, Array]]) -> _Run:
        shape = self._shape
        limits = {"node": shape.nodes, "indices": shape.far_nodes, "edge_id": shape.last_id}
        starts = np.zeros(shape.buckets + 1, np.int64)
        for piece in pieces:
            for name, limit in limits.items():
                _check_range(name, piece[name], limit)
            count_buckets(_frozen(piece["node"]), shape.shift, starts[1:])
        np.cumsum(starts, out=starts)
        cursor = starts[:-1].copy()
        columns = {name: np.empty(starts[-1], dtype) for name, dtype in shape.columns.items()}
        for piece in pieces:
            places = np.empty(piece["node"].size, np.int32)
            place_in_buckets(_frozen(piece["node"]), shape.shift, cursor, places, columns["node"])
            for name, values in columns.items():
                if name != "node":
                    spread(_frozen(piece[name]), places, values)
        return _Run(starts, columns, {})

    def _kept(self, run: _Run) -> _Run:
        size = sum(values.nbytes for values in run.columns.values())
        if self._folder is None or size <= self._free:
            self._free -= size
            return run
        self._free = 0  # once over, later and smaller chunks go to the file as well
        if self._file is None:
            file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 -- closed with the sort
            self._file = self._open.enter_context(file)
        offsets = {}
        for name, values in run.columns.items():
            offsets[name] = self._file.tell()
            _write(self._file, values)
        return _Run(run.starts, {}, offsets)

    def _bucket(self, bucket: int) -> BucketRows:
        shape = self._shape
        ends = np.zeros(min(1 << shape.shift, shape.nodes - (bucket << shape.shift)), np.int64)
        local = self._column(bucket, "node")
        order = np.empty(local.size, np.int32 if local.size < 2**31 else np.int64)
        order_nodes(local, ends, order)
        del local  # a bucket with a hub is large
        keys = [name for name in ("edge_id", "time") if name in shape.columns]
        columns = {name: self._picked(bucket, name, order) for name in keys}
        settle_rows(ends, columns[keys[-1]], columns["edge_id"], order)
        others = [name for name in shape.columns if name != "node" and name not in keys]
        return BucketRows(ends, columns | {name: self._picked(bucket, name, order) for name in others})

    def _picked(self, bucket: int, name: str, order: Array) -> Array:
        values = self._column(bucket, name)
        out = np.empty_like(values)
        pick(values, order, out)
        return out

    def _column(self, bucket: int, name: str) -> Array:
        """One column of a bucket, as its edges came."""
        spans = [(int(run.starts[bucket]), int(run.starts[bucket + 1])) for run in self._runs]
        values = np.empty(sum(stop - start for start, stop in spans), self._shape.columns[name])
        at = 0
        for run, (start, stop) in zip(self._runs, spans, strict=True):
            part = values[at : at + stop - start]
            if not run.offsets:
                part[:] = run.columns[name][start:stop]
            elif stop > start:
                assert self._file is not None
                _read(self._file, part, run.offsets[name] + start * part.itemsize)
            at += stop - start
        return values


def _ahead(function: Callable[[Item], Made], items: Iterable[Item], limit: int) -> Iterator[Made]:
    """The function of each item, in order, worked out by threads up to `limit` ahead of the reader."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[Made]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            while waiting and (len(waiting) > limit or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _frozen(values: Array) -> Array:
    """A read-only view: what Arrow lends is read-only too, and so kernels are compiled once."""
    view = values[:]
    view.flags.writeable = False
    return view


def _check_range(name: str, values: Array, limit: int) -> None:
    if values.size and (int(values.min()) < 0 or int(values.max()) >= limit):
        wrong = values[(values < 0) | (values >= limit)]
        what = "edge id" if name == "edge_id" else "node"
        raise CorruptError(
            f"{wrong.size} edges have the {what} {int(wrong[0])}, and there are 0 to {limit - 1}; "
            "CHECK DATABASE names the file",
            code="damaged-snapshot",
        )


def _write(file: IO[bytes], values: Array) -> None:
    """Write all of an array: one call may take less than asked."""
    left = memoryview(values.view(np.uint8).data)
    while left:
        left = left[file.write(left) :]


def _read(file: IO[bytes], out: Array, offset: int) -> None:
    """Fill the array from a place in the file, without moving where it is written."""
    left = memoryview(out.view(np.uint8).data)
    while left:
        count = os.preadv(file.fileno(), [left], offset)
        if not count:
            raise OSError(f"the temporary file of edges ended {len(left)} bytes early")
        left, offset = left[count:], offset + count
