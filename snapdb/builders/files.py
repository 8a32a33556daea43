"""The files of a snapshot: its selected vertices and edges, with edges in the cheapest encoding."""

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Bools, Int64s
from snapdb.builders.context import BuildContext
from snapdb.builders.features import Features, edge_features, histories, vertex_features
from snapdb.builders.graph_data import EdgeData, GraphData, VertexData, graph_data
from snapdb.builders.topologies import Topology, topology
from snapdb.errors import BindError
from snapdb.graph.adjacency import open_topology
from snapdb.graph.layout import EdgeLayout, SnapshotLayout, VertexLayout
from snapdb.graph.view import Adjacency
from snapdb.kernels.adjacency.forms import live_arrays, plain_array
from snapdb.kernels.adjacency.rows import degrees_of, logical_parts, neighbors_of, prefix_degrees
from snapdb.kernels.adjacency.selection import STATIC, EdgeSelection, full_bitmap, select_edges
from snapdb.plan.snapshots import CreateSnapshotPlan, EdgeShape, Encoding
from snapdb.sql_engine import SqlSession
from snapdb.storage.array_files import ArrayFile
from snapdb.storage.arrays.feature_history import check_history
from snapdb.storage.disk import fresh_name
from snapdb.storage.manifests import directory_bytes, publishing
from snapdb.types import EdgeElement, Filter, Window


class SnapshotFiles(NamedTuple):
    """A snapshot directory that no catalog row references yet."""

    path: Path
    """The path of the directory."""
    layout: SnapshotLayout
    """The layout in the manifest."""
    bytes: int
    """The total size of its files in bytes."""
    works: Mapping[str, str]
    """Edge type → a description of how its topology was obtained."""
    shared: Mapping[str, int]
    """Edge type → the number of bytes written for its topology."""
    skipped: Mapping[str, int]
    """Edge type → the number of dangling edges that were skipped."""


def build_files(context: BuildContext, plan: CreateSnapshotPlan, *, full: bool = False) -> SnapshotFiles:
    """Write the artifacts that a snapshot shares with other snapshots, then its own directory.

    Args:
        context: The context of the build.
        plan: The bound CREATE or REFRESH SNAPSHOT statement.
        full: Whether to build shared artifacts from the tables even if they exist.
    """
    final = context.store.db_dir.path / "snapshots" / fresh_name()
    with context.store.sql_engine.session() as session:
        data = graph_data(context, session, plan.graph, plan.tables)
        chosen = restricted(plan, data)
        features = {name: vertex_features(context, session, v, full=full) for name, v in data.vertices.items()}
        paths = {name: histories(context, session, v, plan.tables) for name, v in data.vertices.items()}
        topologies = {name: topology(context, session, edge, full=full) for name, edge in data.edges.items()}
        facts: dict[str, object] = {"kind": "snapshot"}
        with publishing(context.store.disk, final, facts) as staging:
            alive = {name: vertex.alive(session) for name, vertex in chosen.vertices.items()}
            vertices = []
            for i, (name, vertex) in enumerate(chosen.vertices.items()):
                _check_histories(session, plan, vertex, alive[name], paths[name])
                if (mask := alive[name]) is not None:
                    # Dense ids cover all versions of a table, so the snapshot marks the ids of its own vertices.
                    np.save(staging / f"alive-{i}.npy", mask)
                vertices.append(_vertices(context, vertex, mask, features[name], paths[name]))
            edges = [
                _edges(context, session, plan, edge, alive, topologies[name], staging, i, full)
                for i, (name, edge) in enumerate(chosen.edges.items())
            ]
            layout = SnapshotLayout(tuple(vertices), tuple(edges))
            facts["layout"] = dataclasses.asdict(layout)
    works = {name: each.work for name, each in topologies.items()}
    skipped = {n: t.skipped for n, t in topologies.items() if data.edges[n].rows.element.on_dangling == "SKIP"}
    shared = {name: each.written for name, each in topologies.items()}
    return SnapshotFiles(final, layout, directory_bytes(final), works, shared, skipped)


def _check_histories(
    session: SqlSession, plan: CreateSnapshotPlan, vertices: VertexData, alive: Bools | None, paths: Mapping[str, Path]
) -> None:
    """Raise DataError if a feature with a history has no value yet for one of the snapshot's vertices."""
    element = vertices.rows.element

    def keys(ids: Int64s) -> list[object]:
        rows = session.rows(f"SELECT * EXCLUDE (dense) FROM ({vertices.known}) WHERE dense IN ({_listed(ids)})")
        return [row[0] if len(row) == 1 else row for row in rows]

    for spec in element.features:
        if spec.history is not None and spec.default is None:
            check_history(paths[spec.name], alive, plan.window.stop, element.name, spec.name, keys)


def _listed(ids: Int64s) -> str:
    """Return ids as an SQL list."""
    return ", ".join(map(str, ids.tolist()))


