"""The topology of an edge type at a version, from an existing artifact, from a patched one, or built from the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Bools, Int64s
from snapdb.builders.context import BuildContext
from snapdb.builders.edges import DenseEdges, edge_rows
from snapdb.builders.graph_data import EdgeData, VertexData, check_edges, edges_at, fields, newest
from snapdb.catalog.elements import deleted_beyond, rows_beyond
from snapdb.errors import CorruptError
from snapdb.kernels.lookup import ending_in, find_edges, find_ids
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all
from snapdb.storage.arrays.patches import Patch, build_patch, read_patch, write_merged, write_patch
from snapdb.storage.arrays.topology import AdjacencyRows, EdgeArrays, build_rows, check_rows, read_rows
from snapdb.storage.artifacts import (
    ArtifactSpec,
    CachedArtifact,
    digest_of,
    find_artifact,
    find_or_build,
    nearest_artifact,
)
from snapdb.storage.manifests import read_manifest
from snapdb.types.text import counted

_MERGE_SHARE = 0.1
"""The share of the base's edges above which a patch is merged into a new base, because sampling through the patch
becomes too slow."""
REBUILD_SHARE = 0.25
"""The share of the base's edges above which sorting all edges again is as fast as patching."""


class Topology(NamedTuple):
    """The artifact for an edge type's edges at a version."""

    root: Path
    """The directory of the base."""
    patch: Path | None
    """The directory of the patch on the base, or None if there is no patch."""
    edges: int
    """The number of edges."""
    skipped: int
    """The number of dangling edges, which are skipped."""
    work: str
    """A description of how the topology was obtained, for the user."""
    written: int = 0
    """The number of bytes written for the topology."""


def topology(context: BuildContext, session: SqlSession, data: EdgeData, *, full: bool = False) -> Topology:
    """Return the adjacency of one edge type, with all of its edges at the version.

    Args:
        context: The context of the build.
        session: The session that reads the tables.
        data: The edge type.
        full: Whether to build the topology from the table even if it exists.

    Raises:
        DataError: An edge dangles, or has no time or weight. The message contains the number of such edges and three
            examples.
    """
    wanted = wanted_topology(data)
    if full:
        wanted = wanted.anew()
    elif artifact := find_artifact(context.store.catalog_db, wanted.digest):
        return _topology_of(artifact, "found")
    elif patched := _patched(context, session, data, wanted):
        return patched
    return _topology_of(_built(context, session, data, wanted), "built")


def wanted_topology(data: EdgeData) -> ArtifactSpec:
    """Return the artifact of an edge type's topology, which may not exist yet."""
    element, table = data.rows.element, data.rows.table
    timed = [element.event_time, element.event_end, element.weight]
    kept = [fields(table, timed), element.nulls_static]
    return ArtifactSpec(
        kind="topology",
        digest=digest_of("topology", 2, data.facts(state=True), kept),
        folder=f"topology/{table.id}",
        family=digest_of("topology", 2, data.facts(state=False), kept),
        version=newest(data, data.source, data.destination),
    )


def check_new(context: BuildContext, session: SqlSession, data: EdgeData) -> None:
    """Run the checks that building the topology would run, without building it.

    Raises:
        DataError: See `topology`.
    """
    wanted = wanted_topology(data)
    if find_artifact(context.store.catalog_db, wanted.digest):
        return
    base = nearest_artifact(context.store.catalog_db, wanted, whole=False)
    before = None if base is None else edges_at(context, data, base.version)
    rows: str | None = edge_rows(data)
    if before is not None and _only_edges_changed(session, before, data):
        rows = rows_beyond(session, data.rows.root, data.rows.table, before.rows.table)
    for _ in DenseEdges(session, data, rows) if rows is not None else ():
        context.check_stopped()


def _topology_of(artifact: CachedArtifact, work: str) -> Topology:
    """Return the topology in an artifact."""
    facts = artifact.facts
    written = 0 if work == "found" else sum(int(file["bytes"]) for file in facts["files"].values())
    root, patch = (artifact.path, None) if artifact.base is None else (artifact.base, artifact.path)
    return Topology(root, patch, facts["edges"], facts["skipped"], work, written)


