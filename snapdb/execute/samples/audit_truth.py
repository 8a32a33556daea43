"""The snapshot of an audited sampler as SQL reads it: the rows of its tables, independent of the sampler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from snapdb.builders.graph_data import end_expression
from snapdb.catalog import EdgeRows, VertexRows, tables_at
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.catalog.system_tables import listing
from snapdb.execute.session import ExecutionContext
from snapdb.graph.layout import read_layout
from snapdb.plan.samples import SamplePlan
from snapdb.sql_engine import Names, quote
from snapdb.storage.tables.id_maps import IdMaps
from snapdb.types import SampleSpec

FIELDS = [("batch", pa.int64()), ("check", pa.string()), ("violations", pa.int64())]
"""The columns of the result of AUDIT."""
CHUNK = 1 << 21
"""The number of evidence rows that are compared at once. Each comparison reads the tables once."""
Counts = Counter[tuple[int, str]]
"""The number of violations by batch and check."""


def listed(start: int, stop: int, checks: Sequence[str], violations: Counts) -> pa.RecordBatch:
    """Return the rows of AUDIT for the batches start ≤ number < stop."""
    rows = [(number, check, violations[number, check]) for number in range(start, stop) for check in checks]
    return listing(FIELDS, rows)


@dataclass(frozen=True, slots=True)
class SnapshotTruth:
    """The snapshot as read by SQL, and the sampler whose batches are compared with it."""

    context: ExecutionContext
    spec: SampleSpec
    rows: Mapping[str, VertexRows | EdgeRows]
    """The rows in the snapshot by element."""
    ids: Mapping[str, str]
    """SELECT k0, k1, …, dense, by vertex type."""

    @classmethod
    def of(cls, context: ExecutionContext, plan: SamplePlan) -> Self:
        """Return the snapshot of a sampler as read by SQL.

        Raises:
            CorruptError: A file of its tables is missing.
        """
        snapshot = plan.snapshot
        context.bind_context.views(snapshot)  # reports missing tables and files
        tables = tables_at(context.store.catalog_db, snapshot.version)
        layout = read_layout(context.store.db_dir, snapshot)
        ids = {
            v.name: IdMaps(context.store.catalog_db).read(v.map_id).sql(context.store.db_dir) for v in layout.vertices
        }
        return cls(context, plan.spec, snapshot_rows(snapshot, tables, context.store.db_dir.path), ids)

    def true_edges(self, name: str) -> str:
        """Return SELECT e_id, source, destination (dense), t, u of the requested edges. t is NULL for a static edge."""
        rows = self.rows[name]
        assert isinstance(rows, EdgeRows)
        element = rows.element
        joined = [
            f"JOIN ({self.ids[vertex]}) {alias} ON {same_key(key, alias)}"
            for vertex, key, alias in (
                (element.source, element.source_key, "s"),
                (element.destination, element.destination_key, "d"),
            )
        ]
        return f"""SELECT v.e_id, s.dense AS source, d.dense AS destination, {moments(rows)}
            FROM (SELECT * FROM ({rows.sql}) WHERE e_id IN (SELECT e_id FROM wanted)) v {" ".join(joined)}"""

    def nodes(self, name: str, nodes: pa.Table) -> Counts:
        """Count the nodes that are not in the snapshot, and those that did not exist yet at their seed's time."""
        rows = self.rows[name]
        assert isinstance(rows, VertexRows)
        key = rows.element.key
        born = "NULL::BIGINT" if rows.time is None else time_expression(rows.time, "v.")
        truth = f"""SELECT m.dense, {born} AS born FROM ({rows.sql}) v JOIN (
            SELECT * FROM ({self.ids[name]}) WHERE dense IN (SELECT id FROM nodes)) m ON {same_key(key, "m")}"""
        seen = "<=" if self.spec.temporal is not None and self.spec.temporal.inclusive else "<"
        query = f"""SELECT n.batch, count(*) FILTER (v.dense IS NULL) AS snapshot,
            count(*) FILTER ((n.role = 'neighbour' AND NOT v.born {seen} n.s)
              OR (n.role = 'negative' AND v.born > n.s)) AS time,
            count(*) FILTER (n.role = 'seed' AND v.born > n.s) AS "target horizon"
            FROM nodes n LEFT JOIN ({truth}) v ON n.id = v.dense GROUP BY n.batch"""
        return counted(self.ask(query, {"nodes": nodes}))

    def ask(self, query: str, sources: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows of a query over the tables and the given sources."""
        with self.context.store.sql_engine.session(Names(sources=sources)) as session:
            return session.table(query)


def untimely(spec: SampleSpec) -> str:
    """Return SQL that is true if an edge valid from v.t to v.u must be invisible at d.s."""
    assert spec.temporal is not None
    inclusive, within = spec.temporal.inclusive, spec.temporal.within
    late = "v.t > d.s" if inclusive else "v.t >= d.s"
    # The type is HUGEINT because a seed's time minus an interval can exceed 64 bits.
    least = "d.s::HUGEINT" + (f" - {within}" if within is not None else "" if inclusive else " - 1")
    old = "false" if within is None else f"v.t < {least}"
    return f"{late} OR CASE WHEN v.lasting THEN v.t IS NOT NULL AND v.u <= {least} ELSE {old} END"


def moments(rows: EdgeRows) -> str:
    """Return SQL for the start (t) and end (u) of an edge. They are NULL for a static edge or one without an end."""
    t = "NULL::BIGINT" if rows.time is None else time_expression(rows.time, "v.")
    u = "NULL::BIGINT" if rows.end is None else end_expression(rows.end, "v.")
    return f"{t} AS t, {u} AS u, {str(rows.end is not None).lower()} AS lasting"


def same_key(key: Sequence[str], alias: str) -> str:
    """Return SQL that is true if the key columns of v are those of an id map."""
    return " AND ".join(f"v.{quote(column)} = {alias}.k{i}" for i, column in enumerate(key))


def counted(table: pa.Table) -> Counts:
    """Return the counts in a table with the column batch and one column per check."""
    batches = table["batch"].to_pylist()
    checks = [name for name in table.column_names if name != "batch"]
    pairs = {(b, name): n for name in checks for b, n in zip(batches, table[name].to_pylist(), strict=True)}
    return Counter(pairs)