def _vertices(
    context: BuildContext, data: VertexData, alive: Bools | None, features: Features, paths: Mapping[str, Path]
) -> VertexLayout:
    """Return a vertex type's layout, with its dense ids in the snapshot and their features."""
    element = data.rows.element
    return VertexLayout(
        name=element.name,
        count=data.id_map.limit,
        nodes=data.id_map.limit if alive is None else int(alive.sum()),
        map_id=data.id_map.id,
        key=element.key,
        features=_relative(context, features.base),
        feature_names=tuple(f.name for f in element.features if f.history is None),
        target=element.target is not None,
        patch=_relative(context, features.patch),
        history=tuple(str(path.relative_to(context.store.db_dir.path)) for path in paths.values()),
        history_names=tuple(paths),
    )


def _edges(
    context: BuildContext,
    session: SqlSession,
    plan: CreateSnapshotPlan,
    data: EdgeData,
    alive: Mapping[str, Bools | None],
    topology: Topology,
    staging: Path,
    index: int,
    full: bool,
) -> EdgeLayout:
    """Write an edge type in its chosen encoding, and return its layout."""
    element = data.rows.element
    adjacency = open_topology(topology.root, topology.patch, data.destination.id_map.limit)
    limits = limits_of(plan, element, adjacency)
    selection = _selection(session, limits, data, adjacency, alive)
    kept = topology.edges if selection is None else selection.edges
    prefix = selection is None or selection.prefix
    patched = topology.patch is not None
    shape = EdgeShape(
        element.name, data.destination.id_map.limit, kept, topology.edges, edge_width(data), prefix, patched
    )
    choice = _choice(plan, shape)
    _write_form(choice, adjacency, selection, staging, index)
    features = edge_features(context, session, data, full=full)
    return EdgeLayout(
        name=element.name,
        form=choice.form,
        edges=kept,
        topology=str(topology.root.relative_to(context.store.db_dir.path)),
        features=None if features is None else _relative(context, features.base),
        feature_names=tuple(f.name for f in element.features),
        patch=_relative(context, topology.patch),
        feature_patch=None if features is None else _relative(context, features.patch),
        reason=choice.reason,
        bytes=choice.bytes,
        before=limits.window.stop if choice.form == "ends" and limits.plain(data) else None,
    )


def _choice(plan: CreateSnapshotPlan, shape: EdgeShape) -> Encoding:
    """Return the encoding of an edge type. Errors during REFRESH include the statement that would change it."""
    try:
        return shape.choose_encoding(plan.layout, cheapest=plan.cheapest)
    except BindError as error:
        if plan.refreshes:
            unfit = f"snapshot {plan.name} was created WITH (layout = '{plan.layout}'), which is no longer possible"
            error.message = f"{unfit}: {error.message}, in CREATE OR REPLACE SNAPSHOT {plan.name} …"
        raise


def _write_form(
    choice: Encoding, adjacency: Adjacency, selection: EdgeSelection | None, staging: Path, index: int
) -> None:
    """Write the files of an encoding."""
    if choice.form == "full":
        return
    rows = adjacency.rows
    if selection is not None and selection.prefix:
        rows = rows._replace(degrees=plain_array(selection.degrees, np.uint32))
    elif selection is not None:
        rows = rows._replace(live=live_arrays(selection.words))
    if choice.form == "ends":
        degrees = degrees_of(rows).astype(np.uint32) if selection is None else selection.degrees
        np.save(staging / f"ends-{index}.npy", degrees)
    elif choice.form == "bitmap":
        np.save(staging / f"live-{index}.npy", full_bitmap(rows))
    else:
        _write_rows(dataclasses.replace(adjacency, rows=rows), staging, f"rows-{index}-")


def _write_rows(adjacency: Adjacency, staging: Path, prefix: str) -> None:
    """Write the rows of a materialized encoding in parts, so they do not have to fit into memory."""
    named = {name: getattr(adjacency, name) for name in ("edge_id", "time", "until", "weight")}
    columns = {name: column for name, column in named.items() if column is not None}
    edges = adjacency.edges
    with ExitStack() as stack:

        def file(name: str, dtype: npt.DTypeLike, length: int) -> ArrayFile:
            return stack.enter_context(ArrayFile(staging / f"{prefix}{name}.npy", dtype, length))

        indptr = file("indptr", np.int64, adjacency.rows.nodes + 1)
        indptr.append(np.zeros(1, np.int64))
        files = {name: file(name, column.dtype, edges) for name, column in columns.items()}
        indices = file("indices", adjacency.rows.indices.dtype, edges)
        for part in logical_parts(adjacency.rows):
            indptr.append(part.indptr[1:])
            indices.append(neighbors_of(adjacency.rows, part.positions))
            for name, column in columns.items():
                files[name].append(column.read(part.positions))


def _relative(context: BuildContext, directory: Path | None) -> str | None:
    """Return a path relative to the database directory, which is how layouts store it."""
    return None if directory is None else str(directory.relative_to(context.store.db_dir.path))


# Selection of vertices and edges. It uses the times in the arrays if these suffice, and otherwise reads the tables.


