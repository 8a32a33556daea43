"""Warnings about new rows that would make the next CREATE SNAPSHOT fail: duplicate keys and dangling edges.

New rows are compared with id maps, which contain every key that a vertex table ever had, and with the rows that the
open transaction has added. The comparison takes a fraction of the statement's time. Some cases are left to CREATE
SNAPSHOT: keys of graphs without a snapshot, edges to deleted vertices, and some rows of large statements whose keys are
not consecutive integers.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.arrays import UInt8s
from snapdb.errors import DataWarning
from snapdb.execute.session import ExecutionContext
from snapdb.execute.tables.returned_rows import rows_of_files
from snapdb.execute.transactions import Review
from snapdb.sql_engine import ROW_ID, SqlSession, key_bounds, key_rows, parquet_files, quote, table_rows
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.tables.id_maps import IdMap, IdMaps
from snapdb.types import EdgeElement, PropertyGraph, Segment, Table, VertexElement
from snapdb.types.text import counted

_FEW = 2_000
"""The number of rows up to which every key is looked up in the id map."""
_SHARE = 16
"""The divisor for the number of rows that are compared first if there are more than `_FEW` rows and the keys are not
consecutive integers. If one of these rows dangles, all rows are compared."""
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_MOST_RANGES = 32
"""The maximum number of ranges in a condition. With more ranges, keys are joined."""

_REMEMBERED = 1 << 12
"""The maximum number of files whose bounds are cached."""

_MOST_KEYS = 10_000_000
"""The maximum number of keys for which an id map has a filter. A filter for that many keys occupies 128 MiB and takes
about a second to fill."""
_FILTER_BITS = 64
"""The minimum number of bits per key in a filter."""
_FILTERS = 4
"""The number of filters that a process caches. The least recently used one is evicted first."""
_BATCH = 500_000

_Range = tuple[int, int]


def warn_of_rows(
    context: ExecutionContext,
    table: Table,
    files: Sequence[Segment],
    removed: Segment | None = None,
    changed: frozenset[str] | None = None,
) -> Review | None:
    """Warn about rows that are about to be added to a table, once for each graph rule that they violate.

    Args:
        context: The context of the statement.
        table: The table, before the statement.
        files: The new rows, in the table's columns.
        removed: The ids of the rows that the same statement removes.
        changed: The columns with new values, or None for all. The values of other columns have been checked before.

    Returns:
        A function to call with the number of new keys per id map, which reveals duplicate keys, or None if no such
        check is necessary.

    Raises:
        DataWarning: Python's warning filter turns warnings into errors. The files are removed.
    """
    later = changed is None and context.transactions.state == "idle"
    new = _New(context, table, tuple(files), removed)
    if not new.count:
        return None
    try:
        _warn(_messages(new, changed, unique=later))
    except BaseException:
        for file in (*files, *([] if removed is None else [removed])):
            context.store.disk.remove(context.store.db_dir.path / file.path)
        raise
    return _reviewed(new) if later else None


def _reviewed(new: _New) -> Review:
    """Return a review that searches for duplicate keys if there are fewer new keys than rows."""
    seen = False

    def review(ids: Mapping[int, int]) -> None:
        nonlocal seen
        if seen:  # called again when a commit is retried after losing a race
            return
        seen = True
        if any(number < new.count for number in ids.values()):
            folded = new.table.name.lower()
            for graph in new.context.catalog.graphs.values():
                for vertex in graph.vertices:
                    if vertex.table.lower() == folded and vertex.on_duplicate == "ERROR":
                        _warn(_duplicates(new, graph, vertex))

    return review


def _warn(messages: Iterable[str]) -> None:
    for message in messages:
        warnings.warn(message, DataWarning, stacklevel=_caller())


@dataclass(frozen=True, slots=True)
class _New:
    """Rows that are about to be added to a table."""

    context: ExecutionContext
    table: Table
    """The table before the statement, with the rows that the open transaction has added."""
    files: tuple[Segment, ...]
    """The files of the new rows."""
    removed: Segment | None
    """The ids of the rows that the statement removes, or None if it does not remove any."""

    known: dict[int, _KnownKeys] = field(default_factory=dict)
    """A cache of the keys by id map."""

    @property
    def count(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def rows(self) -> str:
        """A SELECT of the new rows with the table's columns."""
        return rows_of_files(self.context, self.table, self.files)

    @property
    def first_rows(self) -> str:
        """A SELECT of the first new rows, which expensive checks read."""
        return f"SELECT * FROM {parquet_files(self.files, self.context.store.db_dir.path)} LIMIT {self.count // _SHARE}"

    def ranges(self, table: Table, id_map: IdMap) -> bool:
        """Return whether the keys of an id map are mostly consecutive integers."""
        with self.context.store.sql_engine.session() as session:
            return bool(self.keys_of(session, table, id_map).ranges)

    def keys_of(self, session: SqlSession, table: Table, id_map: IdMap) -> _KnownKeys:
        """Return the keys that a vertex table has or ever had, excluding the new rows."""
        if (known := self.known.get(id_map.id)) is not None:
            return known
        added = self.context.transactions.added(table.id)
        files = [file for change in added for file in change.files]
        names = [column.name for column in id_map.columns]
        own = [(rows_of_files(self.context, table, files), names)] if files else []
        self.known[id_map.id] = _KnownKeys.of(self.context.store.db_dir, session, id_map, own)
        return self.known[id_map.id]


