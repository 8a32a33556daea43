"""Graphs, snapshots, samplers and caches as names in the catalog: none ever goes from under what uses it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import NamedTuple, TypeVar

from snapdb.errors import CommitConflict
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.storage.catalog_db.pending_deletes import release
from snapdb.storage.changes import DropNames
from snapdb.types import Cache, PropertyGraph, Sampler, Snapshot

T = TypeVar("T", Cache, Sampler)


class _Kind(NamedTuple):
    """A kind of thing that is a row under its name, and of something else by that one's name."""

    word: str
    moved: str
    """The code of a lost race about one."""
    of: str
    """The kind of what it is of, which is the column and field that names that one too."""
    of_moved: str


_KINDS: dict[type, _Kind] = {
    Sampler: _Kind("sampler", "sampler-moved", "snapshot", "snapshot-moved"),
    Cache: _Kind("cache", "cache-moved", "sampler", "sampler-moved"),
}


def put_name(connection: sqlite3.Connection, thing: T, before: T | None) -> T:
    """The sampler or cache with the id that its row got, inside a transaction; `before` is the one that it replaces.

    Raises:
        CommitConflict: that is no longer as it was found, what it is of is gone, or another got the name meanwhile.
    """
    kind = _KINDS[type(thing)]
    if before is not None:
        _remove(connection, before)
    owner: str = getattr(thing, kind.of)
    if not connection.execute(f"SELECT 1 FROM {kind.of}s WHERE folded = ?", (owner.lower(),)).fetchone():
        raise CommitConflict(f"{kind.of} {owner} was dropped meanwhile; nothing was changed", code=kind.of_moved)
    row = (thing.name, thing.name.lower(), owner.lower())
    sql = f"INSERT INTO {kind.word}s (name, folded, {kind.of}, definition) VALUES (?, ?, ?, '') ON CONFLICT DO NOTHING"
    added = connection.execute(sql, row)
    if not added.rowcount or added.lastrowid is None:
        raise _moved(thing, "created")
    put = replace(thing, id=added.lastrowid)
    connection.execute(f"UPDATE {kind.word}s SET definition = ? WHERE id = ?", (encode(put), put.id))
    return put


def _remove(connection: sqlite3.Connection, thing: Cache | Sampler) -> None:
    if not connection.execute(f"DELETE FROM {_KINDS[type(thing)].word}s WHERE id = ?", (thing.id,)).rowcount:
        raise _moved(thing, "replaced or dropped")


def _moved(thing: Cache | Sampler, what: str) -> CommitConflict:
    kind = _KINDS[type(thing)]
    return CommitConflict(
        f"{kind.word} {thing.name} moved: it was {what} meanwhile; run the statement again", code=kind.moved
    )


def drop_names(connection: sqlite3.Connection, change: DropNames) -> None:
    """Delete the rows of graphs, snapshots, samplers and caches, inside a transaction.

    Raises:
        CommitConflict: one is no longer as it was found, or what depends on one of them was made meanwhile.
    """
    for cache in change.caches:
        _remove(connection, cache)
    for sampler in change.samplers:
        _remove(connection, sampler)
        _check_free(connection, sampler, Cache)
    for snapshot in change.snapshots:
        found = connection.execute("DELETE FROM snapshots WHERE id = ? AND path = ?", (snapshot.id, snapshot.path))
        if not found.rowcount:
            raise CommitConflict(
                f"{snapshot.name} moved: it was refreshed, replaced or dropped meanwhile; run the statement again",
                code="snapshot-moved",
            )
        _check_free(connection, snapshot, Sampler)
    release(connection, [snapshot.path for snapshot in change.snapshots])
    for graph in change.graphs:
        if not connection.execute("DELETE FROM graphs WHERE folded = ?", (graph.lower(),)).rowcount:
            raise CommitConflict(
                f"{graph} moved: it was dropped meanwhile; run the statement again", code="graph-moved"
            )
    gone = {graph.lower() for graph in change.graphs}
    for row in connection.execute("SELECT definition FROM snapshots").fetchall() if gone else ():
        snapshot = decode(Snapshot, row["definition"])
        if snapshot.graph.name.lower() in gone:
            raise CommitConflict(
                f"{snapshot.graph.name} moved: snapshot {snapshot.name} of it was made meanwhile; "
                "run the statement again",
                code="graph-moved",
            )


def _check_free(connection: sqlite3.Connection, gone: Snapshot | Sampler, of: type) -> None:
    """Nothing unless there is a sampler or cache of what is gone."""
    kind = _KINDS[of]
    query = f"SELECT name FROM {kind.word}s WHERE {kind.of} = ?"
    if (used := connection.execute(query, (gone.name.lower(),)).fetchone()) is not None:
        raise CommitConflict(
            f"{gone.name} moved: {kind.word} {used['name']} of it was made meanwhile; run the statement again",
            code=kind.of_moved,
        )


def check_unused(connection: sqlite3.Connection, table: str) -> None:
    """Nothing unless a graph uses the table.

    Raises:
        CommitConflict: one does, which can only have been made meanwhile.
    """
    for row in connection.execute("SELECT definition FROM graphs").fetchall():
        graph = decode(PropertyGraph, row["definition"])
        if table.lower() in _tables(graph):
            raise CommitConflict(
                f"{table} moved: graph {graph.name} began to use it meanwhile; run the statement again",
                code="graph-moved",
            )


def _tables(graph: PropertyGraph) -> set[str]:
    """The tables that a graph stands on, case-folded."""
    histories = [spec.history for element in graph.elements for spec in element.features]
    named = [*(element.table for element in graph.elements), *(h.table for h in histories if h is not None)]
    return {name.lower() for name in named}
