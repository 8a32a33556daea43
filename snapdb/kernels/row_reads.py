"""Rows that are read from files by many threads at once, rows that are kept in memory, and the copies between them.

A map of a file that does not fit in memory costs a page fault per row. Here, the missing rows of a batch are sorted,
rows of the same or the next page are joined to one request, and threads that block in pread(2) read the requests. A
file that is opened with O_DIRECT is read in whole pages, which do not evict other files from memory.

Rows are rows of bytes: `width` is the number of bytes per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from snapdb.arrays import Int32s, Int64s, UInt8s
from snapdb.kernels.compiled import copy_line, kernel, prefetch
from snapdb.kernels.features import Overlay, newer_row

AHEAD = 16
"""The number of rows whose memory is prefetched before they are copied."""

_LINE = 64
"""The bytes of a cache line."""

_pread = types.ExternalFunction("pread", types.intp(types.int32, types.uintp, types.uintp, types.int64))
_pwrite = types.ExternalFunction("pwrite", types.intp(types.int32, types.uintp, types.uintp, types.int64))


@kernel
def _copy_row(to: UInt8s, at: Any, source: UInt8s, here: Any, width: int) -> None:
    """Copy `width` bytes, by whole cache lines if there are any. The last line may overlap the one before it."""
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
    """Read requests first, first + step, … and return the first that failed or came short, or -1.

    Args:
        file: The file descriptor.
        size: The bytes of the file. A request that ends later is read up to there.
        offsets: [n] where each request begins in the file.
        lengths: [n] the bytes of each request.
        places: [n] where its bytes begin in the memory.
        memory: The address of the memory.
        first: The first request.
        step: The distance between requests, which is the number of threads.
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
    """Write `length` bytes of memory at an offset of a file and return how many bytes are written."""
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
    """Copy the rows that are in memory to `out`, and list the positions of all others. Returns their number.

    Args:
        rows: [n] the rows' numbers. For -1, the row is `blank`.
        kept: The rows in memory, in the order of their numbers.
        filled: The number of the first row that has not been copied into memory yet.
        memory: [kept rows * width] the rows in memory.
        width: The bytes per row.
        blank: [width] the row of ids that have none.
        out: [n * width] the result.
        slots: [n] scratch memory.
        missing: [n] receives the positions i of the rows that are not in memory.
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
            # Without a prefetch, each row waits for memory. The slots of missing rows are -1, whose address is safe.
            prefetch(memory, slots[min(i + AHEAD, rows.size - 1)] * width)
            _copy_row(out, i * width, memory, slots[i] * width, width)
    return int(many)


@kernel
def list_missing(rows: Int64s, kept: Overlay, missing: Int32s) -> int:
    """List the rows that are not in `kept`, unordered, and return their number. Rows of -1 are left out."""
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
    """Plan the requests for ascending rows of a file, and return how many there are.

    Rows of the same or the next page are joined. To read along greater gaps costs more memory than it saves requests.

    Args:
        rows: [n] the rows' numbers, ascending. A number may repeat.
        start: The offset of row 0 in the file.
        width: The bytes per row.
        page: The alignment of offsets and lengths.
        most: The most bytes of a request, unless a single row is longer.
        memory: Where the first request's bytes begin in the memory.
        requests: Three arrays [n] of int64, which receive offsets, lengths and places in the memory.
        inside: [n] receives where each row begins in the memory.
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
    """Copy the row that begins at each inside[i] of the memory to row positions[i] of `out`."""
    for i in range(inside.size):
        prefetch(memory, inside[min(i + AHEAD, inside.size - 1)])
        _copy_row(out, positions[i] * width, memory, inside[i], width)


@kernel
def keep_rows(slab: UInt8s, first: int, stop: int, width: int, kept: Overlay, memory: UInt8s) -> None:
    """Copy the rows first ≤ row < stop of a slab that are to be kept to their places in memory.

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
    """Append to a pack, batch by batch, the rows first ≤ row < stop that each batch wants. Returns the bytes.

    A batch's rows from one slab are its chunk, which begins at a multiple of `page`.

    Args:
        slab: [(stop - first) * width] the rows as they are in the file.
        first: The number of the slab's first row.
        stop: The number after its last row.
        width: The bytes per row.
        page: The alignment of chunks.
        wanted: [all batches' rows] the rows that batches want, ascending within a batch.
        ends: [batches] where each batch's rows end in `wanted`.
        cursors: [batches] the first of the batch's rows that is not packed yet; advanced.
        counts: [batches] receives the rows of each chunk.
        chunks: [batches] receives where each chunk begins in `packed`.
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
    """Return the bytes that `pack_slab` would append for the rows up to `stop`, by binary search, O(log n) a batch."""
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
