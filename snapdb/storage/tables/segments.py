"""Segments: immutable Parquet files of rows. They are written or copied, then synced and hashed before a version names
them.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from snapdb.errors import CorruptError, DataError, InputError, SnapdbError
from snapdb.remote import provide_metadata
from snapdb.sql_engine import (
    Parameters,
    SqlSession,
    default_value,
    file_literal,
    parquet_form,
    quote,
    quote_all,
    text_literal,
)
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import fresh_name, hash_file, unwritten
from snapdb.types import Column, Segment, Table
from snapdb.types.text import counted

_OPTIONS = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 122880)"
"""The options of DuckDB's COPY statement for segments."""

_BLOCK = 8 << 20
"""The number of bytes copied and hashed at once."""
_FICLONE = 0x40049409
"""The Linux ioctl that makes a file share the blocks of another file until either is written (a reflink)."""


def check_table(db_dir: DatabaseDir, table: Table) -> None:
    """Check that the table's files have the committed sizes. Raises CorruptError for a file with another size."""
    check_files(db_dir, f"table {table.name}", (*table.segments, *table.deletes))


def check_files(db_dir: DatabaseDir, owner: str, segments: Iterable[Segment]) -> None:
    """Check that the files have the committed sizes.

    Raises:
        CorruptError: A file is missing or truncated.
    """
    for segment in segments:
        path = db_dir.inside(segment.path)
        if db_dir.url is not None and not provide_metadata(path):
            continue  # not published, which is an error only for a query that reads it
        size = path.stat().st_size if path.exists() else None
        if size != segment.bytes:
            state = "is missing" if size is None else f"has {size} bytes instead of {segment.bytes}"
            raise CorruptError(f"{path}, a file of {owner}, {state}; restore it from a backup", code="damaged-table")


def write_segment(
    db_dir: DatabaseDir,
    session: SqlSession,
    folder: str,
    columns: Sequence[Column],
    query: str,
    parameters: Parameters = None,
    supplied: Sequence[str] | None = None,
) -> Segment:
    """Write the rows of `query`, cast to `columns`, as a new segment.

    Args:
        db_dir: The database directory.
        session: The session that runs the query.
        folder: The folder, relative to the database directory, e.g. `tables/3`.
        columns: The columns of the table.
        query: A user's query, whose columns are used in order. Errors contain a span in this query.
        parameters: The parameters of the query.
        supplied: The columns that the query supplies, in its order, or None for all. Other columns get their default
            value or NULL.

    Raises:
        DataError: A NOT NULL column has NULL.
        DatabaseError: The disk failed.
    """
    supplied = [c.name for c in columns] if supplied is None else supplied
    given = {name.lower() for name in supplied}
    values = [f"CAST({quote(c.name)} AS {c.type})" if c.name.lower() in given else default_value(c) for c in columns]
    generated = any(c.generated is not None for c in columns)
    if generated:
        before, after = _generating(columns, values)
        values = [quote(c.name) for c in columns]
    casts = ", ".join(
        f"CAST({value} AS {parquet_form(c.type)}) AS {quote(c.name)}" for value, c in zip(values, columns, strict=True)
    )
    rows = (f"SELECT {casts} FROM (", query, f"\n) AS q({quote_all(supplied)})")
    if generated:
        rows = (f"SELECT {casts} FROM ({before} FROM (", query, f"\n) AS q({quote_all(supplied)}){after})")
    file = write_query(db_dir, session, folder, rows, parameters)
    try:
        _check_not_null(db_dir, session, file, columns)
    except SnapdbError:
        db_dir.disk.remove(db_dir.path / file.path)
        raise
    return file


def _generating(columns: Sequence[Column], values: Sequence[str]) -> tuple[str, str]:
    """Return the SQL before and after the source of rows that computes generated columns, in the table's order."""
    plain = ", ".join(
        f"{value} AS {quote(c.name)}" for value, c in zip(values, columns, strict=True) if c.generated is None
    )
    before, after = f"SELECT {plain}", ""
    for column in columns:
        if column.generated is not None:
            computed = f"CAST(({column.generated}) AS {column.type}) AS {quote(column.name)}"
            before, after = f"SELECT *, {computed} FROM ({before}", f"{after})"
    return before, after


def write_query(
    db_dir: DatabaseDir, session: SqlSession, folder: str, query: tuple[str, str, str], parameters: Parameters = None
) -> Segment:
    """Write the rows of a query in order, given as (prefix, the user's query, suffix)."""
    prefix, text, suffix = query
    with _new_file(db_dir, folder) as path:
        try:
            copy = f"{suffix}) TO {text_literal(str(path))} {_OPTIONS}"
            rows = session.write(f"COPY ({prefix}", text, copy, parameters)
        except (InputError, CorruptError) as error:
            if str(path) in error.message:
                raise unwritten(path, error.message) from error
            raise
        # Sync the file before its name: a version must not name a file that a power failure could still lose.
        db_dir.disk.settle(path)
        db_dir.disk.settle(path.parent)
        size, sha256 = hash_file(path)
    return Segment(str(path.relative_to(db_dir.path)), rows, size, sha256)


