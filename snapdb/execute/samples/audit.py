"""AUDIT SAMPLE: compares every batch of a sampler with the tables in SQL, and counts violations by rule.

The batches are the ones that a trainer would receive. The audit is independent of the sampler: it looks up edges by id
in the snapshot's views, reads times from the tables, and looks up values with a history again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from snapdb import loading
from snapdb.arrays import Array, Int64s, UInt8s
from snapdb.builders.graph_data import end_expression
from snapdb.catalog import EdgeRows, VertexRows, tables_at
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.catalog.system_tables import listing
from snapdb.execute.results import Rows
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView
from snapdb.graph.features import HistoryFeature
from snapdb.graph.layout import read_layout
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan.samples import AuditPlan, SamplePlan
from snapdb.sampling import Seeds
from snapdb.sql_engine import Names, quote
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.tables.id_maps import IdMaps
from snapdb.types import EdgeType, Relation, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading import Batch, BatchStream


_CHECKS = ("time", "feature time", "snapshot", "exclusion", "target horizon")
"""The checks, in the order of the result. 'time': edges and vertices later than their seed's time. 'feature time':
values not known at that time. 'snapshot': edges and vertices that are not in the snapshot. 'exclusion': edges that are
excluded for their seeds. 'target horizon': targets of nodes other than seeds, and seeds that did not exist yet."""

_FIELDS = [("batch", pa.int64()), ("check", pa.string()), ("violations", pa.int64())]
_CHUNK = 1 << 21
"""The number of evidence rows that are compared at once. Each comparison reads the tables once."""
_Counts = Counter[tuple[int, str]]
"""The number of violations by batch and check."""


def audit(plan: AuditPlan, context: ExecutionContext) -> Rows:
    """Run AUDIT SAMPLE: sample the batches of the epochs, and return one row per batch and check."""
    sample = plan.sample
    # Yield an empty batch first, so that a result without batches also has a schema.
    yield listing(_FIELDS, [])
    truth = _snapshot_truth(context, sample)
    opened = open_sample(context, sample)
    try:
        context.check_stopped()
        with (
            sample.places.under(),
            loading.BatchStream(opened._replace(cache=None), StreamOptions(max_threads=context.threads)) as stream,
        ):
            batches = _batches(context, stream, sample.epochs)
            yield from _audited(truth, opened, [traversal.relation for traversal in stream.sampler.traversals], batches)
    finally:
        opened.release()
    return None


def _audited(
    truth: _Truth, opened: StreamSource, relations: list[Relation], batches: Iterable[Batch], chunk: int = _CHUNK
) -> Iterator[pa.RecordBatch]:
    """Yield `batch, check, violations` for the batches, numbered from 0. About `chunk` rows are compared at once."""
    evidence, violations, first, number = _Evidence(), _Counts(), 0, -1
    for number, batch in enumerate(batches):
        evidence.add(number, batch, opened.seeds, relations)
        violations += _of_batch(number, batch, opened)
        if evidence.size >= chunk:
            yield _listed(first, number + 1, violations + truth.violations(evidence))
            evidence, violations, first = _Evidence(), _Counts(), number + 1
    if first <= number:
        yield _listed(first, number + 1, violations + truth.violations(evidence))


def _batches(context: ExecutionContext, stream: BatchStream, epochs: int) -> Iterator[Batch]:
    for epoch in range(epochs if len(stream) else 0):
        for index, batch in enumerate(stream):
            yield batch
            context.step(f"auditing {stream.spec.snapshot}", (epoch + (index + 1) / len(stream)) / epochs)


def _of_batch(number: int, batch: Batch, opened: StreamSource) -> _Counts:
    """Return the violations that can be detected without SQL."""
    targets = 0 if batch.y is None else max(0, len(batch.y) - batch.batch_size)
    violations = {"feature time": _wrong_values(opened.view, opened.seeds, batch), "target horizon": targets}
    return Counter({(number, check): count for check, count in violations.items()})


def _listed(start: int, stop: int, violations: _Counts) -> pa.RecordBatch:
    return listing(
        _FIELDS, [(number, check, violations[number, check]) for number in range(start, stop) for check in _CHECKS]
    )


@dataclass(frozen=True, slots=True)
class _Truth:
    """The snapshot as read by SQL, and the sampler whose batches are compared with it."""

    context: ExecutionContext
    spec: SampleSpec
    rows: Mapping[str, VertexRows | EdgeRows]
    """The rows in the snapshot by element."""
    ids: Mapping[str, str]
    """SELECT k0, k1, …, dense, by vertex type."""

    def violations(self, evidence: _Evidence) -> _Counts:
        """Count the violations by comparing the evidence with the tables."""
        counts: _Counts = Counter()
        for name, tables in evidence.edges.items():
            counts += self._edges(name, pa.concat_tables(tables), evidence.seeds)
        for name, tables in evidence.nodes.items():
            counts += self._nodes(name, pa.concat_tables(tables))
        link = self.spec.link
        if evidence.negatives and link is not None and link.negatives is not None and link.negatives.known:
            counts += self._known(pa.concat_tables(evidence.negatives))
        return counts

    def _edges(self, name: str, drawn: pa.Table, seeds: Sequence[pa.Table]) -> _Counts:
        """Count the edges that contradict the snapshot, are too late for their seed, or connect a seed's ends."""
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
        counts = _counted(self._ask(query, {"drawn": drawn, "truth": truth}))
        if own:
            sources = {"drawn": drawn, "truth": truth, "seeds": pa.concat_tables(seeds)}
            counts += _counted(self._ask(_seen_pairs(self.spec), sources))
        return counts

    def _true_edges(self, name: str) -> str:
        """Return SELECT e_id, source, destination (dense), t, u of the requested edges. t is NULL for a static edge."""
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

    def _nodes(self, name: str, nodes: pa.Table) -> _Counts:
        """Count the nodes that are not in the snapshot, and those that did not exist yet at their seed's time."""
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

    def _known(self, negatives: pa.Table) -> _Counts:
        """Count the negatives that are known edges of their seed's source."""
        link = self.spec.link
        assert link is not None
        selects = " UNION ALL ".join(self._known_by(edge.edge) for edge in link.known_types)
        query = f"SELECT batch, count(DISTINCT n) AS exclusion FROM ({selects}) GROUP BY batch"
        return _counted(self._ask(query, {"negatives": negatives}))

    def _known_by(self, name: str) -> str:
        """Return SELECT batch, n of the negatives that are edges of one of the known edge types."""
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
        with self.context.store.sql_engine.session(Names(sources=sources)) as session:
            return session.table(query)


