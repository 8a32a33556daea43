"""Compaction: merges small files of tables and id maps into larger ones. Rows keep their ids."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple

from snapdb.errors import CorruptError
from snapdb.sql_engine import SqlSession, parquet_files, parquet_form, quote_all, table_rows
from snapdb.storage.catalog_db.codec import decode_columns, facts_text, link
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import hash_file
from snapdb.storage.tables.commit import file_facts, now
from snapdb.storage.tables.id_maps import IdMaps
from snapdb.storage.tables.segments import write_query, write_segment
from snapdb.types import Segment, Table

_MANY = 64
"""The number of small files of one kind that a table can have before a commit merges some of them."""
_TIER = 1 << 12
"""The maximum size of a file in the lowest tier, in bytes. The limit of each further tier is `_FAN` times higher."""
_FAN = 8
"""The number of adjacent files in a tier that triggers a merge."""

_SMALL = 32 << 20
"""The size in bytes at and above which a file is never merged."""
_LARGEST = 256 << 20
"""The maximum total size, in bytes, of the files that are merged into one."""

_VERSION = "version"
"""The column, in merged files of deletes, with the version that removed a row."""


class _Member(NamedTuple):
    """A file as recorded in the catalog."""

    path: str
    rows: int
    bytes: int
    sha256: str
    first: int
    """The first row id or dense id of the file."""
    added: int
    """The version that added the file, or 0 for ids, which belong to no version."""
    shape: int
    """The id of the columns with which the file was written, or 0 for ids."""


class Merge(NamedTuple):
    """Files of one owner that can be merged without changing the data in any version."""

    kind: Literal["rows", "deletes", "ids"]
    owner: int
    """The id of the table or, for ids, of the id map."""
    table: int
    """The id of the table."""
    name: str
    """The name of the table, for error messages."""
    members: tuple[_Member, ...]
    """The files, in order."""

    @property
    def folder(self) -> str:
        """The folder with the table's or id map's files."""
        return f"{'ids' if self.kind == 'ids' else 'tables'}/{self.table}"

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)


def _adjacent_runs(
    members: Iterable[_Member], follows: Callable[[_Member, _Member], bool]
) -> Iterator[tuple[_Member, ...]]:
    """Yield runs of two or more adjacent small members, with at most `_LARGEST` bytes per run.

    >>> small = [_Member(name, 1, 1 << 20, "", first, 1, 1) for first, name in enumerate("abc")]
    >>> big = _Member("x", 1, 64 << 20, "", 3, 1, 1)
    >>> ["".join(m.path for m in run) for run in _adjacent_runs([*small, big, *small], lambda a, b: True)]
    ['abc', 'abc']
    """
    run: list[_Member] = []
    for member in members:
        small = member.bytes < _SMALL
        fits = bool(run) and follows(run[-1], member) and sum(m.bytes for m in run) + member.bytes <= _LARGEST
        if not (small and fits):
            yield from _worth(run)
            run = []
        if small:
            run.append(member)
    yield from _worth(run)


def _tiers(run: Sequence[_Member]) -> list[tuple[_Member, ...]]:
    """Return the groups of adjacent members that tiered compaction merges, as in an LSM tree.

    Fewer than 8 files remain in each tier.

    A row is rewritten about once per tier, so the total work is O(n log n). If large and small files alternate, large
    files are merged with the small files between them only if too many files would remain otherwise.

    >>> small = [_Member(f"{i}", 1, 600, "", i, 1, 1) for i in range(9)]
    >>> large = [_Member("x", 1, 20_000, "", 9, 1, 1), _Member("y", 1, 30_000, "", 10, 1, 1)]
    >>> [len(merge) for merge in _tiers([*large, *small])], _tiers([*large, *small[:7]])
    ([9], [])
    """
    groups = _grouped(run, strict=True)
    if len(groups) > _MANY:
        groups = _grouped(run, strict=False)
    return [group for group in groups if len(group) > 1]


def _grouped(run: Sequence[_Member], *, strict: bool) -> list[tuple[_Member, ...]]:
    """Return all members, grouped by the file into which they are merged.

    Args:
        run: Adjacent members.
        strict: Whether only files of the same tier count.
    """
    groups: list[tuple[_Member, ...]] = [(member,) for member in run]
    largest, least, top = max((member.bytes for member in run), default=0), 0, _TIER
    while least < largest:
        groups = [group for part in _parts(groups, least if strict else 0, top) for group in part]
        least, top = top, top * _FAN
    return groups


def _parts(groups: Sequence[tuple[_Member, ...]], least: int, top: int) -> Iterator[list[tuple[_Member, ...]]]:
    """Divide groups into runs of groups of at most `top` bytes and runs of larger groups.

    A run of small groups is merged into one group if many of them are larger than `least`.
    """
    for low, some in groupby(groups, key=lambda group: _bytes(group) <= top):
        part = list(some)
        many = low and sum(_bytes(group) > least for group in part) >= _FAN
        yield [tuple(chain.from_iterable(part))] if many else part


def _bytes(group: Iterable[_Member]) -> int:
    return sum(member.bytes for member in group)


def find_tiers(connection: sqlite3.Connection, table: int) -> list[Merge]:
    """Return the merges from `_tiers` for a table with too many small files, or an empty list for other tables."""
    counts = connection.execute(
        "SELECT max(n) FROM (SELECT count(*) n FROM segments WHERE table_id = ? AND bytes < ? GROUP BY kind)",
        (table, _SMALL),
    ).fetchone()
    if (counts[0] or 0) <= _MANY:
        return []
    (name,) = connection.execute("SELECT name FROM tables WHERE id = ?", (table,)).fetchone()
    merges = [merge for merge in _of_table(connection, table, name) if merge.kind != "ids"]
    return [merge._replace(members=part) for merge in merges for part in _tiers(merge.members)]


def find_merges(connection: sqlite3.Connection, table: int | None = None) -> list[Merge]:
    """Return the possible merges of a table, or of all tables that are not dropped if `table` is None."""
    merges: list[Merge] = []
    for row in connection.execute(
        "SELECT id, name FROM tables WHERE dropped IS NULL AND ifnull(id = ?, true) ORDER BY id", (table,)
    ).fetchall():
        merges += _of_table(connection, row["id"], row["name"])
    return merges


def _of_table(connection: sqlite3.Connection, table: int, name: str) -> Iterator[Merge]:
    """Yield the possible merges of a table's rows, deletes and ids."""
    named = "SELECT path, rows, bytes, sha256, first"
    # The empty file of a new table is not merged, because the table's first version reads only that file.
    rows = f"{named}, added, shape FROM segments WHERE table_id = ? AND kind = 'rows' AND first + rows > 0"
    deletes = f"{named}, added, shape FROM segments WHERE table_id = ? AND kind = 'deletes' ORDER BY added, id"
    ids = f"{named}, 0, 0 FROM id_segments WHERE map_id = ? ORDER BY first"
    for run in _adjacent_runs(_members(connection, f"{rows} ORDER BY first, id", table), _continues):
        yield Merge("rows", table, table, name, run)
    for run in _adjacent_runs(_members(connection, deletes, table), lambda before, after: True):
        yield Merge("deletes", table, table, name, run)
    for (map_id,) in connection.execute("SELECT id FROM id_maps WHERE table_id = ? ORDER BY id", (table,)).fetchall():
        for run in _adjacent_runs(_members(connection, ids, map_id), _continues):
            yield Merge("ids", map_id, table, name, run)