def _messages(new: _New, changed: frozenset[str] | None, *, unique: bool) -> Iterator[str]:
    folded = new.table.name.lower()
    for graph in new.context.catalog.graphs.values():
        for vertex in graph.vertices:
            wanted = vertex.on_duplicate == "ERROR" and not unique and _touches(vertex.key, changed)
            if wanted and vertex.table.lower() == folded:
                yield from _duplicates(new, graph, vertex)
        for edge in graph.edges:
            if edge.table.lower() == folded and edge.on_dangling == "ERROR":
                yield from _dangling(new, graph, edge, changed)


def _touches(key: Sequence[str], changed: frozenset[str] | None) -> bool:
    return changed is None or not {name.lower() for name in key}.isdisjoint(name.lower() for name in changed)


def _map(new: _New, vertex: VertexElement) -> tuple[Table, IdMap] | None:
    """Return the table of a vertex type and the id map of its key, or None before its first snapshot."""
    table = new.context.catalog.tables.get(vertex.table.lower())
    if table is None or not all(table.column(name) for name in vertex.key):
        return None
    id_map = IdMaps(new.context.store.catalog_db).find(table, vertex.key)
    return None if id_map is None else (table, id_map)


def _duplicates(new: _New, graph: PropertyGraph, vertex: VertexElement) -> Iterator[str]:
    """Yield a warning if a key occurs twice among the new rows, or already exists."""
    if (key_map := _map(new, vertex)) is None:
        return
    table, id_map = key_map
    with new.context.store.sql_engine.session() as session:
        known = new.keys_of(session, table, id_map)
        keys = known.select(new.rows, vertex.key)
        wrong = f"SELECT * FROM ({keys}) WHERE k0 IS NOT NULL GROUP BY ALL HAVING count(*) > 1"
        there = known.present(keys)
        if session.rows(f"SELECT count(*) FROM ({there})")[0][0]:
            if new.removed is not None or table.deletes or table.rows != id_map.limit:
                # Id maps retain the keys of removed rows, so only the rows themselves show which keys still exist.
                left = known.select(_left(new), vertex.key)
                there = f"SELECT * FROM ({there}) SEMI JOIN ({left}) USING ({known.names})"
            wrong = f"{wrong} UNION {there}"
        if many := session.rows(f"SELECT count(*) FROM ({wrong})")[0][0]:
            has = "has" if many == 1 else "have"
            yield (
                f"graph {graph.name}: {counted(many, 'key')} of {vertex.name} {has} more than one row "
                f"({_shown(session, known, wrong)}), so CREATE SNAPSHOT would fail; make them unique, or "
                "declare ON DUPLICATE KEY FIRST or LAST"
            )


def _left(new: _New) -> str:
    """Return a SELECT of the rows that remain from the previous version."""
    rows = table_rows(new.table, new.context.store.db_dir.path, row_ids=True)
    if (file := new.removed) is None:
        return rows
    gone = parquet_files([file], new.context.store.db_dir.path)
    return f"SELECT * FROM ({rows}) WHERE {quote(ROW_ID)} NOT IN (SELECT row_id FROM {gone})"