def _snapshot_truth(context: ExecutionContext, plan: SamplePlan) -> _Truth:
    """Return the snapshot of a sampler as read by SQL.

    Raises:
        CorruptError: A file of its tables is missing.
    """
    snapshot = plan.snapshot
    context.bind_context.views(snapshot)  # reports missing tables and files
    tables = tables_at(context.store.catalog_db, snapshot.version)
    layout = read_layout(context.store.db_dir, snapshot)
    ids = {v.name: IdMaps(context.store.catalog_db).read(v.map_id).sql(context.store.db_dir) for v in layout.vertices}
    return _Truth(context, plan.spec, snapshot_rows(snapshot, tables, context.store.db_dir.path), ids)


def _untimely(spec: SampleSpec) -> str:
    """Return SQL that is true if an edge valid from v.t to v.u must be invisible at d.s."""
    assert spec.temporal is not None
    inclusive, within = spec.temporal.inclusive, spec.temporal.within
    late = "v.t > d.s" if inclusive else "v.t >= d.s"
    # The type is HUGEINT because a seed's time minus an interval can exceed 64 bits.
    least = "d.s::HUGEINT" + (f" - {within}" if within is not None else "" if inclusive else " - 1")
    old = "false" if within is None else f"v.t < {least}"
    return f"{late} OR CASE WHEN v.lasting THEN v.t IS NOT NULL AND v.u <= {least} ELSE {old} END"


def _seen_pairs(spec: SampleSpec) -> str:
    """Return SELECT batch, exclusion: the number of edges that connect a seed's ends (in trees, of its own seed)."""
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
    """Return SQL for the start (t) and end (u) of an edge. They are NULL for a static edge or one without an end."""
    t = "NULL::BIGINT" if rows.time is None else time_expression(rows.time, "v.")
    u = "NULL::BIGINT" if rows.end is None else end_expression(rows.end, "v.")
    return f"{t} AS t, {u} AS u, {str(rows.end is not None).lower()} AS lasting"


