"""The operators of DIFF TABLE, DIFF SNAPSHOT and DIFF GRAPH.

The result is a summary, the drift of each component, or the rows that differ.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import rows_beyond, time_expression
from snapdb.catalog.system_tables import listing
from snapdb.execute.diff.rows import (
    Difference,
    ElementRows,
    Key,
    changed_rows,
    column_value,
    difference,
    replaced,
    row_count,
)
from snapdb.execute.diff.sides import (
    Degrees,
    Drift,
    Side,
    Values,
    degree_bins,
    drifts,
    keyed,
    snapshot_side,
    stability,
    values_of,
)
from snapdb.execute.results import Rows
from snapdb.execute.session import ExecutionContext
from snapdb.graph.features import open_features
from snapdb.plan.versions import DiffGraphPlan, DiffSnapshotPlan, DiffTablePlan
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all, table_rows
from snapdb.storage.arrays.feature_files import added_rows, compute_growth, growth_spec, write_features
from snapdb.storage.arrays.feature_types import FeatureSource, check_features
from snapdb.storage.disk import Disk
from snapdb.storage.manifests import publishing
from snapdb.storage.tables.segments import check_table
from snapdb.types import Column, FeatureSpec, PropertyGraph, Table

_ID = quote(ROW_ID)


def diff_table(plan: DiffTablePlan, context: ExecutionContext) -> Rows:
    """Run DIFF TABLE: find the rows that exist in only one version, at a cost proportional to the difference."""
    with context.store.sql_engine.session() as session:
        gone = rows_beyond(session, context.store.db_dir.path, plan.before, plan.after)
        come = rows_beyond(session, context.store.db_dir.path, plan.after, plan.before)
        if plan.rows:
            yield from session.exact_reader(_changes(plan, gone, come))
        else:
            yield _table_summary(session, plan, gone, come)
    return None


def _changes(plan: DiffTablePlan, gone: str | None, come: str | None) -> str:
    """Return a SELECT of the change and the later table's columns: removed rows, then added rows, sorted by row id."""
    shown = plan.after or plan.before
    assert shown is not None
    names = ", ".join(quote(c.name) for c in shown.columns)
    parts = []
    for order, (change, rows, table) in enumerate((("-", gone, plan.before), ("+", come, plan.after))):
        if rows is not None:
            assert table is not None
            values = ", ".join(f"{_value(c, table, shown)} AS {quote(c.name)}" for c in shown.columns)
            # These names cannot clash with user columns.
            label = f"""{order} AS "snapdb part", '{change}' AS "snapdb change", {_ID}"""
            parts.append(f"SELECT {label}, {values} FROM ({rows})")
    if not parts:
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in shown.columns)
        return f"SELECT '' AS change, {nothing} WHERE false"
    return f"""SELECT "snapdb change" AS change, {names} FROM ({" UNION ALL ".join(parts)})
        ORDER BY "snapdb part", {_ID}"""


def _value(column: Column, table: Table, shown: Table) -> str:
    """Return the SELECT item for a shown column, read from another version of its table."""
    return column_value(column, table, shown) or f"CAST(NULL AS {column.type})"


def _table_summary(session: SqlSession, plan: DiffTablePlan, gone: str | None, come: str | None) -> pa.RecordBatch:
    removed, added = (_count(session, rows) for rows in (gone, come))
    lost, won = _columns_beyond(plan.before, plan.after), _columns_beyond(plan.after, plan.before)
    fields = [
        ("table", _TEXT),
        ("added", pa.int64()),
        ("removed", pa.int64()),
        ("columns_added", pa.list_(_TEXT)),
        ("columns_removed", pa.list_(_TEXT)),
    ]
    return listing(fields, [(plan.name, added, removed, won, lost)])


def _count(session: SqlSession, rows: str | None) -> int:
    return 0 if rows is None else int(session.rows(f"SELECT count({_ID}) FROM ({rows})")[0][0])


def _columns_beyond(one: Table | None, other: Table | None) -> list[str]:
    """Return the columns that only one of two tables has. A column that was dropped and added again is a new column."""
    if one is None or other is None:
        return [] if one is None else [c.name for c in one.columns]
    same_table = one.id == other.id
    known = {(c.field if same_table else 0, c.name.lower()) for c in other.columns}
    return [c.name for c in one.columns if (c.field if same_table else 0, c.name.lower()) not in known]


