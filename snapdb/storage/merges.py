"""Which small files are worth merging into one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Literal, NamedTuple

MANY = 64
"""Small files of a kind that a table may have before some are merged by themselves."""
_TIER = 1 << 12
"""Bytes up to which a file is of the lowest tier; the bound of each further tier is `_FAN` times higher."""
_FAN = 8
"""Adjacent files of a tier that become one: fewer than that stay of each."""

_SMALL = 32 << 20
"""Only files below so many bytes are merged."""
_LARGEST = 256 << 20
"""So many bytes of them at most."""


class Member(NamedTuple):
    """A file as the catalog names it."""

    path: str
    rows: int
    bytes: int
    sha256: str
    first: int
    added: int
    """0 for ids, which belong to no version."""
    shape: int
    """0 for ids."""


class Merge(NamedTuple):
    """Files of one owner that can become one without changing what any version reads."""

    kind: Literal["rows", "deletes", "ids"]
    owner: int
    """The table, or for ids the id map."""
    table: int
    name: str
    """The table's, for messages."""
    members: tuple[Member, ...]

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return f"{'ids' if self.kind == 'ids' else 'tables'}/{self.table}"

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)


def runs(members: Iterable[Member], follows: Callable[[Member, Member], bool]) -> Iterator[tuple[Member, ...]]:
    """Two or more small members, each of which follows the one before, up to the largest sum.

    >>> small = [Member(name, 1, 1 << 20, "", first, 1, 1) for first, name in enumerate("abc")]
    >>> big = Member("x", 1, 64 << 20, "", 3, 1, 1)
    >>> ["".join(m.path for m in run) for run in runs([*small, big, *small], lambda a, b: True)]
    ['abc', 'abc']
    """
    run: list[Member] = []
    for member in members:
        small = member.bytes < _SMALL
        fits = bool(run) and follows(run[-1], member) and sum(m.bytes for m in run) + member.bytes <= _LARGEST
        if not (small and fits):
            yield from _worth(run)
            run = []
        if small:
            run.append(member)
    yield from _worth(run)


def tiers(run: Sequence[Member]) -> list[tuple[Member, ...]]:
    """Which adjacent members of a run to merge (tiered compaction): of each tier of sizes fewer than 8 stay together.

    A row is so written anew about once per tier: O(n log n) in all. Only where sizes alternate so that too many files
    would stay, large ones are merged with the small ones between them.

    >>> small = [Member(f"{i}", 1, 600, "", i, 1, 1) for i in range(9)]
    >>> large = [Member("x", 1, 20_000, "", 9, 1, 1), Member("y", 1, 30_000, "", 10, 1, 1)]
    >>> [len(merge) for merge in tiers([*large, *small])], tiers([*large, *small[:7]])
    ([9], [])
    """
    groups = _grouped(run, strict=True)
    if len(groups) > MANY:
        groups = _grouped(run, strict=False)
    return [group for group in groups if len(group) > 1]


def _grouped(run: Sequence[Member], *, strict: bool) -> list[tuple[Member, ...]]:
    """All members, with those together that become one.

    Args:
        strict: Only files of the same tier count for whether there are many.
    """
    groups: list[tuple[Member, ...]] = [(member,) for member in run]
    largest, least, top = max((member.bytes for member in run), default=0), 0, _TIER
    while least < largest:
        groups = [group for part in _parts(groups, least if strict else 0, top) for group in part]
        least, top = top, top * _FAN
    return groups


def _parts(groups: Sequence[tuple[Member, ...]], least: int, top: int) -> Iterator[list[tuple[Member, ...]]]:
    """Stretches of groups of at most `top` bytes, each one group where many are above `least`, and of larger groups."""
    for low, some in groupby(groups, key=lambda group: _bytes(group) <= top):
        part = list(some)
        many = low and sum(_bytes(group) > least for group in part) >= _FAN
        yield [tuple(chain.from_iterable(part))] if many else part


def _bytes(group: Iterable[Member]) -> int:
    return sum(member.bytes for member in group)


def find_tiers(connection: sqlite3.Connection, table: int) -> list[Merge]:
    """What is to be merged in a table with too many small files, as far as it is worth it; nothing in another one."""
    counts = connection.execute(
        "SELECT max(n) FROM (SELECT count(*) n FROM segments WHERE table_id = ? AND bytes < ? GROUP BY kind)",
        (table, _SMALL),
    ).fetchone()
    if (counts[0] or 0) <= MANY:
        return []
    (name,) = connection.execute("SELECT name FROM tables WHERE id = ?", (table,)).fetchone()
    merges = [merge for merge in _of_table(connection, table, name) if merge.kind != "ids"]
    return [merge._replace(members=part) for merge in merges for part in tiers(merge.members)]


def find_merges(connection: sqlite3.Connection, table: int | None = None) -> list[Merge]:
    """What can be merged in a table that is there; None: in all of them."""
    found: list[Merge] = []
    for row in connection.execute(
        "SELECT id, name FROM tables WHERE dropped IS NULL AND ifnull(id = ?, true) ORDER BY id", (table,)
    ).fetchall():
        found += _of_table(connection, row["id"], row["name"])
    return found


def _of_table(connection: sqlite3.Connection, table: int, name: str) -> Iterator[Merge]:
    named = "SELECT path, rows, bytes, sha256, first"
    # The empty file that an empty table begins with stays: it is all that the table's first version reads.
    rows = f"{named}, added, shape FROM segments WHERE table_id = ? AND kind = 'rows' AND first + rows > 0"
    deletes = f"{named}, added, shape FROM segments WHERE table_id = ? AND kind = 'deletes' ORDER BY added, id"
    ids = f"{named}, 0, 0 FROM id_segments WHERE map_id = ? ORDER BY first"
    for run in runs(_members(connection, f"{rows} ORDER BY first, id", table), _continues):
        yield Merge("rows", table, table, name, run)
    for run in runs(_members(connection, deletes, table), lambda before, after: True):
        yield Merge("deletes", table, table, name, run)
    for (map_id,) in connection.execute("SELECT id FROM id_maps WHERE table_id = ? ORDER BY id", (table,)).fetchall():
        for run in runs(_members(connection, ids, map_id), _continues):
            yield Merge("ids", map_id, table, name, run)


def _continues(before: Member, after: Member) -> bool:
    return before.first + before.rows == after.first and before.shape == after.shape


def _members(connection: sqlite3.Connection, query: str, owner: int) -> list[Member]:
    return [Member(*row) for row in connection.execute(query, (owner,))]


def _worth(run: list[Member]) -> list[tuple[Member, ...]]:
    return [tuple(run)] if len(run) > 1 else []