def _same(key: Sequence[str], alias: str) -> str:
    return " AND ".join(f"v.{quote(column)} = {alias}.k{i}" for i, column in enumerate(key))


def _counted(table: pa.Table) -> _Counts:
    batches = table["batch"].to_pylist()
    checks = [name for name in table.column_names if name != "batch"]
    pairs = {(b, name): n for name in checks for b, n in zip(batches, table[name].to_pylist(), strict=True)}
    return Counter(pairs)


def _wrong_values(view: GraphView, seeds: Seeds, batch: Batch) -> int:
    """Count the nodes whose value is not the last one before both their seed's time and the window's end."""
    wrong = 0
    for kind, features in view.node_features.items():
        for name, feature in features.items():
            if isinstance(feature, HistoryFeature) and kind in batch.n_id:
                ids, delivered = _array(batch.n_id[kind]), _array(batch.features[kind][name])
                expected = _known(feature, ids, _bounds(feature, batch, kind, seeds))
                wrong += int((_bytes(delivered) != _bytes(expected)).any(axis=1).sum())
    return wrong


def _bounds(feature: HistoryFeature, batch: Batch, kind: str, seeds: Seeds) -> Int64s:
    """Return the time that each node's value must precede, as [nodes] int64."""
    stop = FOREVER if feature.stop is None else feature.stop
    times = _seed_times(batch, seeds)
    if times is None or not batch.batch:
        return np.full(len(batch.n_id[kind]), stop)
    bounds: Int64s = np.minimum(times[_array(batch.batch[kind])], stop)
    return bounds


def _known(feature: HistoryFeature, ids: Int64s, before: Int64s) -> Array:
    """Return the last value of each node before a time, or the default if there is none."""
    start, stop = feature.history.indptr[ids], feature.history.indptr[ids + 1]
    lengths = stop - start
    node = np.repeat(np.arange(ids.size), lengths)
    places = np.arange(node.size) - np.repeat(np.cumsum(lengths) - lengths, lengths) + start[node]
    early = feature.history.time[places] < before[node]
    known = np.bincount(node[early], minlength=ids.size)
    out: Array = np.tile(feature.decode(feature.blank[None]), (ids.size, 1))
    some = known > 0
    out[some] = feature.decode(feature.history.rows[(start + known - 1)[some]])
    return out


def _bytes(values: Array) -> UInt8s:
    """Return the values as [nodes, bytes], so that NaN equals NaN."""
    return np.ascontiguousarray(values).view(np.uint8)


def _array(tensor: Any) -> Array:
    array: Array = tensor.cpu().numpy()
    return array


@dataclass(slots=True)
class _Evidence:
    """Tables of facts about batches, which SQL compares with the user's tables.

    `batch` is a batch number, `tree` the index of a seed in the batch (-1 without trees), and `s` the seed's time (NULL
    if there is none). Vertices are dense ids.
    """

    edges: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """By edge type: batch, tree, s, e_id, source, destination, and two flags. `either` means that the ends can be
    swapped, and `crosses` that the edge connects two trees."""
    seeds: list[pa.Table] = field(default_factory=list)
    """Seed edges: batch, tree, s, e_id."""
    negatives: list[pa.Table] = field(default_factory=list)
    """Negatives: batch, n (a unique number), s, source, destination."""
    nodes: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """By vertex type: batch, id, s, and role, which is 'seed', 'negative' or 'neighbour'."""
    size: int = 0
    """The total number of rows of the tables."""

    def add(self, number: int, batch: Batch, seeds: Seeds, relations: Iterable[Relation]) -> None:
        """Add a batch. Its seeds come from the seed set, not from the batch."""
        times = _seed_times(batch, seeds)
        for relation in relations:
            self._keep(self.edges[relation.edge.edge], number, _edges(batch, relation, times))
        if batch.edge_label_index is not None:
            self._keep(self.seeds, number, _seed_edges(batch, seeds, times))
            self._keep(self.negatives, number, _negatives(batch, times))
        for kind, columns in _nodes(batch, times):
            self._keep(self.nodes[kind], number, columns)

    def _keep(self, tables: list[pa.Table], number: int, columns: dict[str, Any]) -> None:
        rows = len(columns["s"])
        tables.append(pa.table({"batch": pa.array(np.full(rows, number)), **columns}))
        self.size += rows