def _built(context: BuildContext, session: SqlSession, data: EdgeData, wanted: ArtifactSpec) -> CachedArtifact:
    """Build the topology from all rows of the table."""
    what = f"building the topology of {data.rows.element.name}"

    def build(directory: Path) -> dict[str, Any]:
        context.report(what, None)
        edges = DenseEdges(session, data, edge_rows(data))
        facts = build_rows(
            edges,
            data.destination.id_map.limit,
            data.source.id_map.limit,
            data.rows.table.rows,
            data.rows.table.next_row,
            directory,
            report=lambda share: context.step(what, share),
        )
        return facts | {"skipped": edges.skipped}

    return find_or_build(context.store.catalog_db, wanted, build)


def _patched(context: BuildContext, session: SqlSession, data: EdgeData, wanted: ArtifactSpec) -> Topology | None:
    """Patch the nearest topology with the changes since its version. None if there is none, or too much has changed."""
    base = nearest_artifact(context.store.catalog_db, wanted, whole=False)
    before = None if base is None else edges_at(context, data, base.version)
    # A patch cannot be searched by vertex, so a patched topology can be patched again only if no vertex changed.
    # Otherwise, a complete topology is used.
    if (
        base is not None
        and base.base is not None
        and (before is None or not _only_edges_changed(session, before, data))
    ):
        base = nearest_artifact(context.store.catalog_db, wanted)
        before = None if base is None else edges_at(context, data, base.version)
    if base is None or before is None or rows_apart(before, data) > REBUILD_SHARE * base.facts["edges"]:
        return None
    context.report(f"finding the changes of {data.rows.element.name}", None)
    directory = base.base or base.path
    root = read_rows(directory)
    former = None if base.base is None else read_patch(base.path, root)
    limits = (data.source.id_map.limit, data.destination.id_map.limit)
    change = _edge_change(session, before, data, root, former, base.facts["skipped"], limits)
    last = (base.facts if base.base is None else read_manifest(directory)).get("last_time")
    patch = build_patch(root, former, change.removed, change.added, limits[1], limits[0], last_time=last)
    edges = base.facts["edges"] - change.removed.edge_id.size + change.added.edge_id.size
    facts = {"edges": edges, "skipped": change.skipped}
    wider = patch.rows.indices.dtype != root.indices.dtype
    if wider or patch.rows.indices.size > _MERGE_SHARE * root.indices.size:
        context.report(f"merging the topology of {data.rows.element.name}", None)
        merged = find_or_build(
            context.store.catalog_db, wanted, lambda d: write_merged(root, patch, limits[1], d) | facts
        )
        return _topology_of(merged, _work_text("merged", change))
    artifact = find_or_build(context.store.catalog_db, wanted, lambda d: write_patch(patch, d) | facts, directory)
    return _topology_of(artifact, _work_text("patched", change))


def _only_edges_changed(session: SqlSession, before: EdgeData, after: EdgeData) -> bool:
    """Return whether no vertex of the edge type changed.

    Only a complete topology can be searched for a vertex's edges.
    """
    if after.rows.element.on_dangling != "ERROR":
        return False
    ends = ((before.source, after.source), (before.destination, after.destination))
    return all(
        new.rows.element.on_duplicate == "ERROR"
        and rows_beyond(session, old.rows.root, old.rows.table, new.rows.table) is None
        for old, new in ends
    )


def rows_apart(one: EdgeData, other: EdgeData) -> int:
    """Return an upper bound, computed only from counts, on the number of rows that differ between two table states."""
    first, second = one.rows.table, other.rows.table
    # Row ids are never reused, so the growth of the next row id bounds the additions, and the growth of the number of
    # missing rows bounds the removals.
    grown = abs(first.next_row - second.next_row)
    return grown + abs((first.next_row - first.rows) - (second.next_row - second.rows))


def _work_text(done: str, change: _Change) -> str:
    """Return a description of how a topology was obtained."""
    return f"{done}: {change.added.edge_id.size:,} edges added, {change.removed.edge_id.size:,} removed"


# The edges added and removed between two versions. The cost is proportional to the change.


_ID = quote(ROW_ID)


class _Change(NamedTuple):
    """The difference between two topologies."""

    removed: EdgeArrays
    """The edges that are no longer in the topology."""
    added: EdgeArrays
    """The new edges."""
    skipped: int
    """The number of dangling edges at the later version, under ON DANGLING SKIP."""