class _End(NamedTuple):
    """One end of an edge type."""

    side: str
    key: Sequence[str]
    vertex: VertexElement
    table: Table
    id_map: IdMap


def _dangling(new: _New, graph: PropertyGraph, edge: EdgeElement, changed: frozenset[str] | None) -> Iterator[str]:
    """Yield a warning for each edge end where new edges have keys that the vertex type never had."""
    with new.context.store.sql_engine.session() as session:
        ends = list(_ends(new, graph, edge, changed))
        if not _suspicious(new, session, ends):
            return
        for end in ends:
            known = new.keys_of(session, end.table, end.id_map)
            if end.table.id == new.table.id:  # the new rows can be the vertices of their own edges
                known = known.also(new.rows, end.vertex.key)
            wrong = known.missing(known.select(new.rows, end.key))
            if many := session.rows(f"SELECT count(*) FROM ({wrong})")[0][0]:
                has = "has" if many == 1 else "have"
                yield (
                    f"graph {graph.name}: {counted(many, 'edge')} of {edge.name} {has} a {end.side} that does not "
                    "exist in "
                    f"{end.vertex.name} ({_shown(session, known, wrong)}), so CREATE SNAPSHOT would fail; add "
                    "the vertices, or declare ON DANGLING SKIP"
                )


def _ends(new: _New, graph: PropertyGraph, edge: EdgeElement, changed: frozenset[str] | None) -> Iterator[_End]:
    """Yield the edge ends whose keys can be checked at a bounded cost."""
    sides = (("source", edge.source_key, edge.source), ("destination", edge.destination_key, edge.destination))
    for side, key, name in sides:
        vertex = graph.vertex(name)
        key_map = None if vertex is None or not _touches(key, changed) else _map(new, vertex)
        if vertex is None or key_map is None:
            continue
        if key_map[1].limit <= _MOST_KEYS or new.count <= _FEW or new.ranges(*key_map):
            yield _End(side, key, vertex, *key_map)


def _suspicious(new: _New, session: SqlSession, ends: Sequence[_End]) -> bool:
    """Return whether the ends must be checked one by one, because no scan or filter shows that all keys are known."""
    known = [new.keys_of(session, end.table, end.id_map) for end in ends]
    if not ends or any(new.context.transactions.added(end.table.id) or end.table.id == new.table.id for end in ends):
        return bool(ends)
    if all(keys.ranges and not keys.others for keys in known):
        within = (f"({keys.within(quote(end.key[0]))})" for keys, end in zip(known, ends, strict=True))
        return bool(session.rows(f"SELECT count(*) FROM ({new.rows}) WHERE ({' AND '.join(within)}) IS NOT true")[0][0])
    if any(keys.ranges for keys in known):
        return True
    filters = [
        (_key_filter(session, end.id_map, new.context.store.db_dir), end.key)
        for end in ends
        if end.id_map.limit <= _MOST_KEYS
    ]
    return len(filters) < len(ends) or _lack(session, new.rows if new.count <= _FEW else new.first_rows, filters)


def _shown(session: SqlSession, known: _KnownKeys, keys: str) -> str:
    """Return the first three keys as text."""
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in known.names.split(", "))
    rows = session.rows(f"SELECT {texts} FROM (SELECT DISTINCT * FROM ({keys}) ORDER BY ALL LIMIT 3)")
    return ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows)


def _caller() -> int:
    """Return the number of stack frames up to the first caller outside this package."""
    frame = sys._getframe(1)
    for depth in count(1):
        if frame.f_back is None or not str(frame.f_globals.get("__name__")).startswith("snapdb."):
            return depth
        frame = frame.f_back
    raise AssertionError("unreachable: frames end")


_bounds: dict[str, _Range | None] = {}
"""The least and greatest key of each key file by path. Files never change, and their names are never reused."""


