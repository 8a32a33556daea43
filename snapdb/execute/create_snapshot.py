"""CREATE SNAPSHOT: topologies and features found or built, the snapshot's own files published, its row written."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snapdb.errors import CommitConflict
from snapdb.execute.graph_data import EdgeData, GraphData, VertexData, graph_data
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.parts import edge_features, topology, vertex_features
from snapdb.graph.layout import EdgeLayout, SnapshotLayout, VertexLayout
from snapdb.kernels.topology import ends_before, select_rows
from snapdb.plan.logical import CreateSnapshotPlan
from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.apply import check_free
from snapdb.storage.codec import encode
from snapdb.storage.commit import now
from snapdb.storage.disk import directory_bytes, fresh_name, publishing, read_manifest
from snapdb.storage.locks import remove_unless_held
from snapdb.storage.topology import check_rows, read_rows, write_rows
from snapdb.types import Filter, Snapshot

__all__ = ["CreateSnapshot"]

_FORMS = ("full", "ends", "materialized")
"""From nothing of its own to everything; a snapshot is called by the last that one of its edge types has."""


@dataclass(frozen=True, slots=True)
class CreateSnapshot:
    """Publishes a directory, then the row that names it."""

    plan: CreateSnapshotPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan = self.plan
        final = engine.home.path / "snapshots" / fresh_name()
        with engine.relational.session() as session:
            data = graph_data(engine, session, plan.graph, plan.tables)
            facts: dict[str, object] = {"kind": "snapshot"}
            with publishing(engine.home.disk, final, facts) as staging:
                layout = _write(engine, session, plan, data, staging)
                facts["layout"] = dataclasses.asdict(layout)
        try:
            snapshot = _record(engine, plan, layout, final)
        except BaseException:
            engine.home.disk.remove(final)
            raise
        if plan.replaces is not None:
            remove_unless_held(engine.home, engine.home.inside(plan.replaces.path))
        return Outcome(
            f"snapshot {plan.name} of {plan.graph.name} at version {plan.version}: "
            f"{snapshot.nodes:,} nodes, {snapshot.edges:,} edges ({snapshot.form}){_skipped(engine, data, layout)}"
        )


def _skipped(engine: Engine, data: GraphData, layout: SnapshotLayout) -> str:
    """How many edges ON DANGLING SKIP left out, for each type that says so."""
    found = []
    for edge in layout.edges:
        rows = data.edges[edge.name].rows
        if rows.element.on_dangling == "SKIP":
            kept = read_manifest(engine.home.path / edge.topology)["edges"]
            found.append(f"; {rows.table.rows - kept:,} dangling edges of {edge.name} skipped")
    return "".join(found)


def _write(
    engine: Engine, session: Session, plan: CreateSnapshotPlan, data: GraphData, staging: Path
) -> SnapshotLayout:
    vertices = tuple(
        _vertices(engine, session, plan, vertex, staging / f"alive-{i}.npy")
        for i, vertex in enumerate(data.vertices.values())
    )
    edges = tuple(_edges(engine, session, plan, edge, staging, i) for i, edge in enumerate(data.edges.values()))
    return SnapshotLayout(vertices, edges)


def _vertices(engine: Engine, session: Session, plan: CreateSnapshotPlan, data: VertexData, path: Path) -> VertexLayout:
    """Which dense ids are in the snapshot, and where the features of all of them are."""
    element = data.rows.element
    features = vertex_features(engine, session, data)
    filters = _filters(plan, element.name)
    rows = dataclasses.replace(data.rows, filters=filters)
    count = data.id_map.limit
    (nodes,) = session.rows(f"SELECT count(*) FROM ({rows.sql})")[0]
    if nodes < count:
        alive = np.zeros(count, np.bool_)
        keyed = dataclasses.replace(data, rows=rows).keyed
        for batch in session.reader(f"SELECT {quote(ROW_ID)} FROM ({keyed})"):
            alive[batch.column(0).to_numpy()] = True
        np.save(path, alive)
    return VertexLayout(
        name=element.name,
        count=count,
        nodes=nodes,
        map_id=data.id_map.id,
        key=element.key,
        features=_relative(engine, features),
        feature_names=tuple(f.name for f in element.features),
        target=element.target is not None,
    )


def _edges(
    engine: Engine, session: Session, plan: CreateSnapshotPlan, data: EdgeData, staging: Path, index: int
) -> EdgeLayout:
    """One edge type in the form that was chosen for it."""
    element = data.rows.element
    shared = topology(engine, session, data)
    rows = read_rows(shared)
    form = plan.forms[element.name]
    if form != "full":
        check_rows(rows.indptr[:-1], rows.indptr[1:], rows.indices, data.source.id_map.limit, element.name)
    if form == "full":
        count = rows.indices.size
    elif form == "ends":
        assert rows.time is not None
        assert plan.window.stop is not None
        ends = ends_before(rows.indptr[:-1], rows.indptr[1:], rows.time, plan.window.stop)
        np.save(staging / f"ends-{index}.npy", ends)
        count = int((ends - rows.indptr[:-1]).sum())
    else:
        keep = _admitted(session, plan, data, rows.edge_id)
        indptr, kept = select_rows(rows.indptr[:-1], rows.indptr[1:], keep)
        write_rows(rows.take(indptr, kept), staging, f"rows-{index}-")
        count = kept.size
    features = edge_features(engine, session, data)
    return EdgeLayout(
        name=element.name,
        form=form,
        edges=int(count),
        topology=str(shared.relative_to(engine.home.path)),
        features=_relative(engine, features),
        feature_names=tuple(f.name for f in element.features),
    )


def _admitted(
    session: Session, plan: CreateSnapshotPlan, data: EdgeData, edge_id: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """[positions] Which edges of the topology the window and the filters let in: just those that SQL sees."""
    rows = dataclasses.replace(
        data.rows,
        window=plan.window,
        filters=_filters(plan, data.rows.element.name),
        source=dataclasses.replace(data.rows.source, filters=_filters(plan, data.rows.element.source)),
        destination=dataclasses.replace(data.rows.destination, filters=_filters(plan, data.rows.element.destination)),
    )
    admitted = np.zeros(data.rows.table.next_row, np.bool_)
    for batch in session.reader(f"SELECT e_id FROM ({rows.sql})"):
        admitted[batch.column(0).to_numpy()] = True
    kept: npt.NDArray[np.bool_] = admitted[edge_id]
    return kept


def _filters(plan: CreateSnapshotPlan, element: str) -> tuple[Filter, ...]:
    return tuple(f for f in plan.filters if f.element == element)


def _relative(engine: Engine, directory: Path | None) -> str | None:
    return None if directory is None else str(directory.relative_to(engine.home.path))


def _record(engine: Engine, plan: CreateSnapshotPlan, layout: SnapshotLayout, final: Path) -> Snapshot:
    """The row that makes the snapshot real."""
    snapshot = Snapshot(
        id=0,
        name=plan.name,
        graph=plan.graph,
        version=plan.version,
        window=plan.window,
        unit=plan.unit,
        filters=plan.filters,
        form=max((e.form for e in layout.edges), key=_FORMS.index, default="full"),
        nodes=sum(v.nodes for v in layout.vertices),
        edges=sum(e.edges for e in layout.edges),
        bytes=directory_bytes(final),
        created=now(),
        path=str(final.relative_to(engine.home.path)),
    )
    with engine.ledger.writing() as connection:
        if plan.replaces is not None:
            gone = connection.execute("DELETE FROM snapshots WHERE id = ?", (plan.replaces.id,)).rowcount
            if not gone:
                raise CommitConflict(
                    f"{plan.name} moved: it was replaced or dropped meanwhile; run the statement again"
                )
        check_free(connection, plan.name)
        number = connection.execute(
            "INSERT INTO snapshots (name, folded, definition, path) VALUES (?, ?, '', ?)",
            (plan.name, plan.name.lower(), snapshot.path),
        ).lastrowid
        assert number is not None
        snapshot = dataclasses.replace(snapshot, id=number)
        connection.execute("UPDATE snapshots SET definition = ? WHERE id = ?", (encode(snapshot), number))
    return snapshot
