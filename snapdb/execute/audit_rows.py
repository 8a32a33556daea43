"""The evidence of batches against the rows that SQL sees of the snapshot: how often each batch breaks each rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from snapdb.catalog import EdgeRows, VertexRows, tables_at
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.execute.evidence import Evidence
from snapdb.execute.graph_data import end_expression
from snapdb.execute.operator import Engine
from snapdb.graph.open import read_layout
from snapdb.plan.samples import SamplePlan
from snapdb.relational import Names, quote
from snapdb.storage.ids import read_map
from snapdb.types import SampleSpec

Counts = Counter[tuple[int, str]]
"""(batch, check) → violations."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The snapshot as SQL sees it, and the statement whose batches are held against it."""

    engine: Engine
    spec: SampleSpec
    rows: Mapping[str, VertexRows | EdgeRows]
    """Element → its rows in the snapshot."""
    ids: Mapping[str, str]
    """Vertex type → SELECT k0, k1, …, dense."""

    def violations(self, evidence: Evidence) -> Counts:
        """What the tables tell against the batches."""
        found: Counts = Counter()
        for name, tables in evidence.edges.items():
            found += self._edges(name, pa.concat_tables(tables), evidence.seeds)
        for name, tables in evidence.nodes.items():
            found += self._nodes(name, pa.concat_tables(tables))
        link = self.spec.link
        if evidence.negatives and link is not None and link.negatives is not None and link.negatives.known:
            found += self._known(pa.concat_tables(evidence.negatives))
        return found

    def _edges(self, name: str, drawn: pa.Table, seeds: Sequence[pa.Table]) -> Counts:
        """Edges that the snapshot has not, or not between these ends; of other times; between seeds' ends."""
        link = self.spec.link
        own = seeds and link is not None and link.edge.edge == name and link.exclude != "NONE"
        wanted = pa.concat_tables([table.select(["e_id"]) for table in (drawn, *(seeds if own else ()))])
        truth = self._ask(self._true_edges(name), {"wanted": wanted})
        same = "(d.source = v.source AND d.destination = v.destination)"
        turned = "(d.either AND d.source = v.destination AND d.destination = v.source)"
        untimely = f"v.e_id IS NOT NULL AND ({_untimely(self.spec)})" if self.spec.temporal is not None else "false"
        query = f"""SELECT d.batch, count(*) FILTER (v.e_id IS NULL OR NOT ({same} OR {turned})) AS snapshot,
            count(*) FILTER (d.crosses OR ({untimely})) AS time
            FROM drawn d LEFT JOIN truth v ON d.e_id = v.e_id GROUP BY d.batch"""
        found = _counted(self._ask(query, {"drawn": drawn, "truth": truth}))
        if own:
            sources = {"drawn": drawn, "truth": truth, "seeds": pa.concat_tables(seeds)}
            found += _counted(self._ask(_seen_pairs(self.spec), sources))
        return found

    def _true_edges(self, name: str) -> str:
        """SELECT e_id, source, destination (dense), t, u of the edges that are wanted; t is NULL for what is static."""
        rows = self.rows[name]
        assert isinstance(rows, EdgeRows)
        element = rows.element
        joined = [
            f"JOIN ({self.ids[vertex]}) {alias} ON {_same(key, alias)}"
            for vertex, key, alias in (
                (element.source, element.source_key, "s"),
                (element.destination, element.destination_key, "d"),
            )
        ]
        return f"""SELECT v.e_id, s.dense AS source, d.dense AS destination, {_moments(rows)}
            FROM (SELECT * FROM ({rows.sql}) WHERE e_id IN (SELECT e_id FROM wanted)) v {" ".join(joined)}"""

    def _nodes(self, name: str, nodes: pa.Table) -> Counts:
        """Vertices that the snapshot has not, or that were not born yet."""
        rows = self.rows[name]
        assert isinstance(rows, VertexRows)
        key = rows.element.key
        born = "NULL::BIGINT" if rows.time is None else time_expression(rows.time, "v.")
        truth = f"""SELECT m.dense, {born} AS born FROM ({rows.sql}) v JOIN (
            SELECT * FROM ({self.ids[name]}) WHERE dense IN (SELECT id FROM nodes)) m ON {_same(key, "m")}"""
        seen = "<=" if self.spec.temporal is not None and self.spec.temporal.inclusive else "<"
        query = f"""SELECT n.batch, count(*) FILTER (v.dense IS NULL) AS snapshot,
            count(*) FILTER ((n.role = 'neighbour' AND NOT v.born {seen} n.s)
              OR (n.role = 'negative' AND v.born > n.s)) AS time,
            count(*) FILTER (n.role = 'seed' AND v.born > n.s) AS "target horizon"
            FROM nodes n LEFT JOIN ({truth}) v ON n.id = v.dense GROUP BY n.batch"""
        return _counted(self._ask(query, {"nodes": nodes}))

    def _known(self, negatives: pa.Table) -> Counts:
        """Negatives to which their seed's source has an edge that is to be known."""
        link = self.spec.link
        assert link is not None
        selects = " UNION ALL ".join(self._known_by(edge.edge) for edge in link.known_types)
        query = f"SELECT batch, count(DISTINCT n) AS exclusion FROM ({selects}) GROUP BY batch"
        return _counted(self._ask(query, {"negatives": negatives}))

    def _known_by(self, name: str) -> str:
        """SELECT batch, n: the negatives that an edge of one type makes known."""
        link, rows = self.spec.link, self.rows[name]
        assert link is not None
        assert link.negatives is not None
        assert isinstance(rows, EdgeRows)
        element = rows.element
        known = {
            "BEFORE": "v.t IS NULL OR v.t < n.s",
            "AT": "(v.t IS NULL OR v.t <= n.s) AND v.u > n.s" if rows.end else "v.t = n.s",
        }.get(link.negatives.known or "", "true")
        ends = [*element.source_key, *element.destination_key]
        same = [
            f"{at}.k{i}"
            for at, key in (("s", element.source_key), ("d", element.destination_key))
            for i in range(len(key))
        ]
        columns = ", ".join(f"v.{quote(column)} AS c{i}" for i, column in enumerate(ends))
        return f"""SELECT n.batch, n.n
            FROM negatives n JOIN ({self.ids[element.source]}) s ON s.dense = n.source
            JOIN ({self.ids[element.destination]}) d ON d.dense = n.destination
            JOIN (SELECT {columns}, {_moments(rows)} FROM ({rows.sql}) v) v
              ON {" AND ".join(f"v.c{i} = {key}" for i, key in enumerate(same))}
            WHERE {known}"""

    def _ask(self, query: str, sources: Mapping[str, pa.Table]) -> pa.Table:
        with self.engine.relational.session(Names(sources=sources)) as session:
            return session.table(query)


