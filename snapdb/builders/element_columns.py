"""The table columns that a sampler needs in addition to the snapshot's arrays: weights and births."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.builders.context import BuildContext
from snapdb.builders.graph_data import VertexData
from snapdb.catalog import EdgeRows, VertexRows, tables_at
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.errors import CorruptError, DataError
from snapdb.graph import GraphView
from snapdb.plan.samples import SamplePlan
from snapdb.sql_engine import ROW_ID, quote, table_rows
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.tables.id_maps import IdMap
from snapdb.storage.tables.segments import check_files, check_table
from snapdb.types import Link, Relation, Snapshot, Table
from snapdb.types.text import counted

_BATCH = 500_000
"""The number of rows per read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables and id maps of an open snapshot, from which columns are read."""

    context: BuildContext
    """The context of the build."""
    snapshot: Snapshot
    """The snapshot."""
    view: GraphView
    """The snapshot's arrays."""
    id_maps: Mapping[str, IdMap]
    """Vertex type → its id map."""
    rows: Mapping[str, VertexRows | EdgeRows]
    """Element → its rows in the snapshot."""

    @classmethod
    def of(cls, context: BuildContext, snapshot: Snapshot, view: GraphView, id_maps: Mapping[str, IdMap]) -> Reading:
        """Return the `Reading` of an open snapshot."""
        rows = snapshot_rows(snapshot, read_tables(context, snapshot), context.store.db_dir.path)
        return cls(context, snapshot, view, id_maps, rows)

    def births(self, name: str) -> Int64s:
        """Return the [dense ids] times at which vertices start to exist, or FOREVER for ids outside the snapshot."""
        rows = self.rows[name]
        assert isinstance(rows, VertexRows)
        assert rows.time is not None
        time = time_expression(rows.time)
        if rows.element.nulls_static:
            time = f"CASE WHEN {quote(rows.time.name)} IS NULL THEN {STATIC} ELSE {time} END"
        self.context.report(f"reading {name}.{rows.time.name}", None)
        born = np.full(self.view.node_counts[name], FOREVER, np.int64)
        for ids, values in self.by_dense_id(rows, time):
            born[ids] = values
        return born

    def by_dense_id(self, rows: VertexRows, expression: str) -> Iterator[tuple[Array, Array]]:
        """Yield dense ids and the values of an expression over a vertex type's rows, in parts. NULL becomes NaN."""
        context, data = self.context, self._numbered(rows)
        count = self.view.node_counts[rows.element.name]
        with context.store.sql_engine.session() as session:
            query = f"SELECT {quote(ROW_ID)}, {expression} FROM ({data.keyed})"
            for batch in session.reader(query, rows=_BATCH):
                context.check_stopped()
                ids = batch.column(0).to_numpy()
                if ids.size and int(ids.max()) >= count:
                    raise CorruptError(
                        f"snapshot {self.snapshot.name} is damaged: it has {count} of the "
                        f"{int(ids.max()) + 1} ids of {rows.element.name}; create it again",
                        code="damaged-snapshot",
                    )
                yield ids, batch.column(1).to_numpy(zero_copy_only=False)

    def sorted_rows(self, rows: VertexRows, columns: str) -> str:
        """Return a SELECT of expressions over a vertex type's rows v, in the order of their dense ids."""
        return f"SELECT {columns} FROM ({self._numbered(rows).keyed}) v ORDER BY {quote(ROW_ID)}"

    def _numbered(self, rows: VertexRows) -> VertexData:
        db_dir, id_map = self.context.store.db_dir, self.id_maps[rows.element.name]
        check_table(db_dir, rows.table)
        check_files(db_dir, f"the id map of {rows.element.name}", id_map.segments)
        return VertexData(rows, id_map, id_map.sql(db_dir))


def read_tables(context: BuildContext, snapshot: Snapshot) -> Mapping[str, Table]:
    """Return the tables at a snapshot's version, by case-folded name."""
    return tables_at(context.store.catalog_db, snapshot.version)