class _Limits(NamedTuple):
    """The conditions that exclude edges of a type, except conditions on their ends."""

    window: Window
    """The snapshot's window, narrowed by the filters on times."""
    filters: tuple[Filter, ...]
    """The other filters."""

    def plain(self, data: EdgeData) -> bool:
        """Return whether the end of the window is the only condition that excludes edges."""
        ends = (data.source.rows, data.destination.rows)
        chosen = bool(self.filters) or any(rows.selective for rows in ends)
        return self.window.start is None and data.rows.element.event_end is None and not chosen


def limits_of(plan: CreateSnapshotPlan, element: EdgeElement, adjacency: Adjacency | None = None) -> _Limits:
    """Return the conditions that exclude edges of a type. `adjacency` supplies the times for filters that use times."""
    window, filters, pushed = plan.window, plan.filters_of(element.name), plan.bounds_of(element.name)
    # A filter treats the integer that marks a static edge like any other time, so filters must not narrow the window if
    # there are static edges.
    if not pushed.filters or (pushed.start is not None and adjacency is not None and _may_be_static(adjacency)):
        return _Limits(window, filters)
    starts = [moment for moment in (window.start, pushed.start) if moment is not None]
    stops = [moment for moment in (window.stop, pushed.stop) if moment is not None]
    narrowed = Window(max(starts, default=None), min(stops, default=None))
    return _Limits(narrowed, tuple(f for f in filters if f not in pushed.filters))


def _selection(
    session: SqlSession, limits: _Limits, data: EdgeData, adjacency: Adjacency, alive: Mapping[str, Bools | None]
) -> EdgeSelection | None:
    """Return the topology's edges that pass the window and the filters, as in SQL, or None for all edges."""
    element, window = data.rows.element, limits.window
    timed = element.event_time is not None and (window.start is not None or window.stop is not None)
    ends = (data.destination, data.source)
    near, far = (alive[e.rows.element.name] if e.rows.selective else None for e in ends)
    kept = _passing(session, data, limits.filters) if limits.filters else None
    if near is None and far is None and kept is None:
        if not timed:
            return None
        # Only the end of the window matters, so a binary search in each time-sorted row replaces a pass over all edges.
        if window.start is None and adjacency.until is None:
            assert adjacency.time is not None
            assert window.stop is not None
            degrees = prefix_degrees(adjacency.rows, adjacency.time, window.stop)
            return EdgeSelection(np.empty(0, np.uint64), degrees, int(degrees.sum(dtype=np.int64)), True)
    return select_edges(
        adjacency.rows,
        time=adjacency.time if timed else None,
        until=adjacency.until if timed else None,
        edge_id=adjacency.edge_id,
        start=window.start,
        stop=window.stop,
        until_after=window.until_after,
        row_node_alive=near,
        neighbor_alive=far,
        selected_ids=kept,
    )


def _may_be_static(adjacency: Adjacency) -> bool:
    """Return whether there may be edges without a time."""
    return any(part is not None and bool((part == STATIC).any()) for part in adjacency.time or ())


def _passing(session: SqlSession, data: EdgeData, filters: tuple[Filter, ...]) -> Bools:
    """Return, as [edge ids] bool, whether each edge passes the filters of its type."""
    whole = data.rows.whole
    # The topology already excludes dangling edges.
    element = dataclasses.replace(whole.element, on_dangling="ERROR")
    rows = dataclasses.replace(whole, filters=filters, element=element)
    passing = np.zeros(data.rows.table.next_row, np.bool_)
    for batch in session.reader(f"SELECT e_id FROM ({rows.sql})"):
        passing[batch.column(0).to_numpy()] = True
    return passing


def restricted(plan: CreateSnapshotPlan, data: GraphData) -> GraphData:
    """Return the elements, with the snapshot's window and filters applied."""
    vertices = {
        name: vertex._replace(rows=replace(vertex.rows, window=plan.window, filters=_filters(plan, name)))
        for name, vertex in data.vertices.items()
    }
    edges = {}
    for name, edge in data.edges.items():
        source, destination = vertices[edge.rows.element.source], vertices[edge.rows.element.destination]
        rows = replace(
            edge.rows,
            window=plan.window,
            filters=_filters(plan, name),
            source=source.rows,
            destination=destination.rows,
        )
        edges[name] = EdgeData(rows, source, destination)
    return GraphData(vertices, edges)


def _filters(plan: CreateSnapshotPlan, element: str) -> tuple[Filter, ...]:
    """Return the filters of an element."""
    return tuple(f for f in plan.filters if f.element == element)


def edge_width(data: EdgeData) -> int:
    """Return the size of one edge in rows, in bytes: neighbour, edge id, times and weight."""
    element = data.rows.element
    wide = 4 if data.source.id_map.limit < 2**31 else 8
    ids = 4 if data.rows.table.next_row < 2**31 else 8
    return wide + ids + 8 * sum(name is not None for name in (element.event_time, element.event_end, element.weight))
