"""AUDIT SAMPLE and AUDIT WALK: compares every batch of a sampler with the tables in SQL, and counts violations by rule.

The batches are the ones that a trainer would receive. The audit is independent of the sampler: it looks up edges by id
in the snapshot's views, reads times from the tables, and looks up values with a history again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from snapdb import loading
from snapdb.arrays import Array, Int64s, UInt8s
from snapdb.catalog import EdgeRows
from snapdb.catalog.system_tables import listing
from snapdb.execute.results import Rows
from snapdb.execute.samples.audit_truth import CHUNK, FIELDS, Counts, SnapshotTruth, counted, listed, moments, untimely
from snapdb.execute.samples.audit_walks import audit_walks
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView
from snapdb.graph.features import HistoryFeature
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan.samples import AuditPlan
from snapdb.sampling import Seeds
from snapdb.sql_engine import quote
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.types import EdgeType, Relation, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading import Batch, BatchStream


_CHECKS = ("time", "feature time", "snapshot", "exclusion", "target horizon")
"""The checks, in the order of the result. 'time': edges and vertices later than their seed's time. 'feature time':
values not known at that time. 'snapshot': edges and vertices that are not in the snapshot. 'exclusion': edges that are
excluded for their seeds. 'target horizon': targets of nodes other than seeds, and seeds that did not exist yet."""


def audit(plan: AuditPlan, context: ExecutionContext) -> Rows:
    """Run AUDIT SAMPLE or AUDIT WALK: build the batches of the epochs, and return one row per batch and check."""
    sample = plan.sample
    if sample.spec.walk is not None:
        yield from audit_walks(sample, sample.spec.walk, context)
        return None
    # Yield an empty batch first, so that a result without batches also has a schema.
    yield listing(FIELDS, [])
    truth = _Truth.of(context, sample)
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
    truth: _Truth, opened: StreamSource, relations: list[Relation], batches: Iterable[Batch], chunk: int = CHUNK
) -> Iterator[pa.RecordBatch]:
    """Yield `batch, check, violations` for the batches, numbered from 0. About `chunk` rows are compared at once."""
    evidence, violations, first, number = _Evidence(), Counts(), 0, -1
    for number, batch in enumerate(batches):
        evidence.add(number, batch, opened.seeds, relations)
        violations += _of_batch(number, batch, opened)
        if evidence.size >= chunk:
            yield listed(first, number + 1, _CHECKS, violations + truth.violations(evidence))
            evidence, violations, first = _Evidence(), Counts(), number + 1
    if first <= number:
        yield listed(first, number + 1, _CHECKS, violations + truth.violations(evidence))


def _batches(context: ExecutionContext, stream: BatchStream, epochs: int) -> Iterator[Batch]:
    for epoch in range(epochs if len(stream) else 0):
        for index, batch in enumerate(stream):
            yield batch
            context.step(f"auditing {stream.spec.snapshot}", (epoch + (index + 1) / len(stream)) / epochs)


def _of_batch(number: int, batch: Batch, opened: StreamSource) -> Counts:
    """Return the violations that can be detected without SQL."""
    targets = 0 if batch.y is None else max(0, len(batch.y) - batch.batch_size)
    violations = {"feature time": _wrong_values(opened.view, opened.seeds, batch), "target horizon": targets}
    return Counter({(number, check): count for check, count in violations.items()})


@dataclass(frozen=True, slots=True)
class _Truth(SnapshotTruth):
    """The truth that the edges, vertices and negatives of sampled batches are compared with."""

    def violations(self, evidence: _Evidence) -> Counts:
        """Count the violations by comparing the evidence with the tables."""
        counts: Counts = Counter()
        for name, tables in evidence.edges.items():
            counts += self._edges(name, pa.concat_tables(tables), evidence.seeds)
        for name, tables in evidence.nodes.items():
            counts += self.nodes(name, pa.concat_tables(tables))
        link = self.spec.link
        if evidence.negatives and link is not None and link.negatives is not None and link.negatives.known:
            counts += self._known(pa.concat_tables(evidence.negatives))
        return counts

    def _edges(self, name: str, drawn: pa.Table, seeds: Sequence[pa.Table]) -> Counts:
        """Count the edges that contradict the snapshot, are too late for their seed, or connect a seed's ends."""
        link = self.spec.link
        own = seeds and link is not None and link.edge.edge == name and link.exclude != "NONE"
        wanted = pa.concat_tables([table.select(["e_id"]) for table in (drawn, *(seeds if own else ()))])
        truth = self.ask(self.true_edges(name), {"wanted": wanted})
        same = "(d.source = v.source AND d.destination = v.destination)"
        turned = "(d.either AND d.source = v.destination AND d.destination = v.source)"
        late = f"v.e_id IS NOT NULL AND ({untimely(self.spec)})" if self.spec.temporal is not None else "false"
        query = f"""SELECT d.batch, count(*) FILTER (v.e_id IS NULL OR NOT ({same} OR {turned})) AS snapshot,
            count(*) FILTER (d.crosses OR ({late})) AS time
            FROM drawn d LEFT JOIN truth v ON d.e_id = v.e_id GROUP BY d.batch"""
        counts = counted(self.ask(query, {"drawn": drawn, "truth": truth}))
        if own:
            sources = {"drawn": drawn, "truth": truth, "seeds": pa.concat_tables(seeds)}
            counts += counted(self.ask(_seen_pairs(self.spec), sources))
        return counts

    def _known(self, negatives: pa.Table) -> Counts:
        """Count the negatives that are known edges of their seed's source."""
        link = self.spec.link
        assert link is not None
        selects = " UNION ALL ".join(self._known_by(edge.edge) for edge in link.known_types)
        query = f"SELECT batch, count(DISTINCT n) AS exclusion FROM ({selects}) GROUP BY batch"
        return counted(self.ask(query, {"negatives": negatives}))

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
            JOIN (SELECT {columns}, {moments(rows)} FROM ({rows.sql}) v) v
              ON {" AND ".join(f"v.c{i} = {key}" for i, key in enumerate(same))}
            WHERE {known}"""


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
        "s": _seedmoments(times if batch.batch else None, tree),
        "e_id": pa.array(_array(batch.e_id[key])),
        "source": pa.array(source),
        "destination": pa.array(destination),
        "either": pa.array(np.full(near.size, relation.direction == "BOTH")),
        "crosses": pa.array(crosses),
    }


def _seed_edges(batch: Batch, seeds: Seeds, times: Int64s | None) -> dict[str, Any]:
    trees = np.arange(batch.batch_size)
    ids = seeds.ids[_array(batch.input_id)]
    return {"tree": pa.array(trees), "s": _seedmoments(times, trees), "e_id": pa.array(ids)}


def _negatives(batch: Batch, times: Int64s | None) -> dict[str, Any]:
    edge = EdgeType(*batch.seed_type)
    seed, local = _drawn(batch)
    return {
        "n": pa.array(np.arange(local.size)),
        "s": _seedmoments(times, seed),
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
    return {"id": pa.array(ids), "s": _seedmoments(times, seed), "role": pa.array([role]).take(pa.array(seed * 0))}


def _seedmoments(times: Int64s | None, seed: Int64s) -> pa.Array:
    return pa.nulls(seed.size, pa.int64()) if times is None else pa.array(times[seed])
