"""DIFF GRAPH: what a whole graph has at one version and has not at another, read from its tables alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import time_expression
from snapdb.execute.diff_drift import Values, values_of
from snapdb.execute.diff_elements import ElementRows, Key
from snapdb.execute.diff_report import report
from snapdb.execute.diff_shifts import degree_bins
from snapdb.execute.diff_side import Degrees, Side, keyed
from snapdb.execute.operator import Engine, Rows
from snapdb.graph.open_features import open_features
from snapdb.plan.versions import DiffGraphPlan
from snapdb.relational import ROW_ID, Session, quote, quote_all, table_rows
from snapdb.storage.disk import Disk, publishing
from snapdb.storage.feature_checks import check_features
from snapdb.storage.feature_types import FeatureSource
from snapdb.storage.features import growing_of, write_features
from snapdb.storage.growth import added_rows, grown
from snapdb.storage.segments import check_table
from snapdb.types import Column, FeatureSpec, PropertyGraph, Table

_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class DiffGraph:
    """Edges are told apart by edge id, vertices by key."""

    plan: DiffGraphPlan

    def run(self, engine: Engine) -> Rows:
        plan = self.plan
        with ExitStack() as stack, engine.relational.session() as session:
            before, after = (
                _GraphAt(engine, session, stack, plan.graph, tables).side
                for tables in (plan.tables_before, plan.tables_after)
            )
            yield from report(engine, session, before, after, plan.detail)
        return None


@dataclass(frozen=True)
class _GraphAt:
    """A graph over the tables of a version."""

    engine: Engine
    session: Session
    stack: ExitStack
    graph: PropertyGraph
    tables: Mapping[str, Table]

    @property
    def side(self) -> Side:
        """It, as one side of a difference."""
        for element in self.graph.elements:
            check_table(self.engine.home, self.tables[element.table.lower()])
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
        root = self.engine.home.path
        vertices = {v.name: VertexRows(v, self.tables[v.table.lower()], root) for v in self.graph.vertices}
        edges = {
            e.name: EdgeRows(e, self.tables[e.table.lower()], root, vertices[e.source], vertices[e.destination])
            for e in self.graph.edges
        }
        return keyed({**vertices, **edges}, self.graph)

    def _count(self, rows: ElementRows) -> int:
        """All of the table, but for what the graph says to leave out."""
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
        found = self.session.table(
            f"SELECT coalesce(n, 0)::BIGINT AS degree, count(*)::BIGINT AS nodes FROM (SELECT {own} FROM ({ends.sql})) "
            f"LEFT JOIN ({edges}) USING ({same}) GROUP BY degree"
        )
        degrees, nodes = (found.column(i).to_numpy() for i in range(2))
        bins = np.bincount(degree_bins(degrees), weights=nodes).astype(np.int64)
        return Degrees(int(nodes.sum()), int((degrees * nodes).sum()), bins)

    def _values(self, rows: ElementRows) -> dict[str, Values]:
        """Every feature, built as a snapshot would have it, in a folder that goes with the statement."""
        assert isinstance(rows, VertexRows)
        element, count = rows.element, self._count(rows)
        if not element.features:
            return {}
        specs, source = self._source(rows, count)
        check_features(self.session, source, specs)
        added = added_rows(self.engine.ledger, rows.table, rows.root)
        growth = grown(self.session, added, growing_of(source, specs, None, None))
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="snapdb-diff-")))
        facts: dict[str, object] = {"kind": "features"}
        with publishing(Disk(), folder / "features", facts) as staging:
            facts |= write_features(self.session, source, specs, staging, growth)
        features = open_features(folder / "features", None, [spec.name for spec in specs])
        return {name: values_of(feature, np.arange(count)) for name, feature in features.items()}

    def _source(self, rows: VertexRows, count: int) -> tuple[list[FeatureSpec], FeatureSource]:
        """The vertices, numbered from 0, with the columns of all features: of those with a history, the last values."""
        element = rows.element
        specs, joins, columns = [], "", list(rows.table.columns)
        for number, spec in enumerate(element.features):
            if spec.history is None:
                specs.append(spec)
                continue
            last, more = _last_values(self.tables[spec.history.table.lower()], spec, number, self.engine.home.path)
            same = " AND ".join(f"v.{quote(k)} = h{number}.k{i}" for i, k in enumerate(element.key))
            joins += f" LEFT JOIN ({last}) h{number} ON {same}"
            columns += more
            specs.append(replace(spec, history=None, columns=tuple(c.name for c in more)))
        names = quote_all(c.name for c in columns)
        query = f"SELECT {names}, row_number() OVER () - 1 AS {_ID} FROM ({rows.sql}) v{joins}"
        return specs, FeatureSource(element.name, query, tuple(columns), count, element.key)

    def _origin(self, name: str) -> object:
        """The tables that a vertex type's features are read from."""
        vertex = self.graph.vertex(name)
        assert vertex is not None
        used = [vertex.table, *(spec.history.table for spec in vertex.features if spec.history)]
        return [(self.tables[table.lower()].id, self.tables[table.lower()].state) for table in used]


def _last_values(table: Table, spec: FeatureSpec, number: int, root: Path) -> tuple[str, list[Column]]:
    """SELECT k0, k1, … and the last values of a feature; and the columns that hold them, under names of their own."""
    assert spec.history is not None
    time = table.column(spec.history.event_time)
    assert time is not None
    found = [table.column(name) for name in spec.columns]
    columns = [replace(c, name=f"snapdb {number} {c.name}") for c in found if c is not None]
    keys = ", ".join(f"{quote(name)} AS k{i}" for i, name in enumerate(spec.history.key))
    values = ", ".join(f"{quote(c)} AS {quote(named.name)}" for c, named in zip(spec.columns, columns, strict=True))
    order = f"ORDER BY {time_expression(time)} DESC, {_ID} DESC"
    rows = table_rows(table, root, row_ids=True)
    last = f"QUALIFY row_number() OVER (PARTITION BY {quote_all(spec.history.key)} {order}) = 1"
    return f"SELECT {keys}, {values} FROM ({rows}) {last}", columns