def diff_snapshot(plan: DiffSnapshotPlan, context: ExecutionContext) -> Rows:
    """Run DIFF SNAPSHOT: compare the elements of two snapshots, and measure the drift of their degrees and features."""
    with ExitStack() as stack:
        before, after = (snapshot_side(context, s, stack) for s in (plan.before, plan.after))
        with context.store.sql_engine.session() as session:
            yield from _report(context, session, before, after, plan.detail)
    return None


def diff_graph(plan: DiffGraphPlan, context: ExecutionContext) -> Rows:
    """Run DIFF GRAPH: compare a whole graph at two versions. Only its tables are read."""
    with ExitStack() as stack, context.store.sql_engine.session() as session:
        before, after = (
            _GraphAt(context, session, stack, plan.graph, tables).side
            for tables in (plan.tables_before, plan.tables_after)
        )
        yield from _report(context, session, before, after, plan.detail)
    return None


@dataclass(frozen=True)
class _GraphAt:
    """A graph at one version of its tables."""

    context: ExecutionContext
    session: SqlSession
    stack: ExitStack
    graph: PropertyGraph
    tables: Mapping[str, Table]

    @property
    def side(self) -> Side:
        """The graph as one side of a difference."""
        for element in self.graph.elements:
            check_table(self.context.store.db_dir, self.tables[element.table.lower()])
        rows = self._rows()
        return Side(
            self.graph,
            rows,
            cache(lambda key: self._count(rows[key])),
            lambda name: self._degrees(rows[Key("edge", name)]),
            lambda name: self._values(rows[Key("vertex", name)]),
            self._origin,
        )

    def _rows(self) -> dict[Key, ElementRows]:
        root = self.context.store.db_dir.path
        vertices = {v.name: VertexRows(v, self.tables[v.table.lower()], root) for v in self.graph.vertices}
        edges = {
            e.name: EdgeRows(e, self.tables[e.table.lower()], root, vertices[e.source], vertices[e.destination])
            for e in self.graph.edges
        }
        return keyed({**vertices, **edges}, self.graph)

    def _count(self, rows: ElementRows) -> int:
        """Count the rows of a table that the graph does not exclude."""
        rule = rows.element.on_duplicate if isinstance(rows, VertexRows) else rows.element.on_dangling
        if rule == "ERROR":
            return rows.table.rows
        return int(self.session.rows(f"SELECT count(*) FROM ({rows.sql})")[0][0])

    def _degrees(self, rows: ElementRows) -> Degrees:
        assert isinstance(rows, EdgeRows)
        ends, keys = rows.destination, rows.element.destination_key
        named = ", ".join(f"{quote(name)} AS k{i}" for i, name in enumerate(keys))
        own = ", ".join(f"{quote(name)} AS k{i}" for i, name in enumerate(ends.element.key))
        same = ", ".join(f"k{i}" for i in range(len(keys)))
        edges = f"SELECT {same}, count(*) AS n FROM (SELECT {named} FROM ({rows.sql})) GROUP BY ALL"
        degrees_table = self.session.table(
            f"SELECT coalesce(n, 0)::BIGINT AS degree, count(*)::BIGINT AS nodes FROM (SELECT {own} FROM ({ends.sql})) "
            f"LEFT JOIN ({edges}) USING ({same}) GROUP BY degree"
        )
        degrees, nodes = (degrees_table.column(i).to_numpy() for i in range(2))
        bins = np.bincount(degree_bins(degrees), weights=nodes).astype(np.int64)
        return Degrees(int(nodes.sum()), int((degrees * nodes).sum()), bins)

    def _values(self, rows: ElementRows) -> dict[str, Values]:
        """Build every feature as for a snapshot. The files are deleted when the statement ends."""
        assert isinstance(rows, VertexRows)
        element, count = rows.element, self._count(rows)
        if not element.features:
            return {}
        specs, source = self._source(rows, count)
        check_features(self.session, source, specs)
        added = added_rows(self.context.store.catalog_db, rows.table, rows.root)
        growth = compute_growth(self.session, added, growth_spec(source, specs, None, None))
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="snapdb-diff-")))
        facts: dict[str, object] = {"kind": "features"}
        with publishing(Disk(), folder / "features", facts) as staging:
            facts |= write_features(self.session, source, specs, staging, growth)
        features = open_features(folder / "features", None, [spec.name for spec in specs])
        return {name: values_of(feature, np.arange(count)) for name, feature in features.items()}

    def _source(self, rows: VertexRows, count: int) -> tuple[list[FeatureSpec], FeatureSource]:
        """Return the features, and the vertices from which they are read.

        The vertices are numbered from 0. A feature with a history is replaced with columns of its last values.
        """
        element = rows.element
        specs, joins, columns = [], "", list(rows.table.columns)
        for number, spec in enumerate(element.features):
            if spec.history is None:
                specs.append(spec)
                continue
            last, more = _last_values(
                self.tables[spec.history.table.lower()], spec, number, self.context.store.db_dir.path
            )
            same = " AND ".join(f"v.{quote(k)} = h{number}.k{i}" for i, k in enumerate(element.key))
            joins += f" LEFT JOIN ({last}) h{number} ON {same}"
            columns += more
            specs.append(replace(spec, history=None, columns=tuple(c.name for c in more)))
        names = quote_all(c.name for c in columns)
        query = f"SELECT {names}, row_number() OVER () - 1 AS {_ID} FROM ({rows.sql}) v{joins}"
        return specs, FeatureSource(element.name, query, tuple(columns), count, element.key)

    def _origin(self, name: str) -> object:
        """Return the tables from which a vertex type's features are read."""
        vertex = self.graph.vertex(name)
        assert vertex is not None
        used = [vertex.table, *(spec.history.table for spec in vertex.features if spec.history)]
        return [(self.tables[table.lower()].id, self.tables[table.lower()].state) for table in used]