def _edge_change(
    session: SqlSession,
    before: EdgeData,
    after: EdgeData,
    root: AdjacencyRows,
    patch: Patch[AdjacencyRows] | None,
    skipped: int,
    limits: tuple[int, int],
) -> _Change:
    """Return the change between the edges of `before`, which are in `root` and its patch, and those of `after`.

    Args:
        session: The session that reads the tables.
        before: The edge type at the earlier version.
        after: The edge type at the later version.
        root: The rows of the base.
        patch: The patch on the base, or None. If there is a patch, no vertex was removed and no edge dangled.
        skipped: The number of dangling edges in `before`.
        limits: The current numbers of dense ids for sources and destinations.

    Raises:
        CorruptError: An edge is missing from the patch or the base.
        DataError: An edge dangles, or has no time or weight.
    """
    removed, gone = _removed(session, before, after, root, patch)
    come = rows_beyond(session, after.rows.root, after.rows.table, before.rows.table)
    added, dangling = _edges(session, after, come)
    if patch is not None:
        return _Change(removed, added, 0)
    lost = [_moved(session, a, b) for a, b in ((before.source, after.source), (before.destination, after.destination))]
    won = [_moved(session, b, a) for a, b in ((before.source, after.source), (before.destination, after.destination))]
    # If a vertex's row was replaced by a row with the same key, the vertex is in both sets, so its edges remain.
    orphaned = _orphaned(root, removed, _only(lost, won), limits)
    if orphaned.edge_id.size and after.rows.element.on_dangling == "ERROR":
        check_edges(session, after, edge_rows(after))
    revived = _revived(session, before, after, root, added) if skipped else _none(after)
    left = skipped + dangling + orphaned.edge_id.size - revived.edge_id.size - (gone - removed.edge_id.size)
    return _Change(_joined(removed, orphaned), _joined(added, revived), max(left, 0))


def _removed(
    session: SqlSession, before: EdgeData, after: EdgeData, root: AdjacencyRows, patch: Patch[AdjacencyRows] | None
) -> tuple[EdgeArrays, int]:
    """Return the removed edges, read from the arrays that contain them, and the number of removed rows.

    The number includes rows of dangling edges. If rows were only deleted, one pass over the edge ids finds the edges.
    It reads much less data than the table's rows.
    """
    one, other = before.rows.table, after.rows.table
    if one.next_row > other.next_row:  # this is a refresh to an earlier version, so `before` is the later one
        rows = rows_beyond(session, before.rows.root, one, other)
        edges, _ = _edges(session, before, rows, gone=True)
        (count,) = session.rows(f"SELECT count(*) FROM ({rows})")[0] if rows and patch is None else (0,)
        return (_taken(edges, _positions(root, edges) >= 0) if patch is None else edges), int(count)
    ids = deleted_beyond(session, before.rows.root, one, other)
    edges = _at(root, find_ids(root.edge_id, ids))
    if patch is None:  # an edge that dangled before is not in the base
        return edges, ids.size
    missing = np.setdiff1d(ids, edges.edge_id)
    late = _at(patch.rows, find_ids(patch.rows.edge_id, missing), patch.nodes)
    if late.edge_id.size < missing.size:
        raise CorruptError(
            f"{counted(missing.size - late.edge_id.size, 'edge')} of {before.rows.element.name} must be removed "
            "from a topology that does not contain them; CHECK DATABASE lists the file",
            code="damaged-snapshot",
        )
    return _joined(edges, late), ids.size


def _at(rows: AdjacencyRows, positions: Int64s, nodes: Int64s | None = None) -> EdgeArrays:
    """Return the edges at the given positions in the rows of `nodes`, or of all nodes if `nodes` is None."""
    row = np.searchsorted(rows.indptr, positions, side="right") - 1
    return EdgeArrays(
        source=rows.indices[positions].astype(np.int64),
        destination=row if nodes is None else nodes[row],
        edge_id=rows.edge_id[positions].astype(np.int64),
        time=None if rows.time is None else rows.time[positions],
        weight=None if rows.weight is None else rows.weight[positions],
        until=None if rows.until is None else rows.until[positions],
    )


