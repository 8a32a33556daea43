"""What came and went among an edge type's edges between two versions, at a cost that follows from the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.catalog.differences import rows_beyond
from snapdb.execute.dense_edges import DenseEdges, edge_rows
from snapdb.execute.graph_data import EdgeData, VertexData, check_edges
from snapdb.kernels.lookup import ending_in, find_edges
from snapdb.relational import ROW_ID, Session, quote, quote_all
from snapdb.storage.topology import EdgeArrays, Rows, check_rows

__all__ = ["Change", "edge_change"]

Int64s = npt.NDArray[np.int64]
_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class Change:
    """The edges of a topology that are no longer there, and those that are new."""

    removed: EdgeArrays
    added: EdgeArrays
    skipped: int
    """Dangling edges at the later version, where the graph says SKIP."""


def edge_change(
    session: Session, before: EdgeData, after: EdgeData, root: Rows | None, skipped: int, limits: tuple[int, int]
) -> Change:
    """From the edges of `before`, which `root` holds, to those of `after`.

    Args:
        root: Not needed when no vertex went and none dangled.
        skipped: How many edges of `before` are dangling.
        limits: How many dense ids the sources and the destinations have now.

    Raises:
        DataError: an edge dangles, or has no time or weight.
    """
    home = after.rows.root
    gone = rows_beyond(session, home, before.rows.table, after.rows.table)
    come = rows_beyond(session, home, after.rows.table, before.rows.table)
    removed, _ = _edges(session, before, gone, gone=True)
    added, dangling = _edges(session, after, come)
    if root is None:
        return Change(removed, added, 0)
    removed = _taken(removed, _positions(root, removed) >= 0)  # one that dangled is not in the root
    lost = [_moved(session, a, b) for a, b in ((before.source, after.source), (before.destination, after.destination))]
    won = [_moved(session, b, a) for a, b in ((before.source, after.source), (before.destination, after.destination))]
    orphaned = _orphaned(root, removed, _only(lost, won), limits)
    if orphaned.edge_id.size and after.rows.element.on_dangling == "ERROR":
        check_edges(session, after, edge_rows(after))
    revived = _revived(session, before, after, root, added) if skipped else _none(after)
    left = skipped + dangling + orphaned.edge_id.size - revived.edge_id.size - _dangled(removed, session, gone)
    return Change(_joined(removed, orphaned), _joined(added, revived), max(left, 0))


def _edges(session: Session, data: EdgeData, rows: str | None, *, gone: bool = False) -> tuple[EdgeArrays, int]:
    """Rows with dense ends, and how many dangle."""
    if rows is None:
        return _none(data), 0
    found = DenseEdges(session, data, rows, gone=gone)
    return _arrays(found.table()), found.skipped


def _arrays(table: pa.Table) -> EdgeArrays:
    """The columns of dense edges."""
    arrays = {name: table[name].to_numpy() for name in table.column_names}
    return EdgeArrays(
        source=arrays["source"],
        destination=arrays["destination"],
        edge_id=arrays["e_id"],
        time=arrays.get("time"),
        weight=arrays.get("weight"),
        until=arrays.get("until"),
    )


def _none(data: EdgeData) -> EdgeArrays:
    nothing = np.empty(0, np.int64)
    return EdgeArrays(
        source=nothing,
        destination=nothing,
        edge_id=nothing,
        time=None if data.rows.time is None else nothing,
        weight=None if data.rows.element.weight is None else np.empty(0, np.float64),
        until=None if data.rows.end is None else nothing,
    )


def _joined(one: EdgeArrays, other: EdgeArrays) -> EdgeArrays:
    def both(name: str) -> Any:
        first, second = getattr(one, name), getattr(other, name)
        return None if first is None else np.concatenate([first, second])

    return EdgeArrays(**{name: both(name) for name in EdgeArrays.__slots__})


def _moved(session: Session, one: VertexData, other: VertexData) -> Int64s:
    """Dense ids of the rows that `one` has and `other` has not; whether their keys are in others is not looked at."""
    if one.rows.table.state == other.rows.table.state:
        return np.empty(0, np.int64)
    if one.rows.element.on_duplicate != "ERROR":  # another row of the key may have taken its place
        alive = [v.alive(session) for v in (one, other)]
        here, there = (
            np.ones(v.id_map.limit, np.bool_) if a is None else a for v, a in zip((one, other), alive, strict=True)
        )
        return np.flatnonzero(here & ~there)
    rows = rows_beyond(session, one.rows.root, one.rows.table, other.rows.table)
    if rows is None:
        return np.empty(0, np.int64)
    found: Int64s = session.table(f"SELECT {_ID} AS id FROM ({one.numbered(_plain(one, rows))})")["id"].to_numpy()
    return np.unique(found)


def _plain(data: VertexData, rows: str) -> str:
    return f"SELECT {quote_all(data.key)} FROM ({rows})"


def _only(ids: Sequence[Int64s], others: Sequence[Int64s]) -> list[Int64s]:
    return [np.setdiff1d(a, b, assume_unique=True) for a, b in zip(ids, others, strict=True)]


def _orphaned(root: Rows, removed: EdgeArrays, lost: Sequence[Int64s], limits: tuple[int, int]) -> EdgeArrays:
    """The edges of the root that end in a vertex which is no longer there, but those removed themselves."""
    sources, destinations = lost
    if not sources.size and not destinations.size:
        positions = np.empty(0, np.int64)
    else:
        near, far = np.zeros(limits[1], np.bool_), np.zeros(limits[0], np.bool_)
        near[destinations], far[sources] = True, True
        check_rows(root.indptr[:-1], root.indptr[1:], root.indices, limits[0], "the topology")
        positions = ending_in(root.indptr, root.indices, near, far)
        positions = positions[~np.isin(root.edge_id[positions], removed.edge_id)]
    return EdgeArrays(
        source=root.indices[positions].astype(np.int64),
        destination=np.searchsorted(root.indptr, positions, side="right") - 1,
        edge_id=root.edge_id[positions].astype(np.int64),
        time=None if root.time is None else root.time[positions],
        weight=None if root.weight is None else root.weight[positions],
        until=None if root.until is None else root.until[positions],
    )


def _revived(session: Session, before: EdgeData, after: EdgeData, root: Rows, added: EdgeArrays) -> EdgeArrays:
    """Edges that dangled and no longer do, for a vertex came that they end in; it takes a look at every edge."""
    element = after.rows.element
    conditions = []
    for key, old, new in (
        (element.source_key, before.source, after.source),
        (element.destination_key, before.destination, after.destination),
    ):
        rows = rows_beyond(session, new.rows.root, new.rows.table, old.rows.table)
        if rows is not None:
            ends = ", ".join(f"e.{quote(name)}" for name in key)
            conditions.append(f"({ends}) IN (SELECT ({quote_all(new.key)}) FROM ({rows}))")
    if not conditions:
        return _none(after)
    found, _ = _edges(session, after, f"SELECT * FROM ({edge_rows(after)}) e WHERE {' OR '.join(conditions)}")
    there = _positions(root, found) >= 0
    return _taken(found, ~there & ~np.isin(found.edge_id, added.edge_id))


def _taken(edges: EdgeArrays, chosen: npt.NDArray[np.bool_]) -> EdgeArrays:
    def some(name: str) -> Any:
        values = getattr(edges, name)
        return None if values is None else values[chosen]

    return EdgeArrays(**{name: some(name) for name in EdgeArrays.__slots__})


def _positions(root: Rows, edges: EdgeArrays) -> Int64s:
    """[edges] where each is in the root; -1 for one that is not."""
    return find_edges(root.indptr, root.time, root.edge_id, edges.destination, edges.time, edges.edge_id)


def _dangled(removed: EdgeArrays, session: Session, gone: str | None) -> int:
    """How many of the edges that went dangled before."""
    if gone is None:
        return 0
    (rows,) = session.rows(f"SELECT count(*) FROM ({gone})")[0]
    return int(rows) - removed.edge_id.size