def _last_values(table: Table, spec: FeatureSpec, number: int, root: Path) -> tuple[str, list[Column]]:
    """Return a SELECT of the keys k0, k1, … and a feature's last values, together with the columns of these values."""
    assert spec.history is not None
    time = table.column(spec.history.event_time)
    assert time is not None
    value_columns = [table.column(name) for name in spec.columns]
    columns = [replace(c, name=f"snapdb {number} {c.name}") for c in value_columns if c is not None]
    keys = ", ".join(f"{quote(name)} AS k{i}" for i, name in enumerate(spec.history.key))
    values = ", ".join(f"{quote(c)} AS {quote(named.name)}" for c, named in zip(spec.columns, columns, strict=True))
    order = f"ORDER BY {time_expression(time)} DESC, {_ID} DESC"
    rows = table_rows(table, root, row_ids=True)
    last = f"QUALIFY row_number() OVER (PARTITION BY {quote_all(spec.history.key)} {order}) = 1"
    return f"SELECT {keys}, {values} FROM ({rows}) {last}", columns


# The report on two sides, which are both snapshots or both graphs.


_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()
_MOMENTS = [(name, _REAL) for name in ("mean_before", "mean_after", "std_before", "std_after", "psi")]
_SUMMARY = [
    ("element", _TEXT),
    ("kind", _TEXT),
    *((name, _WHOLE) for name in ("added", "removed", "changed", "before", "after")),
    *((name, _REAL) for name in ("degree_before", "degree_after", "degree_psi")),
    ("feature", _TEXT),
    *_MOMENTS,
]
_FEATURES = [("element", _TEXT), ("feature", _TEXT), ("component", _WHOLE), *_MOMENTS]


class _Element(NamedTuple):
    """An element that exists on at least one side."""

    key: Key
    name: str
    """The element's name, as written on the later side."""
    before: ElementRows | None
    after: ElementRows | None
    difference: Difference


class _Counts(NamedTuple):
    """The number of rows of an element, and the number of rows that differ."""

    added: int
    removed: int
    changed: int
    before: int
    after: int