def snapshot_truth(engine: Engine, plan: SamplePlan) -> Truth:
    """What SQL sees of a sampler's snapshot.

    Raises:
        CorruptError: a file of its tables is missing.
    """
    snapshot = plan.snapshot
    engine.context.views(snapshot)  # says what is missing of its tables and their files
    tables = tables_at(engine.home, engine.ledger, snapshot.version)
    layout = read_layout(engine.home, snapshot)
    ids = {v.name: read_map(engine.ledger, v.map_id).sql(engine.home) for v in layout.vertices}
    return Truth(engine, plan.spec, snapshot_rows(snapshot, tables, engine.home.path), ids)


def _untimely(spec: SampleSpec) -> str:
    """Whether an edge that happened at v.t, and held until v.u, must not be seen at d.s."""
    assert spec.temporal is not None
    inclusive, within = spec.temporal.inclusive, spec.temporal.within
    late = "v.t > d.s" if inclusive else "v.t >= d.s"
    # Hugeints, because a seed's time less an interval may leave 64 bits.
    least = "d.s::HUGEINT" + (f" - {within}" if within is not None else "" if inclusive else " - 1")
    old = "false" if within is None else f"v.t < {least}"
    return f"{late} OR CASE WHEN v.lasting THEN v.t IS NOT NULL AND v.u <= {least} ELSE {old} END"


def _seen_pairs(spec: SampleSpec) -> str:
    """SELECT batch, exclusion: edges between the ends of a seed of the batch, or back; of trees, of its own seed."""
    link = spec.link
    assert link is not None
    pairs = "SELECT p.batch, p.tree, q.source, q.destination FROM seeds p JOIN truth q ON p.e_id = q.e_id"
    if link.exclude == "BOTH" and link.edge.source == link.edge.destination:
        pairs += f" UNION ALL SELECT batch, tree, destination, source FROM ({pairs})"
    own = "true" if spec.temporal is None else "p.tree = d.tree AND (v.t IS NULL OR v.t >= d.s)"
    return f"""SELECT d.batch, count(*) AS exclusion FROM drawn d JOIN truth v ON d.e_id = v.e_id
        SEMI JOIN ({pairs}) p
          ON p.batch = d.batch AND p.source = v.source AND p.destination = v.destination AND {own}
        GROUP BY d.batch"""


def _moments(rows: EdgeRows) -> str:
    """When an edge happened (t) and until when it held (u): NULL for what is static, and for what has no end."""
    t = "NULL::BIGINT" if rows.time is None else time_expression(rows.time, "v.")
    u = "NULL::BIGINT" if rows.end is None else end_expression(rows.end, "v.")
    return f"{t} AS t, {u} AS u, {str(rows.end is not None).lower()} AS lasting"


def _same(key: Sequence[str], alias: str) -> str:
    return " AND ".join(f"v.{quote(column)} = {alias}.k{i}" for i, column in enumerate(key))


def _counted(table: pa.Table) -> Counts:
    """The columns of counts by batch."""
    batches = table["batch"].to_pylist()
    checks = [name for name in table.column_names if name != "batch"]
    pairs = {(b, name): n for name in checks for b, n in zip(batches, table[name].to_pylist(), strict=True)}
    return Counter(pairs)
