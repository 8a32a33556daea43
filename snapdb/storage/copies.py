"""Parquet files of the user taken over as segments, byte for byte: read once, written once, hashed on the way."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from snapdb.errors import InputError
from snapdb.relational import Session, file_literal
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.disk import fresh_name, unwritten
from snapdb.types import Segment

_BLOCK = 8 << 20
_FICLONE = 0x40049409
"""ioctl of Linux: the target shares the source's blocks until one of them is written to."""


def copy_segment(home: Home, session: Session, folder: str, source: str, report: Callable[[float], None]) -> Segment:
    """A segment with the bytes of `source`, never a link to it: who changes that file later changes nothing here.

    Args:
        session: Reads the file's footer, which tells its rows and must fit its size.
        folder: Where, relative to the database directory.
        report: Called with the share that is done; what it raises ends the copy.

    Raises:
        InputError: the source cannot be read.
        DatabaseError: the disk refused.
    """
    rows = _rows(session, source)
    directory = home.path / folder
    path = directory / f"{fresh_name()}.parquet"
    try:
        home.disk.make(directory)
        size, sha256 = copy_file(source, path, report)
        home.disk.settle(path)
        home.disk.settle(directory)
    except OSError as error:
        home.disk.remove(path)
        if error.filename == source:
            raise InputError(f"cannot read {source}: {error.strerror}", code="unreadable-file") from error
        raise unwritten(path, error.strerror or str(error)) from error
    except BaseException:
        home.disk.remove(path)
        raise
    return Segment(str(path.relative_to(home.path)), rows, size, sha256)


def _rows(session: Session, source: str) -> int:
    """How many rows the file holds; InputError when a part that its footer names lies beyond its end."""
    name = file_literal(source)
    (rows,) = session.rows(f"SELECT num_rows FROM parquet_file_metadata({name})")[0]
    (end,) = session.rows(
        "SELECT coalesce(max(coalesce(nullif(dictionary_page_offset, 0), data_page_offset) + total_compressed_size), 0)"
        f" FROM parquet_metadata({name})"
    )[0]
    if end > Path(source).stat().st_size:
        raise InputError(f"{source} is cut short: its footer names bytes up to {end:,}", code="unreadable-file")
    return int(rows)


def copy_file(source: str, path: Path, report: Callable[[float], None]) -> tuple[int, str]:
    """Copy, and give the size and sha256; where the file system can, blocks are shared and only read for the hash."""
    digest = hashlib.sha256()
    with open(source, "rb", buffering=0) as reader, open(path, "wb", buffering=0) as writer:
        total = os.fstat(reader.fileno()).st_size
        shared = _share_blocks(reader.fileno(), writer.fileno())
        with ThreadPoolExecutor(1) as pool:
            done, hashing = 0, pool.submit(int)
            while block := reader.read(_BLOCK):
                hashing.result()  # hashing keeps pace with writing; both leave Python alone meanwhile
                hashing = pool.submit(digest.update, block)  # type: ignore[arg-type]
                if not shared:
                    _write(writer.fileno(), block)
                done += len(block)
                report(done / max(total, 1))
            hashing.result()
    return done, digest.hexdigest()


def _share_blocks(source: int, target: int) -> bool:
    with contextlib.suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


def _write(descriptor: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