def _edges(session: SqlSession, data: EdgeData, rows: str | None, *, gone: bool = False) -> tuple[EdgeArrays, int]:
    """Return the edges with dense ends, and the number of dangling ones."""
    if rows is None:
        return _none(data), 0
    dense = DenseEdges(session, data, rows, gone=gone)
    return _arrays(dense.table()), dense.skipped


def _arrays(table: pa.Table) -> EdgeArrays:
    """Return the columns of dense edges."""
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
    """Return empty arrays with the columns of the edge type."""
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
    """Concatenate the edges of both arguments."""

    def both(name: str) -> Any:
        first, second = getattr(one, name), getattr(other, name)
        return None if first is None else np.concatenate([first, second])

    return EdgeArrays(**{name: both(name) for name in EdgeArrays.__slots__})


def _moved(session: SqlSession, one: VertexData, other: VertexData) -> Int64s:
    """Return the dense ids of the rows that are in `one` but not in `other`, even if their keys are in `other`."""
    if one.rows.table.state == other.rows.table.state:
        return np.empty(0, np.int64)
    if one.rows.element.on_duplicate != "ERROR":  # another row with the same key may have replaced it
        alive = [v.alive(session) for v in (one, other)]
        here, there = (
            np.ones(v.id_map.limit, np.bool_) if a is None else a for v, a in zip((one, other), alive, strict=True)
        )
        return np.flatnonzero(here & ~there)
    rows = rows_beyond(session, one.rows.root, one.rows.table, other.rows.table)
    if rows is None:
        return np.empty(0, np.int64)
    ids: Int64s = session.table(f"SELECT {_ID} AS id FROM ({one.numbered(_plain(one, rows))})")["id"].to_numpy()
    return np.unique(ids)


def _plain(data: VertexData, rows: str) -> str:
    """Return a SELECT of the key columns of rows."""
    return f"SELECT {quote_all(data.key)} FROM ({rows})"


def _only(ids: Sequence[Int64s], others: Sequence[Int64s]) -> list[Int64s]:
    """Return the ids that are only in the first set, separately for sources and destinations."""
    # Ids are distinct within each set, so numpy does not have to sort the sets to remove duplicates.
    return [np.setdiff1d(a, b, assume_unique=True) for a, b in zip(ids, others, strict=True)]


def _orphaned(root: AdjacencyRows, removed: EdgeArrays, lost: Sequence[Int64s], limits: tuple[int, int]) -> EdgeArrays:
    """Return the base's edges that have a removed vertex at either end, except the removed edges."""
    sources, destinations = lost
    if not sources.size and not destinations.size:
        positions = np.empty(0, np.int64)
    else:
        near, far = np.zeros(limits[1], np.bool_), np.zeros(limits[0], np.bool_)
        near[destinations], far[sources] = True, True
        check_rows(root.indptr[:-1], root.indptr[1:], root.indices, limits[0], "the topology")
        positions = ending_in(root.indptr, root.indices, near, far)
        positions = positions[~np.isin(root.edge_id[positions], removed.edge_id)]
    return _at(root, positions)


def _revived(
    session: SqlSession, before: EdgeData, after: EdgeData, root: AdjacencyRows, added: EdgeArrays
) -> EdgeArrays:
    """Return the edges that dangled until a vertex was added at one of their ends. Reads all edges."""
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
    revived, _ = _edges(session, after, f"SELECT * FROM ({edge_rows(after)}) e WHERE {' OR '.join(conditions)}")
    there = _positions(root, revived) >= 0
    return _taken(revived, ~there & ~np.isin(revived.edge_id, added.edge_id))


def _taken(edges: EdgeArrays, chosen: Bools) -> EdgeArrays:
    """Return the chosen edges."""

    def some(name: str) -> Any:
        values = getattr(edges, name)
        return None if values is None else values[chosen]

    return EdgeArrays(**{name: some(name) for name in EdgeArrays.__slots__})


def _positions(root: AdjacencyRows, edges: EdgeArrays) -> Int64s:
    """Return the [edges] positions of the edges in the base, or -1 for missing edges."""
    return find_edges(root.indptr, root.time, root.edge_id, edges.destination, edges.time, edges.edge_id)
