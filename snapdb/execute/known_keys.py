"""Which keys an id map has, as SQL that reads as little of the map as it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from snapdb.relational import Session, key_bounds, key_rows, quote
from snapdb.storage.home import Home
from snapdb.storage.ids import IdMap
from snapdb.types import Segment

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_MOST = 32
"""Ranges that a condition lists; more are joined."""

_REMEMBERED = 1 << 12
"""Files of which the bounds are kept."""

Range = tuple[int, int]

_bounds: dict[str, Range | None] = {}
"""Of files of keys. A file never changes, and no other gets its name."""


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Keys as ranges of integers that are there without a gap, and as queries for the others."""

    width: int
    """Columns of the key, which queries call k0, k1, …"""
    ranges: tuple[Range, ...]
    """Of single integers, from the first to the last."""
    others: tuple[str, ...]
    """Each SELECT k0, k1, …"""

    @staticmethod
    def of(home: Home, session: Session, id_map: IdMap, more: Sequence[tuple[str, Sequence[str]]] = ()) -> KnownKeys:
        """The keys of a map.

        Args:
            more: Queries of rows with keys beside it, and the columns of the key in each.
        """
        width = len(id_map.columns)
        ranges, joined = _ranges(session, id_map, home)
        others = []
        if joined:
            names = ", ".join(f"k{i}" for i in range(width))
            others.append(f"SELECT {names} FROM ({key_rows(joined, id_map.columns, home.path)})")
        known = KnownKeys(width, ranges, tuple(others))
        for rows, key in more:
            known = known.also(rows, key)
        return known

    @property
    def names(self) -> str:
        """The columns of a key in a query."""
        return ", ".join(f"k{i}" for i in range(self.width))

    def select(self, rows: str, key: Sequence[str]) -> str:
        """SELECT k0, k1, … of rows."""
        return f"SELECT {', '.join(f'{quote(name)} AS k{i}' for i, name in enumerate(key))} FROM ({rows})"

    def also(self, rows: str, key: Sequence[str]) -> KnownKeys:
        """These keys and those of more rows."""
        return replace(self, others=(*self.others, self.select(rows, key)))

    def present(self, keys: str) -> str:
        """SELECT those of the keys that are known."""
        parts = [f"SELECT * FROM ({keys}) WHERE {self.within()}"] if self.ranges else []
        parts += [f"SELECT * FROM ({keys}) SEMI JOIN ({self._others}) USING ({self.names})"] if self.others else []
        return " UNION ALL ".join(parts) or f"SELECT * FROM ({keys}) WHERE false"

    def missing(self, keys: str) -> str:
        """SELECT those of the keys that are not known, NULL among them."""
        found = f"SELECT * FROM ({keys})" + (f" WHERE ({self.within()}) IS NOT true" if self.ranges else "")
        if not self.others:
            return found
        # Few new keys against many known ones: a join that finds the few lets the scan of the many skip.
        there = f"SELECT fresh.* FROM ({self._others}) AS known JOIN fresh USING ({self.names})"
        return f"WITH fresh AS MATERIALIZED ({found}) SELECT * FROM fresh ANTI JOIN ({there}) USING ({self.names})"

    def within(self, key: str = "k0") -> str:
        """Whether a key is in one of the ranges, as SQL."""
        return " OR ".join(f"{key} BETWEEN {first} AND {last}" for first, last in self.ranges)

    @property
    def _others(self) -> str:
        return " UNION ALL ".join(self.others)


def _ranges(session: Session, id_map: IdMap, home: Home) -> tuple[tuple[Range, ...], tuple[Segment, ...]]:
    """The ranges of a map's integers, and its files that hold something else.

    Keys of a map are distinct: a file with as many rows as its bounds are apart holds every integer between them.
    """
    if len(id_map.columns) > 1 or not id_map.segments or id_map.columns[0].type not in _INTEGERS:
        return (), id_map.segments
    bounds = _bounds_of(session, id_map.segments, home)
    ranges: list[Range] = []
    joined = []
    for segment in id_map.segments:
        found = bounds[str(home.path / segment.path)]
        if found is not None and found[1] - found[0] + 1 == segment.rows:
            ranges.append(found)
        else:
            joined.append(segment)
    merged = _merged(ranges)
    return (merged, tuple(joined)) if len(merged) <= _MOST else ((), id_map.segments)


def _bounds_of(session: Session, segments: Sequence[Segment], home: Home) -> Mapping[str, Range | None]:
    """The least and the greatest key of each file, by its path; None where its footer does not have them."""
    paths = {str(home.path / segment.path): segment for segment in segments}
    if new := [segment for path, segment in paths.items() if path not in _bounds]:
        if len(_bounds) + len(new) > _REMEMBERED:
            _bounds.clear()
        rows = session.rows(key_bounds([*paths.values()], home.path))
        found = {path: (int(low), int(high)) for path, low, high in rows if low is not None and high is not None}
        _bounds.update({path: found.get(path) for path in paths})
    return {path: _bounds[path] for path in paths}


def _merged(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """The same integers in as few ranges as there can be.

    >>> _merged([(5, 9), (1, 4), (11, 12)])
    ((1, 9), (11, 12))
    """
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