def _seed_times(batch: Batch, seeds: Seeds) -> Int64s | None:
    """Return the [batch_size] times of a batch's seeds from the seed set, or None if there are no times."""
    return None if seeds.time is None else seeds.time[_array(batch.input_id)]


def _edges(batch: Batch, relation: Relation, times: Int64s | None) -> dict[str, Any]:
    key = relation.key
    index = _array(batch.edge_index[key])
    far, near = (_array(batch.n_id[kind])[ids] for kind, ids in zip((key.source, key.destination), index, strict=True))
    source, destination = (near, far) if relation.direction == "OUT" else (far, near)
    tree, crosses = np.full(near.size, -1), np.zeros(near.size, np.bool_)
    if batch.batch:
        tree = _array(batch.batch[key.destination])[index[1]]
        crosses = _array(batch.batch[key.source])[index[0]] != tree
    return {
        "tree": pa.array(tree),
        "s": _seed_moments(times if batch.batch else None, tree),
        "e_id": pa.array(_array(batch.e_id[key])),
        "source": pa.array(source),
        "destination": pa.array(destination),
        "either": pa.array(np.full(near.size, relation.direction == "BOTH")),
        "crosses": pa.array(crosses),
    }


def _seed_edges(batch: Batch, seeds: Seeds, times: Int64s | None) -> dict[str, Any]:
    trees = np.arange(batch.batch_size)
    ids = seeds.ids[_array(batch.input_id)]
    return {"tree": pa.array(trees), "s": _seed_moments(times, trees), "e_id": pa.array(ids)}


def _negatives(batch: Batch, times: Int64s | None) -> dict[str, Any]:
    edge = EdgeType(*batch.seed_type)
    seed, local = _drawn(batch)
    return {
        "n": pa.array(np.arange(local.size)),
        "s": _seed_moments(times, seed),
        "source": pa.array(_array(batch.n_id[edge.source])[_array(batch.src_index)[seed]]),
        "destination": pa.array(_array(batch.n_id[edge.destination])[local]),
    }


def _nodes(batch: Batch, times: Int64s | None) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the seeds and negatives with their times, and for trees the other nodes too."""
    for kind, role, seed, local in _entered(batch):
        yield kind, _roles(role, _array(batch.n_id[kind])[local], times, seed)
    for kind, trees in batch.batch.items():
        yield kind, _roles("neighbour", _array(batch.n_id[kind]), times, _array(trees))


def _entered(batch: Batch) -> Iterable[tuple[str, str, Int64s, Int64s]]:
    """Yield the vertex type, role, seeds and local ids of each group."""
    places = np.arange(batch.batch_size)
    if batch.edge_label_index is None:
        yield batch.seed_type, "seed", places, places
        return
    edge = EdgeType(*batch.seed_type)
    source, destination = _array(batch.edge_label_index)[:, : batch.batch_size]
    yield edge.source, "seed", places, source
    yield edge.destination, "seed", places, destination
    yield edge.destination, "negative", *_drawn(batch)


def _drawn(batch: Batch) -> tuple[Int64s, Int64s]:
    """Return the seed and the local id of each negative."""
    if batch.dst_neg_index is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    local = _array(batch.dst_neg_index).reshape(batch.batch_size, -1)
    drawn = local >= 0
    return np.nonzero(drawn)[0], local[drawn]


def _roles(role: str, ids: Int64s, times: Int64s | None, seed: Int64s) -> dict[str, Any]:
    return {"id": pa.array(ids), "s": _seed_moments(times, seed), "role": pa.array([role]).take(pa.array(seed * 0))}


def _seed_moments(times: Int64s | None, seed: Int64s) -> pa.Array:
    return pa.nulls(seed.size, pa.int64()) if times is None else pa.array(times[seed])