@contextlib.contextmanager
def _new_file(db_dir: DatabaseDir, folder: str) -> Iterator[Path]:
    """Yield the path of a new file in a folder of the database. The file is removed if the block fails."""
    path = db_dir.path / folder / f"{fresh_name()}.parquet"
    try:
        db_dir.disk.make(path.parent)
        yield path
    except OSError as error:
        db_dir.disk.remove(path)
        raise unwritten(path, error.strerror or str(error)) from error
    except BaseException:
        db_dir.disk.remove(path)
        raise


def _check_not_null(db_dir: DatabaseDir, session: SqlSession, file: Segment, columns: Sequence[Column]) -> None:
    """Raise DataError if a NOT NULL column contains NULL."""
    required = [c for c in columns if not c.nullable]
    if not required:
        return
    counts = ", ".join(f"count(*) - count({quote(c.name)})" for c in required)
    source = f"read_parquet({text_literal(str(db_dir.path / file.path))}, hive_partitioning = false)"
    for column, nulls in zip(required, session.rows(f"SELECT {counts} FROM {source}")[0], strict=True):
        if nulls:
            raise DataError(
                f'column "{column.name}" is NOT NULL, but {counted(nulls, "row")} would have NULL; '
                "set a value, or leave them out",
                code="not-null-broken",
            )


# The user's Parquet files are read once, written once, and hashed while they are copied.


def copy_segment(
    db_dir: DatabaseDir, session: SqlSession, folder: str, source: str, report: Callable[[float], None]
) -> Segment:
    """Copy a file as a segment. The copy is never a link, so later changes to `source` do not affect the database.

    Args:
        db_dir: The database directory.
        session: The session that reads the number of rows from the footer and checks that the footer matches the file's
            size.
        folder: The folder, relative to the database directory.
        source: The path of the file.
        report: A function that is called with the completed fraction. An error that it raises aborts the copy.

    Raises:
        InputError: The source cannot be read.
        DatabaseError: The disk failed.
    """
    rows = _rows(session, source)
    with _new_file(db_dir, folder) as path:
        try:
            size, sha256 = copy_file(source, path, report)
        except OSError as error:
            if error.filename == source:
                raise InputError(f"cannot read {source}: {error.strerror}", code="unreadable-file") from error
            raise
        db_dir.disk.settle(path)
        db_dir.disk.settle(path.parent)
    return Segment(str(path.relative_to(db_dir.path)), rows, size, sha256)


def _rows(session: SqlSession, source: str) -> int:
    """Return a file's number of rows. Raises InputError if its footer refers to bytes beyond the end of the file."""
    name = file_literal(source)
    (rows,) = session.rows(f"SELECT num_rows FROM parquet_file_metadata({name})")[0]
    (end,) = session.rows(
        "SELECT coalesce(max(coalesce(nullif(dictionary_page_offset, 0), data_page_offset) + total_compressed_size), 0)"
        f" FROM parquet_metadata({name})"
    )[0]
    if end > Path(source).stat().st_size:
        raise InputError(f"{source} is truncated: its footer refers to bytes up to {end:,}", code="unreadable-file")
    return int(rows)


def copy_file(source: str, path: Path, report: Callable[[float], None]) -> tuple[int, str]:
    """Copy a file and return its size and SHA-256.

    If the copy can share its blocks, the file is only read for the hash.
    """
    digest = hashlib.sha256()
    with open(source, "rb", buffering=0) as reader, open(path, "wb", buffering=0) as writer:
        total = os.fstat(reader.fileno()).st_size
        shared = _share_blocks(reader.fileno(), writer.fileno())
        with ThreadPoolExecutor(1) as pool:
            done, hashing = 0, pool.submit(int)
            while block := reader.read(_BLOCK):
                # At most one block is hashed while the next is read and written. Hashing and I/O release the GIL.
                hashing.result()
                hashing = pool.submit(digest.update, block)  # type: ignore[arg-type]
                if not shared:
                    _write(writer.fileno(), block)
                done += len(block)
                report(done / max(total, 1))
            hashing.result()
    return done, digest.hexdigest()


def _share_blocks(source: int, target: int) -> bool:
    """Share the source's blocks with the target, if possible. Returns whether they are shared."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


def _write(descriptor: int, block: bytes) -> None:
    """Write a whole block, in several calls if the system writes only part of it at once."""
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