def _continues(before: _Member, after: _Member) -> bool:
    """Return whether the rows of a file continue those of another file, with the same columns."""
    return before.first + before.rows == after.first and before.shape == after.shape


def _members(connection: sqlite3.Connection, query: str, owner: int) -> list[_Member]:
    """Read the files that a catalog query returns."""
    return [_Member(*row) for row in connection.execute(query, (owner,))]


def _worth(run: list[_Member]) -> list[tuple[_Member, ...]]:
    """Return the run in a list if it has two or more files, otherwise an empty list."""
    return [tuple(run)] if len(run) > 1 else []


# Merging.


def compact(catalog_db: CatalogDb, session: SqlSession, merge: Merge) -> bool:
    """Replace several files with one. Returns False if they were changed concurrently.

    Raises:
        CorruptError: A file's bytes differ from those that were published. Merging it would hide the damage.
    """
    db_dir = catalog_db.db_dir
    for member in merge.members:
        _check(db_dir, member)
    # The slow part runs without a lock. The swap then checks, in one transaction, that the files are still the same.
    file = _write(catalog_db, session, merge)
    try:
        with catalog_db.writing() as connection:
            swapped = _swap(connection, merge, file)
    except BaseException:
        db_dir.disk.remove(db_dir.path / file.path)
        raise
    if not swapped:
        db_dir.disk.remove(db_dir.path / file.path)
    return swapped


def _check(db_dir: DatabaseDir, member: _Member) -> None:
    """Raise CorruptError if a file is missing or its bytes differ."""
    path = db_dir.inside(member.path)
    try:
        hashed: tuple[int, str] | None = hash_file(path)
    except OSError:
        hashed = None
    if hashed != (member.bytes, member.sha256):
        state = "is missing" if hashed is None else "differs from what was published"
        raise CorruptError(
            f"{path} {state}; restore it from a backup (CHECK DATABASE lists all damage)", code="damaged-table"
        )


