"""Kernels that plan and read requests for rows of files, and copy rows between buffers and memory.

Memory-mapping a file that does not fit in memory costs a page fault per row. Here, a batch's missing rows are sorted,
rows on the same page or on adjacent pages are merged into one request, and threads that block in pread(2) read the
requests. A file opened with O_DIRECT is read in whole pages, which do not evict other files from memory.

Rows consist of bytes: `width` is the number of bytes per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from snapdb.arrays import Int32s, Int64s, UInt8s
from snapdb.kernels.compiled import copy_line, kernel, prefetch
from snapdb.kernels.features import Overlay, newer_row

AHEAD = 16
"""The number of rows by which prefetches precede copies."""

_LINE = 64
"""The size of a cache line in bytes."""

_pread = types.ExternalFunction("pread", types.intp(types.int32, types.uintp, types.uintp, types.int64))
_pwrite = types.ExternalFunction("pwrite", types.intp(types.int32, types.uintp, types.uintp, types.int64))


@kernel
def _copy_row(to: UInt8s, at: Any, source: UInt8s, here: Any, width: int) -> None:
    """Copy `width` bytes, in whole cache lines if possible. The last line may overlap the one before it."""
    if width < _LINE:
        for byte in range(width):
            to[at + byte] = source[here + byte]
        return
    for byte in range(0, width - _LINE + 1, _LINE):
        copy_line(to, at + byte, source, here + byte)
    if width % _LINE:
        copy_line(to, at + width - _LINE, source, here + width - _LINE)


@kernel
def read_requests(
    file: int, size: int, offsets: Int64s, lengths: Int64s, places: Int64s, memory: int, first: int, step: int
) -> int:
    """Read requests first, first + step, …, and return the first that failed or returned too few bytes, or -1.

    Args:
        file: The file descriptor.
        size: The size of the file in bytes. A request that extends past the end is read up to the end.
        offsets: [n] the offset of each request in the file.
        lengths: [n] the length of each request in bytes.
        places: [n] the offset of each request's bytes in the memory.
        memory: The address of the memory.
        first: The first request.
        step: The number of threads, each of which reads every step-th request.
    """
    for i in range(first, offsets.size, step):
        wanted = min(lengths[i], size - offsets[i])
        done = np.int64(0)
        while done < wanted:
            address = np.uint64(memory + places[i] + done)
            read = _pread(np.int32(file), address, np.uint64(lengths[i] - done), np.int64(offsets[i] + done))
            if read <= 0:
                return i
            done += read
    return -1


@kernel
def write_memory(file: int, memory: int, length: int, offset: int) -> int:
    """Write `length` bytes of memory at an offset of a file, and return the number of bytes written."""
    done = np.int64(0)
    while done < length:
        address = np.uint64(memory + done)
        written = _pwrite(np.int32(file), address, np.uint64(length - done), np.int64(offset + done))
        if written <= 0:
            break
        done += written
    return int(done)


@kernel
def copy_kept(
    rows: Int64s,
    kept: Overlay,
    filled: int,
    memory: UInt8s,
    width: int,
    blank: UInt8s,
    out: UInt8s,
    slots: Int64s,
    missing: Int64s,
) -> int:
    """Copy the rows in memory to `out`, list the positions of all other rows, and return the number of the latter.

    Args:
        rows: [n] the rows' numbers. -1 stands for `blank`.
        kept: The rows to keep in memory, ordered by number.
        filled: The number of the first row that has not been copied into memory yet.
        memory: [kept rows * width] the rows in memory.
        width: The bytes per row.
        blank: [width] the row for ids without a row.
        out: [n * width] the result.
        slots: [n] scratch memory.
        missing: [n] receives the positions in `rows` of the rows that are not in memory.
    """
    many = np.int64(0)
    for i in range(rows.size):
        row = rows[i]
        slot = newer_row(kept, row) if 0 <= row < filled else np.int64(-1)
        slots[i] = slot
        if slot < 0 <= row:
            missing[many] = i
            many += 1
    for i in range(rows.size):
        if rows[i] < 0:
            _copy_row(out, i * width, blank, 0, width)
        elif slots[i] >= 0:
            # Without a prefetch, each copy waits for memory. Missing rows have slot -1, which is safe to prefetch.
            prefetch(memory, slots[min(i + AHEAD, rows.size - 1)] * width)
            _copy_row(out, i * width, memory, slots[i] * width, width)
    return int(many)


@kernel
def list_missing(rows: Int64s, kept: Overlay, missing: Int32s) -> int:
    """List the rows that are not in `kept`, in the given order, and return their number. Rows of -1 are skipped."""
    many = np.int64(0)
    for i in range(rows.size):
        if rows[i] >= 0 and newer_row(kept, rows[i]) < 0:
            missing[many] = np.int32(rows[i])
            many += 1
    return int(many)


@kernel
def plan_requests(
    rows: Int64s, start: int, width: int, page: int, most: int, memory: int, requests: Any, inside: Int64s
) -> int:
    """Plan the requests for ascending rows of a file, and return the number of requests.

    Rows on the same page or on adjacent pages are merged. Reading across larger gaps would save few requests, and the
    buffers would need more memory.

    Args:
        rows: [n] the rows' numbers, ascending. A number may repeat.
        start: The offset of row 0 in the file.
        width: The bytes per row.
        page: The alignment of offsets and lengths in bytes.
        most: The maximum size of a request in bytes, unless a single row is longer.
        memory: The offset of the first request's bytes in the memory.
        requests: Three arrays [n] of int64, which receive the requests' offsets, lengths and offsets in the memory.
        inside: [n] receives the offset of each row in the memory.
    """
    offsets, lengths, places = requests
    many = np.int64(0)
    end = np.int64(-1)
    for i in range(rows.size):
        low = (start + rows[i] * width) // page * page
        high = -(-(start + rows[i] * width + width) // page) * page
        if many > 0 and low <= end and high - offsets[many - 1] <= most:
            end = max(end, high)
        else:
            if many > 0:
                memory += lengths[many - 1]
            offsets[many], places[many] = low, memory
            end = high
            many += 1
        lengths[many - 1] = end - offsets[many - 1]
        inside[i] = memory + start + rows[i] * width - offsets[many - 1]
    return int(many)


@kernel
def copy_read(memory: UInt8s, inside: Int64s, positions: Int64s, width: int, out: UInt8s) -> None:
    """Copy the row at offset inside[i] of the memory to row positions[i] of `out`, for each i."""
    for i in range(inside.size):
        prefetch(memory, inside[min(i + AHEAD, inside.size - 1)])
        _copy_row(out, positions[i] * width, memory, inside[i], width)


@kernel
def keep_rows(slab: UInt8s, first: int, stop: int, width: int, kept: Overlay, memory: UInt8s) -> None:
    """Copy those rows first ≤ row < stop of a slab that are to be kept into their slots in memory.

    Args:
        slab: [(stop - first) * width] the rows as they are in the file.
        first: The number of the slab's first row.
        stop: The number after its last row.
        width: The bytes per row.
        kept: The rows to keep.
        memory: [kept rows * width] receives them.
    """
    for row in range(first, stop):
        slot = newer_row(kept, row)
        if slot >= 0:
            _copy_row(memory, slot * width, slab, (row - first) * width, width)


@kernel
def pack_slab(
    slab: UInt8s,
    first: int,
    stop: int,
    width: int,
    page: int,
    wanted: Int32s,
    ends: Int64s,
    cursors: Int64s,
    counts: Int32s,
    chunks: Int64s,
    packed: UInt8s,
) -> int:
    """Pack, batch by batch, the rows first ≤ row < stop that each batch needs, and return the bytes used in `packed`.

    A batch's rows from one slab form a chunk, which begins at a multiple of `page`.

    Args:
        slab: [(stop - first) * width] the rows as they are in the file.
        first: The number of the slab's first row.
        stop: The number after its last row.
        width: The bytes per row.
        page: The alignment of chunks in bytes.
        wanted: [all batches' rows] the rows that batches need, ascending within each batch.
        ends: [batches] the end of each batch's rows in `wanted`.
        cursors: [batches] the position in `wanted` of each batch's first row that is not packed yet; advanced.
        counts: [batches] receives the number of rows in each chunk.
        chunks: [batches] receives the offset of each chunk in `packed`.
        packed: Receives the chunks.
    """
    at = np.int64(0)
    for batch in range(cursors.size):
        chunks[batch] = at
        begin = cursors[batch]
        i = begin
        while i < ends[batch] and wanted[i] < stop:
            _copy_row(packed, at, slab, (np.int64(wanted[i]) - first) * width, width)
            at += width
            i += 1
        cursors[batch] = i
        counts[batch] = np.int32(i - begin)
        at = -(-at // page) * page
    return int(at)


@kernel
def chunk_bytes(wanted: Int32s, ends: Int64s, cursors: Int64s, stop: int, width: int, page: int) -> int:
    """Return the bytes that `pack_slab` would use for the rows before `stop`, by binary search: O(log n) per batch."""
    total = np.int64(0)
    for batch in range(cursors.size):
        low, high = cursors[batch], ends[batch]
        while low < high:
            middle = (low + high) // 2
            if wanted[middle] < stop:
                low = middle + 1
            else:
                high = middle
        total += -(-((low - cursors[batch]) * width) // page) * page
    return int(total)
