"""Estimates of a snapshot's elements before it is built: counts from SQL, and encodings chosen by cost."""

from collections.abc import Iterator
from typing import NamedTuple

from snapdb.builders.context import BuildContext
from snapdb.builders.files import edge_width, limits_of, restricted
from snapdb.builders.graph_data import EdgeData, GraphData, edges_at
from snapdb.builders.topologies import REBUILD_SHARE, rows_apart, wanted_topology
from snapdb.catalog.elements import rows_beyond
from snapdb.plan.snapshots import CreateSnapshotPlan, EdgeShape
from snapdb.sql_engine import SqlSession
from snapdb.storage.artifacts import find_artifact, nearest_artifact

_SORTED = 5_000_000
"""The approximate number of edges read and sorted per second."""
_PATCHED = 1_000_000
"""The approximate number of edges found and merged into a patch per second."""
_WRITTEN = 500_000_000
"""The approximate number of bytes written and synced per second."""


class Sketch(NamedTuple):
    """The estimate for one element of a snapshot that has not been built yet."""

    element: str
    """The name of the element."""
    kind: str
    """The kind of element: 'vertex' or 'edge'."""
    rows: int
    """The number of rows in the snapshot."""
    form: str | None
    """The encoding of an adjacency, or None for vertices."""
    bytes: int
    """The size in bytes of the element's own files, excluding shared ones."""
    reason: str
    """The reason for the encoding."""
    topology: str
    """The source of the edges: an existing topology, a patch, or a new one."""
    topology_bytes: int
    """The number of bytes that would be written for shared files."""
    seconds: float
    """The estimated time of the build."""


def sketched(
    context: BuildContext, session: SqlSession, plan: CreateSnapshotPlan, data: GraphData, full: bool
) -> list[Sketch]:
    """Return the estimates of all elements without writing anything."""
    return [*_vertices(session, plan, data), *_edges(context, session, plan, data, full)]


def _vertices(session: SqlSession, plan: CreateSnapshotPlan, data: GraphData) -> Iterator[Sketch]:
    """Yield the estimates of vertex types."""
    for name, vertex in restricted(plan, data).vertices.items():
        (rows,) = session.rows(f"SELECT count(*) FROM ({vertex.rows.sql})")[0]
        bytes_ = 0 if rows == vertex.id_map.limit else vertex.id_map.limit
        yield Sketch(name, "vertex", rows, None, bytes_, "", "", 0, bytes_ / _WRITTEN)


def _edges(
    context: BuildContext, session: SqlSession, plan: CreateSnapshotPlan, data: GraphData, full: bool
) -> Iterator[Sketch]:
    """Yield the estimates of edge types."""
    for name, edge in restricted(plan, data).edges.items():
        element, whole = edge.rows.element, data.edges[name]
        (rows,) = session.rows(f"SELECT count(*) FROM ({edge.rows.sql})")[0]
        where, shared, seconds, held, patched = _topology(context, session, whole, full)
        width = edge_width(whole)
        prefix = limits_of(plan, element).plain(edge)
        shape = EdgeShape(name, edge.destination.id_map.limit, rows, max(rows, held), width, prefix, patched)
        choice = shape.choose_encoding(plan.layout, cheapest=plan.cheapest)
        seconds += choice.bytes / _WRITTEN
        yield Sketch(name, "edge", rows, choice.form, choice.bytes, choice.reason, where, shared, seconds)


def _topology(
    context: BuildContext, session: SqlSession, data: EdgeData, full: bool
) -> tuple[str, int, float, int, bool]:
    """Return the source of the edges, the bytes to write, the seconds, the edge count, and whether a patch is used."""
    wanted = wanted_topology(data)
    artifact = None if full else find_artifact(context.store.catalog_db, wanted.digest)
    if artifact is not None:
        return "an existing topology", 0, 0.0, int(artifact.facts["edges"]), artifact.base is not None
    rows = data.rows.table.rows
    if data.rows.element.on_dangling == "SKIP":
        (rows,) = session.rows(f"SELECT count(*) FROM ({data.rows.whole.sql})")[0]
    base = None if full else nearest_artifact(context.store.catalog_db, wanted, whole=False)
    before = None if base is None else edges_at(context, data, base.version)
    if base is not None and before is not None and rows_apart(before, data) <= REBUILD_SHARE * base.facts["edges"]:
        parts = [
            rows_beyond(session, data.rows.root, one.rows.table, other.rows.table)
            for one, other in ((data, before), (before, data))
        ]
        come, gone = (0 if p is None else int(session.rows(f"SELECT count(*) FROM ({p})")[0][0]) for p in parts)
        patch = (come + gone) * edge_width(data)
        what = f"the topology of version {base.version} with a patch: {come:,} edges added, {gone:,} removed"
        return what, patch, (come + gone) / _PATCHED + patch / _WRITTEN, rows, True
    # The sizes of the files with the rows and `indptr`, without headers.
    whole = rows * edge_width(data) + 8 * (data.destination.id_map.limit + 1)
    return f"a new topology, sorted from {rows:,} edges", whole, rows / _SORTED + whole / _WRITTEN, rows, False