@dataclass(frozen=True, slots=True)
class _KnownKeys:
    """The keys of an id map as SQL that reads as little of the map as possible.

    Integers without gaps are represented as ranges, and other keys as queries.
    """

    width: int
    """The number of key columns, which are named k0, k1, … in queries."""
    ranges: tuple[_Range, ...]
    """Ranges of integers. Both bounds are inclusive."""
    others: tuple[str, ...]
    """Queries of the form SELECT k0, k1, …"""

    @staticmethod
    def of(
        db_dir: DatabaseDir, session: SqlSession, id_map: IdMap, more: Sequence[tuple[str, Sequence[str]]] = ()
    ) -> _KnownKeys:
        """Return the keys of an id map.

        Args:
            db_dir: The database directory.
            session: The session that reads bounds.
            id_map: The id map.
            more: Queries for rows with additional keys, each with the key's columns.
        """
        width = len(id_map.columns)
        ranges, joined = _ranges(session, id_map, db_dir)
        others = []
        if joined:
            names = ", ".join(f"k{i}" for i in range(width))
            others.append(f"SELECT {names} FROM ({key_rows(joined, id_map.columns, db_dir.path)})")
        known = _KnownKeys(width, ranges, tuple(others))
        for rows, key in more:
            known = known.also(rows, key)
        return known

    @property
    def names(self) -> str:
        """The names of a key's columns in a query."""
        return ", ".join(f"k{i}" for i in range(self.width))

    def select(self, rows: str, key: Sequence[str]) -> str:
        """Return SELECT k0, k1, … over the key columns of rows."""
        return f"SELECT {', '.join(f'{quote(name)} AS k{i}' for i, name in enumerate(key))} FROM ({rows})"

    def also(self, rows: str, key: Sequence[str]) -> _KnownKeys:
        """Return these keys and the keys of additional rows."""
        return replace(self, others=(*self.others, self.select(rows, key)))

    def present(self, keys: str) -> str:
        """Return a SELECT of the given keys that are known."""
        parts = [f"SELECT * FROM ({keys}) WHERE {self.within()}"] if self.ranges else []
        parts += [f"SELECT * FROM ({keys}) SEMI JOIN ({self._others}) USING ({self.names})"] if self.others else []
        return " UNION ALL ".join(parts) or f"SELECT * FROM ({keys}) WHERE false"

    def missing(self, keys: str) -> str:
        """Return a SELECT of the given keys that are not known, including NULL."""
        candidates = f"SELECT * FROM ({keys})" + (f" WHERE ({self.within()}) IS NOT true" if self.ranges else "")
        if not self.others:
            return candidates
        # New keys are few and known keys are many. With an inner join's dynamic filter, the scan of the known keys
        # skips row groups.
        there = f"SELECT fresh.* FROM ({self._others}) AS known JOIN fresh USING ({self.names})"
        return f"WITH fresh AS MATERIALIZED ({candidates}) SELECT * FROM fresh ANTI JOIN ({there}) USING ({self.names})"

    def within(self, key: str = "k0") -> str:
        """Return an SQL condition that is true for keys in one of the ranges."""
        return " OR ".join(f"{key} BETWEEN {first} AND {last}" for first, last in self.ranges)

    @property
    def _others(self) -> str:
        return " UNION ALL ".join(self.others)


def _ranges(session: SqlSession, id_map: IdMap, db_dir: DatabaseDir) -> tuple[tuple[_Range, ...], tuple[Segment, ...]]:
    """Return the ranges of an id map's integers, and its files with other keys.

    The keys of an id map are distinct. A file with last key - first key + 1 rows therefore contains every integer in
    between.
    """
    if len(id_map.columns) > 1 or not id_map.segments or id_map.columns[0].type not in _INTEGERS:
        return (), id_map.segments
    bounds = _bounds_of(session, id_map.segments, db_dir)
    ranges: list[_Range] = []
    joined = []
    for segment in id_map.segments:
        range_ = bounds[str(db_dir.path / segment.path)]
        if range_ is not None and range_[1] - range_[0] + 1 == segment.rows:
            ranges.append(range_)
        else:
            joined.append(segment)
    merged = _merged(ranges)
    return (merged, tuple(joined)) if len(merged) <= _MOST_RANGES else ((), id_map.segments)