def _report(
    context: ExecutionContext,
    session: SqlSession,
    before: Side,
    after: Side,
    detail: Literal["SUMMARY", "ROWS", "FEATURES"],
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the result. There is at least one."""
    elements = _elements(session, before, after)
    match detail:
        case "ROWS":
            differences = [(e.name, e.before, e.after, e.difference) for e in elements]
            yield from changed_rows(session, differences)
        case "FEATURES":
            yield listing(_FEATURES, _feature_rows(context, before, after, elements))
        case "SUMMARY":
            yield listing(_SUMMARY, list(_summary(context, session, before, after, elements)))


def _elements(session: SqlSession, before: Side, after: Side) -> list[_Element]:
    """Return the later side's elements in order, followed by those that exist only on the earlier side."""
    names = {Key("vertex", e.name.lower()): e.name for side in (before, after) for e in side.graph.vertices}
    names |= {Key("edge", e.name.lower()): e.name for side in (before, after) for e in side.graph.edges}
    keys = sorted(dict.fromkeys((*after.rows, *before.rows)), key=lambda key: key.kind == "edge")
    sides = []
    for key in keys:
        then, now = before.rows.get(key), after.rows.get(key)
        sides.append(_Element(key, names[key], then, now, difference(session, then, now)))
    return sides


def _summary(
    context: ExecutionContext, session: SqlSession, before: Side, after: Side, elements: list[_Element]
) -> Iterator[tuple[Any, ...]]:
    by_key = {e.key: e for e in elements}
    for e in elements:
        context.check_stopped()
        context.report(f"comparing {e.name}", None)
        n = _counts(session, before, after, e)
        counts = (n.added, n.removed, n.changed, n.before, n.after)
        if e.key.kind == "edge":
            yield (e.name, "edge", *counts, *_degree_shift(before, after, e, by_key), *[None] * 6)
        else:
            yield (e.name, "vertex", *counts, None, None, None, *_greatest(before, after, e))


def _counts(session: SqlSession, before: Side, after: Side, e: _Element) -> _Counts:
    """Count the rows added, removed and changed. Rows are read only if the sides' counts are not sufficient."""
    then = before.count(e.key) if e.before else 0
    now = after.count(e.key) if e.after else 0
    if not e.difference.removed:
        added = now - then
    elif not e.difference.added:
        added = 0
    else:
        added = row_count(session, e.difference.added)
    # Because now = then + added - removed, it is sufficient to count one side of the difference.
    removed = then + added - now
    changed = replaced(session, e.difference) if added and removed else 0
    return _Counts(added - changed, removed - changed, changed, then, now)


def _degree_shift(
    before: Side, after: Side, e: _Element, by_key: Mapping[Key, _Element]
) -> tuple[float | None, float | None, float | None]:
    """Return the mean in-degree of each side, and the stability index of its distribution."""
    if _untouched(e) and _same_ends(before, after, e, by_key):
        mean = _mean(after, e)
        return mean, mean, None if mean is None else 0.0
    then: Degrees | None = before.degrees(e.key.name) if e.before else None
    now: Degrees | None = after.degrees(e.key.name) if e.after else None
    psi = stability(then.bins, now.bins) if then and now else None
    return then.mean if then else None, now.mean if now else None, psi


def _same_ends(before: Side, after: Side, e: _Element, by_key: Mapping[Key, _Element]) -> bool:
    then, now = before.graph.edge(e.name), after.graph.edge(e.name)
    if then is None or now is None or then.destination != now.destination:
        return False
    ends = by_key[Key("vertex", now.destination.lower())]
    return then.destination_key == now.destination_key and _untouched(ends)


def _mean(side: Side, e: _Element) -> float | None:
    edge = side.graph.edge(e.name)
    assert edge is not None
    nodes = side.count(Key("vertex", edge.destination.lower()))
    return side.count(e.key) / nodes if nodes else None


def _greatest(before: Side, after: Side, e: _Element) -> tuple[Any, ...]:
    """Return the component with the greatest drift and its statistics.

    If no value can have changed, only the PSI is set, and it is 0.
    """
    element = e.after.element if e.after else None
    if not element or not element.features or not e.before:
        return (None,) * 6
    if _same_values(before, after, e):
        return (*[None] * 5, 0.0)
    drifts = _drifts(before, after, e)
    drift = max(drifts, key=lambda d: (d.psi is not None, d.psi or 0.0), default=None)
    if drift is None:
        return (None,) * 6
    wide = sum(d.feature == drift.feature for d in drifts) > 1
    return (f"{drift.feature}[{drift.component}]" if wide else drift.feature, *drift[2:])


def _feature_rows(
    context: ExecutionContext, before: Side, after: Side, elements: list[_Element]
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for e in elements:
        if e.key.kind == "vertex":
            context.report(f"comparing the features of {e.name}", None)
            rows += [(e.name, *drift) for drift in _drifts(before, after, e)]
    return rows


def _drifts(before: Side, after: Side, e: _Element) -> list[Drift]:
    """Return the drift of every component of a vertex type's features."""
    same = _same_values(before, after, e)
    then = before.values(e.key.name) if e.before else {}
    now = then if same else after.values(e.key.name) if e.after else {}
    names = list(dict.fromkeys((*now, *then)))
    return [d for name in names for d in drifts(name, then.get(name), now.get(name), same=same)]


def _same_values(before: Side, after: Side, e: _Element) -> bool:
    """Return whether both sides have the same vertices and the same feature files."""
    return _untouched(e) and before.origin(e.key.name) == after.origin(e.key.name)


def _untouched(e: _Element) -> bool:
    return e.before is not None and e.after is not None and not (e.difference.added or e.difference.removed)