def with_columns(
    context: BuildContext, plan: SamplePlan, view: GraphView, id_maps: Mapping[str, IdMap], *, timed: bool
) -> GraphView:
    """Return the view with the weights and births that the sampler needs.

    Args:
        context: The context of the build.
        plan: The bound SAMPLE statement.
        view: The snapshot.
        id_maps: The id maps of its vertex types.
        timed: Whether the seeds have times. A vertex must already exist at the time of its seed.

    Raises:
        DataError: A weight is missing, or the weight of a destination is invalid. The message contains the number of
            such rows and three examples.
    """
    spec = plan.spec
    negatives = None if spec.link is None else spec.link.negatives
    own = {e.name: e.weight for e in plan.snapshot.graph.edges}
    other = [(name, column) for name, column in spec.drawing.weights if own.get(name) != column]
    # Births matter only if there is a time bound, and only for types that a draw can reach.
    bearing = [v.name for v in plan.snapshot.graph.vertices if v.event_time and plan.hints.may_meet(v.name)]
    born = bearing if timed or spec.temporal is not None else []
    weighing = negatives is not None and negatives.weight is not None
    if not (other or born or weighing):
        return view
    reading = Reading.of(context, plan.snapshot, view, id_maps)
    changed = replace(
        view,
        weights={name: edge_weights(reading, name, column) for name, column in other},
        born={name: reading.births(name) for name in born},
    )
    if spec.link is None or negatives is None or negatives.weight is None:
        return changed
    return replace(changed, destination_weights=_destination_weights(reading, spec.link, negatives.weight))


def edge_weights(reading: Reading, name: str, column: str) -> Float64s:
    """Return the [edge ids] weights. They are NaN for rows outside the table, which no edge of the snapshot uses."""
    context, rows = reading.context, reading.rows[name]
    assert isinstance(rows, EdgeRows)
    check_table(context.store.db_dir, rows.table)
    context.report(f"reading {name}.{column}", None)
    weights = np.full(rows.table.next_row, np.nan)
    every = table_rows(rows.table, rows.root, row_ids=True, ordered=False)
    nulls = 0
    with context.store.sql_engine.session() as session:
        query = f"SELECT {quote(ROW_ID)}, CAST({quote(column)} AS DOUBLE) FROM ({every})"
        for batch in session.reader(query, rows=_BATCH):
            context.check_stopped()
            values = batch.column(1)
            nulls += values.null_count
            weights[batch.column(0).to_numpy()] = values.to_numpy(zero_copy_only=False)
        # NULL is an error only for the snapshot's edges, although the same pass reads the table's other edges.
        missing = f"FROM ({rows.sql}) WHERE {quote(column)} IS NULL"
        if nulls and (count := session.rows(f"SELECT count(*) {missing}")[0][0]):
            shown = ", ".join(str(e_id) for (e_id,) in session.rows(f"SELECT e_id {missing} ORDER BY e_id LIMIT 3"))
            where = f"of {name} in snapshot {reading.snapshot.name}"
            edges = counted(count, f"edge {where} has", f"edges {where} have")
            raise DataError(
                f"{edges} NULL in the weight column {column} (e_id {shown}); set a weight, or delete them",
                code="bad-weight",
            )
    return weights


def _destination_weights(reading: Reading, link: Link, column: str) -> Float64s:
    """Return the [dense ids] weights of destinations, or 0 for nodes outside the snapshot."""
    if column == "DEGREE":
        return reading.view.adjacency(Relation(link.edge, "IN")).degrees().astype(np.float64)
    weights = _vertex_weights(reading, link.edge.destination, column)
    if weights.size and not weights.any():
        raise DataError(
            f"no vertex of {link.edge.destination} has a {column} above 0, so the column cannot weight "
            "negatives; correct the values, or choose another column",
            code="bad-negatives",
        )
    return weights


def _vertex_weights(reading: Reading, name: str, column: str) -> Float64s:
    """Return the [dense ids] weights of a vertex type, which must be finite and non-negative."""
    rows = reading.rows[name]
    assert isinstance(rows, VertexRows)
    reading.context.report(f"reading {name}.{column}", None)
    weights = np.zeros(reading.view.node_counts[name])
    for ids, values in reading.by_dense_id(rows, f"CAST({quote(column)} AS DOUBLE)"):
        weights[ids] = values
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        keys = reading.view.keys[name].read(wrong[:3]).to_pylist()
        shown = ", ".join(f"{key}: {weights[i]}" for key, i in zip(keys, wrong.tolist(), strict=False))
        vertices = counted(wrong.size, f"vertex of {name} has", f"vertices of {name} have")
        raise DataError(
            f"{vertices} an invalid weight in {column} ({shown}; nan means NULL): weights of negatives must be "
            "finite and not negative; correct them, or choose another column",
            code="bad-negatives",
        )
    return weights