def _write(catalog_db: CatalogDb, session: SqlSession, merge: Merge) -> Segment:
    """Write the rows of all members, in order, to a new file."""
    db_dir = catalog_db.db_dir
    match merge.kind:
        case "rows":
            table = _table(catalog_db, merge)
            file = write_segment(db_dir, session, merge.folder, table.columns, table_rows(table, db_dir.path))
        case "deletes":
            file = write_query(db_dir, session, merge.folder, ("", _deletes(db_dir, session, merge), ""))
        case "ids":
            columns = IdMaps(catalog_db).read(merge.owner).columns
            keys = ", ".join(f"CAST(k{i} AS {parquet_form(c.type)}) AS k{i}" for i, c in enumerate(columns))
            query = f"SELECT {keys} FROM {parquet_files(_segments(merge), db_dir.path)}"
            file = write_query(db_dir, session, merge.folder, ("", query, ""))
    if file.rows != sum(member.rows for member in merge.members):
        db_dir.disk.remove(db_dir.path / file.path)
        raise CorruptError(
            f"files of {merge.name} contain {file.rows:,} rows, which differs from the catalog; "
            "restore the database from a backup",
            code="damaged-table",
        )
    return file


def _table(catalog_db: CatalogDb, merge: Merge) -> Table:
    """Return a table that consists of the members, with the columns with which they were written."""
    shape = merge.members[0].shape
    (row,) = catalog_db.rows("SELECT columns FROM shapes WHERE id = ?", (shape,))
    columns = decode_columns(row["columns"])
    rows = sum(m.rows for m in merge.members)
    stop = merge.members[-1].first + merge.members[-1].rows
    fields = max(c.field for c in columns)
    return Table(merge.table, merge.name, columns, _segments(merge), (), rows, 0, stop, fields)


def _segments(merge: Merge) -> tuple[Segment, ...]:
    """Return the members as segments."""
    return tuple(Segment(m.path, m.rows, m.bytes, m.sha256, m.first) for m in merge.members)


def _deletes(db_dir: DatabaseDir, session: SqlSession, merge: Merge) -> str:
    """Return a SELECT of row_id and the version that removed the row.

    If a file belongs to a single version, only the catalog contains the version.
    """
    parts = []
    for member, segment in zip(merge.members, _segments(merge), strict=True):
        source = parquet_files([segment], db_dir.path)
        has_versions = any(c.name == _VERSION for c in session.describe(f"FROM {source}"))
        version = _VERSION if has_versions else f"{member.added}::BIGINT AS {_VERSION}"
        parts.append(f"SELECT row_id::BIGINT AS row_id, {version} FROM {source}")
    return f"SELECT {quote_all(('row_id', _VERSION))} FROM ({' UNION ALL '.join(parts)}) ORDER BY 2, 1"


def _swap(connection: sqlite3.Connection, merge: Merge, file: Segment) -> bool:
    """Replace the members' rows with one row. Returns False, without a change, if they were changed concurrently."""
    ids = merge.kind == "ids"
    table, more = ("id_segments", "0, 0") if ids else ("segments", "added, shape")
    for member in merge.members:
        query = f"SELECT path, rows, bytes, sha256, first, {more} FROM {table} WHERE path = ?"
        row = connection.execute(query, (member.path,)).fetchone()
        if row is None or tuple(row) != tuple(member):
            return False
    first, added = min(m.first for m in merge.members), max(m.added for m in merge.members)
    paths = [(m.path,) for m in merge.members]
    connection.executemany(f"DELETE FROM {table} WHERE path = ?", paths)
    values: tuple[Any, ...] = (merge.owner, file.path, file.rows, file.bytes, file.sha256, first)
    if ids:
        connection.execute(
            "INSERT INTO id_segments (map_id, path, rows, bytes, sha256, first) VALUES (?, ?, ?, ?, ?, ?)", values
        )
    else:
        connection.execute(
            "INSERT INTO segments (table_id, path, rows, bytes, sha256, first, kind, added, shape) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, merge.kind, added, merge.members[-1].shape),
        )
    _note(connection, merge, file, first)
    moment = now()
    connection.executemany("INSERT INTO garbage VALUES (?, ?)", [(path, moment) for (path,) in paths])
    return True


def _note(connection: sqlite3.Connection, merge: Merge, file: Segment, first: int) -> None:
    """Add the replacement to the upkeep hash chain."""
    last = connection.execute("SELECT number, hash FROM upkeep ORDER BY number DESC LIMIT 1").fetchone()
    number, parent = (last["number"] + 1, last["hash"]) if last else (1, "")
    change = {
        "change": merge.kind,
        "owner": merge.owner,
        "replaced": [m.path for m in merge.members],
        **file_facts(file),
        "first": first,
    }
    (head,) = connection.execute("SELECT max(version) FROM versions").fetchone()
    text = facts_text({"number": number, "time": now(), "after": head, "changes": [change]})
    connection.execute("INSERT INTO upkeep VALUES (?, ?, ?, ?)", (number, parent, link(parent, text), text))
