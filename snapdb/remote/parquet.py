"""The byte ranges of a Parquet file: the chunks of each column, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from snapdb.on_first_use import module_on_first_use

pq: Any = module_on_first_use("pyarrow.parquet")

ColumnRanges = dict[str, list[tuple[int, int]]]
"""Column → the (offset, length) of its chunks in the order of the row groups, several per group if it is nested."""

_TAIL = 64 << 10
"""The number of bytes at the end of a file that are fetched first. Usually, they contain the whole footer."""
_TRAILER = 8
"""The bytes after the footer: its length (4 bytes) and the magic number."""


def column_ranges(source: Path | bytes) -> ColumnRanges:
    """Return the chunks of each top-level column of a Parquet file, or of its footer and what follows it."""
    metadata = pq.read_metadata(BytesIO(source) if isinstance(source, bytes) else source)
    ranges: ColumnRanges = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            starts = [s for s in (chunk.dictionary_page_offset, chunk.data_page_offset) if s]
            column = chunk.path_in_schema.partition(".")[0]
            ranges.setdefault(column, []).append((min(starts), chunk.total_compressed_size))
    return ranges


def column_digests(path: Path) -> tuple[dict[str, str], str]:
    """Return the SHA-256 of each column's chunks, and of all other bytes, of a Parquet file."""
    ranges = column_ranges(path)
    columns = {}
    with open(path, "rb") as file:
        for column, chunks in ranges.items():
            digest = sha256()
            for start, length in chunks:
                for block in _blocks(file, start, length):
                    digest.update(block)
            columns[column] = digest.hexdigest()
        digest = sha256()
        for start, length in rest_ranges(ranges, path.stat().st_size):
            for block in _blocks(file, start, length):
                digest.update(block)
    return columns, digest.hexdigest()


def rest_ranges(ranges: ColumnRanges, size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) of the bytes outside of all chunks, in order."""
    rest, at = [], 0
    for start, length in sorted(chunk for chunks in ranges.values() for chunk in chunks):
        if start > at:
            rest.append((at, start - at))
        at = max(at, start + length)
    return [*rest, (at, size - at)] if at < size else rest


def with_rest(out: IO[bytes], size: int, read: Callable[[int, int], bytes]) -> str:
    """Write the bytes outside of all chunks to a sparse file of the full size, and return their SHA-256.

    Args:
        out: The file, open for writing.
        size: Its size in bytes.
        read: A function that returns bytes of the file, given their offset and length.
    """
    tail = read(max(0, size - _TAIL), min(_TAIL, size))
    length = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
    if length > len(tail):
        tail = read(max(0, size - length), min(length, size))
    try:
        # pyarrow reads the footer from the end, and needs nothing before it.
        ranges = column_ranges(tail)
    except Exception:  # the footer is damaged in any way; the digest of no bytes does not match
        return ""
    digest = sha256()
    for start, many in rest_ranges(ranges, size):
        held = start - (size - len(tail))
        content = tail[held : held + many] if held >= 0 else read(start, many)
        digest.update(content)
        out.seek(start)
        out.write(content)
    return digest.hexdigest()


def _blocks(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    file.seek(start)
    while length > 0:
        block = file.read(min(length, 8 << 20))
        if not block:
            return
        length -= len(block)
        yield block