def _bounds_of(session: SqlSession, segments: Sequence[Segment], db_dir: DatabaseDir) -> Mapping[str, _Range | None]:
    """Return the least and the greatest key of each file, by path, or None if its footer lacks them."""
    paths = {str(db_dir.path / segment.path): segment for segment in segments}
    if new := [segment for path, segment in paths.items() if path not in _bounds]:
        if len(_bounds) + len(new) > _REMEMBERED:
            _bounds.clear()
        rows = session.rows(key_bounds([*paths.values()], db_dir.path))
        by_path = {path: (int(low), int(high)) for path, low, high in rows if low is not None and high is not None}
        _bounds.update({path: by_path.get(path) for path in paths})
    return {path: _bounds[path] for path in paths}


def _merged(ranges: Sequence[_Range]) -> tuple[_Range, ...]:
    """Return the same integers in as few ranges as possible.

    >>> _merged([(5, 9), (1, 4), (11, 12)])
    ((1, 9), (11, 12))
    """
    merged: list[_Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


_filters: OrderedDict[tuple[str, int], _KeyFilter] = OrderedDict()


@dataclass(slots=True)
class _KeyFilter:
    """A Bloom filter for an id map. It detects absent keys in a fraction of the time of a join.

    It uses one hash function (Bloom, 1970). If the bit of a key is 0, the key was never in the map. The bit of an
    absent key is set with a probability of at most 1/64. Filters are cached in the process. A filter reads new files of
    its map when it is used.
    """

    types: tuple[str, ...]
    bits: UInt8s
    files: set[str] = field(default_factory=set)
    """The paths of the files that have been read."""

    @staticmethod
    def empty(id_map: IdMap) -> _KeyFilter:
        """Return an empty filter with capacity for the keys of an id map."""
        size = 1 << max(16, (id_map.limit * _FILTER_BITS - 1).bit_length())
        return _KeyFilter(tuple(column.type for column in id_map.columns), np.zeros(size // 8, np.uint8))

    @property
    def keys(self) -> int:
        """The number of keys for which the filter has capacity."""
        return self.bits.size * 8 // _FILTER_BITS

    def take(self, session: SqlSession, id_map: IdMap, db_dir: DatabaseDir) -> None:
        """Add the keys of files that have not been read yet."""
        if new := [segment for segment in id_map.segments if segment.path not in self.files]:
            names = [f"k{i}" for i in range(len(self.types))]
            query = f"SELECT {self.place(names)} AS place FROM ({key_rows(new, id_map.columns, db_dir.path)})"
            for batch in session.reader(query, rows=_BATCH):
                place = batch.column(0).to_numpy()
                np.bitwise_or.at(self.bits, place >> 3, np.uint8(1) << (place & 7).astype(np.uint8))
            self.files |= {segment.path for segment in new}

    def place(self, key: Sequence[str]) -> str:
        """Return an SQL expression for the bit of a key. A key that the type cannot represent has an arbitrary bit."""
        cast = ", ".join(f"TRY_CAST({quote(name)} AS {kind})" for name, kind in zip(key, self.types, strict=True))
        return f"(hash({cast}) & {self.bits.size * 8 - 1})::UINTEGER"

    def lacks(self, places: npt.NDArray[np.uint32]) -> bool:
        """Return whether one of these bits is 0."""
        return not ((self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1).all()


def _lack(session: SqlSession, rows: str, keys: Sequence[tuple[_KeyFilter, Sequence[str]]]) -> bool:
    """Return whether a key of these rows is NULL or certainly not in its id map. Filters can miss absent keys.

    Args:
        session: The session that reads the rows.
        rows: A SELECT.
        keys: The filters, each with the columns of the keys to look up.
    """
    places = ", ".join(f"{known.place(key)} AS p{i}" for i, (known, key) in enumerate(keys))
    for batch in session.reader(f"SELECT {places} FROM ({rows})", rows=_BATCH):
        if any(known.lacks(column.to_numpy()) for (known, _), column in zip(keys, batch.columns, strict=True)):
            return True
    return False


def _key_filter(session: SqlSession, id_map: IdMap, db_dir: DatabaseDir) -> _KeyFilter:
    name = (str(db_dir.path), id_map.id)
    filter_ = _filters.pop(name, None)
    if filter_ is None or filter_.keys < id_map.limit:
        filter_ = _KeyFilter.empty(id_map)
    filter_.take(session, id_map, db_dir)
    _filters[name] = filter_
    while len(_filters) > _FILTERS:
        _filters.popitem(last=False)
    return filter_
