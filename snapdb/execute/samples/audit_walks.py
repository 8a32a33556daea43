"""AUDIT WALK: compares every step of a walk with the tables in SQL, and counts violations by rule.

The walks are the ones that a trainer would receive. The audit is independent of the walker: it looks up edges by id in
the snapshot's views, reads times from the tables, and searches the tables for edges with which a walk that ended could
have continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb import loading
from snapdb.arrays import Array, Bools, Int64s
from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import time_expression
from snapdb.catalog.system_tables import listing
from snapdb.execute.results import Rows
from snapdb.execute.samples.audit_truth import (
    CHUNK,
    FIELDS,
    Counts,
    SnapshotTruth,
    counted,
    listed,
    moments,
    same_key,
    untimely,
)
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.loading.source import StreamOptions
from snapdb.loading.walk_steps import against_clock, clock_before, pair_columns, wrong_steps
from snapdb.plan.samples import SamplePlan
from snapdb.sampling import Seeds
from snapdb.sql_engine import quote
from snapdb.storage.array_files import STATIC
from snapdb.types import Relation
from snapdb.types.sampling import RandomWalk

if TYPE_CHECKING:
    from snapdb.loading.walk_batch import WalkBatch

_WALK_CHECKS = ("steps", "time", "snapshot", "dead end", "pairs")
"""The checks, in the order of the result. 'steps': walks that do not start at their seed, continue after their end, or
restart elsewhere. 'time': edges and vertices later than their seed's time, or against the clock of their walk.
'snapshot': edges and vertices that are not in the snapshot, or have other ends. 'dead end': walks that ended although
an edge leads on. 'pairs': pairs that are not those of the walks."""


def audit_walks(plan: SamplePlan, walk: RandomWalk, context: ExecutionContext) -> Rows:
    """Run AUDIT WALK: walk from the seeds of the epochs, and return one row per batch and check."""
    # Yield an empty batch first, so that a result without batches also has a schema.
    yield listing(FIELDS, [])
    truth = _WalkTruth.of(context, plan)
    opened = open_sample(context, plan)
    try:
        context.check_stopped()
        with plan.places.under(), loading.BatchStream(opened, StreamOptions(max_threads=context.threads)) as stream:
            every: Any = stream
            batches = _batches(context, plan, every, len(stream))
            yield from _audited_walks(truth, walk, opened.seeds, batches)
    finally:
        opened.release()
    return None


def _batches(
    context: ExecutionContext, plan: SamplePlan, stream: Iterable[WalkBatch], total: int
) -> Iterator[WalkBatch]:
    for epoch in range(plan.epochs if total else 0):
        for index, batch in enumerate(stream):
            yield batch
            context.step(f"auditing {plan.spec.snapshot}", (epoch + min(1.0, (index + 1) / total)) / plan.epochs)


def _audited_walks(
    truth: _WalkTruth, walk: RandomWalk, seeds: Seeds, batches: Iterable[WalkBatch], chunk: int = CHUNK
) -> Iterator[pa.RecordBatch]:
    """Yield `batch, check, violations` for the batches, numbered from 0. About `chunk` steps are compared at once."""
    evidence, first, number = _Evidence(), 0, -1
    for number, batch in enumerate(batches):
        evidence.add(number, batch, seeds)
        if evidence.size >= chunk:
            yield listed(
                first, number + 1, _WALK_CHECKS, evidence.violations + truth.violations(walk, evidence.joined())
            )
            evidence, first = _Evidence(), number + 1
    if first <= number:
        yield listed(first, number + 1, _WALK_CHECKS, evidence.violations + truth.violations(walk, evidence.joined()))


class _Walks(NamedTuple):
    """The walks of several batches."""

    batch: Int64s
    """[walks] batch numbers."""
    s: Int64s | None
    """[walks] the times of the seeds, or None if there are no times."""
    nodes: Int64s
    """[walks, length + 1] dense ids, or -1."""
    e_id: Int64s
    """[walks, length] edge ids, or -1."""
    negatives: tuple[tuple[str, Int64s, Int64s], ...]
    """Vertex type, [negatives] the walk of each negative, and [negatives] their dense ids."""


@dataclass(slots=True)
class _Evidence:
    """The walks of several batches, and the violations that can be detected without SQL."""

    walks: list[_Walks] = field(default_factory=list)
    violations: Counts = field(default_factory=Counter)
    size: int = 0
    """The number of steps and negatives."""

    def add(self, number: int, batch: WalkBatch, seeds: Seeds) -> None:
        """Add a batch. Its seeds come from the seed set, not from the batch."""
        nodes, e_id, ordinals = _array(batch.walks), _array(batch.e_id), _array(batch.input_id)
        strays = nodes[:, 0] != np.repeat(seeds.ids[ordinals], batch.per_seed)
        self.violations[number, "steps"] += int(wrong_steps(nodes, e_id, batch.per_seed).sum() + strays.sum())
        self.violations[number, "pairs"] += batch.audit()["pairs"]
        times = None if seeds.time is None else np.repeat(seeds.time[ordinals], batch.per_seed)
        negatives = tuple(_negatives(batch, nodes))
        self.walks.append(_Walks(np.full(len(nodes), number), times, nodes, e_id, negatives))
        self.size += nodes.size + sum(ids.size for _, _, ids in negatives)

    def joined(self) -> _Walks:
        """Return the walks of all batches."""
        batch, s, nodes, e_id, _ = zip(*self.walks, strict=True)
        starts = np.cumsum([0, *(len(part) for part in nodes)])
        negatives = tuple(
            (kind, walk + start, ids)
            for start, walks in zip(starts, self.walks, strict=False)
            for kind, walk, ids in walks.negatives
        )
        times = None if s[0] is None else np.concatenate(s)
        return _Walks(np.concatenate(batch), times, np.concatenate(nodes), np.concatenate(e_id), negatives)


def _negatives(batch: WalkBatch, nodes: Int64s) -> Iterator[tuple[str, Int64s, Int64s]]:
    """Yield the negatives of a batch by vertex type, with the walk of their pair."""
    if batch.negatives is None or batch.pairs is None:
        return
    window = batch.lineage["rules"]["walk"]["window"]
    there = nodes >= 0
    near = pair_columns(nodes.shape[1], window)
    per_walk = sum((there[:, i] & there[:, j] for i, j in near), np.zeros(len(nodes), np.int64))
    drawn = _array(batch.negatives)
    walk = np.repeat(np.repeat(np.arange(len(nodes)), per_walk), drawn.shape[1])[: drawn.size]
    numbers = drawn.ravel()[: walk.size]
    bounds = [*batch.node_offsets.values(), batch.num_nodes]
    for name, low, high in zip(batch.node_offsets, bounds, bounds[1:], strict=False):
        own = (numbers >= low) & (numbers < high)
        if own.any():
            yield name, walk[own], numbers[own] - low


class _Step(NamedTuple):
    """The truth about the edges of all steps, as [walks, length] arrays."""

    known: Bools
    """Whether the edge is in the snapshot, with the ends of the step."""
    late: Bools
    """Whether the edge is outside the time bounds of the seed."""
    time: Int64s
    """The time of the edge, or STATIC."""


@dataclass(frozen=True, slots=True)
class _WalkTruth(SnapshotTruth):
    """The truth that walks are compared with."""

    def violations(self, walk: RandomWalk, walks: _Walks) -> Counts:
        """Count the violations by comparing walks with the tables."""
        steps = self._steps(walk, walks)
        there = walks.e_id >= 0
        clock = clock_before(np.where(there, steps.time, STATIC), walks.e_id, walks.nodes)
        backward = against_clock(walk.clock, steps.time, clock, strict=walk.strict)
        counts = _summed("snapshot", walks.batch, there & ~steps.known)
        counts += _summed("time", walks.batch, there & (steps.late | backward))
        counts += self._vertices(walk, walks)
        for place, relation in enumerate(walk.steps[: walk.length]):
            counts += self._dead_ends(walk, walks, clock, place, relation)
        return counts

    def _steps(self, walk: RandomWalk, walks: _Walks) -> _Step:
        """Look up the edges of all steps in the tables."""
        shape = walks.e_id.shape
        known, late, time = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_), np.full(shape, STATIC, np.int64)
        for place, relation in enumerate(walk.steps[: walk.length]):
            columns = np.arange(place, walk.length, len(walk.steps))
            own = np.zeros(shape, np.bool_)
            own[:, columns] = walks.e_id[:, columns] >= 0
            row, column = np.nonzero(own)
            if not row.size:
                continue
            drawn = pa.table(
                {
                    "n": pa.array(np.arange(row.size)),
                    "s": _moments(walks.s, row),
                    "e_id": pa.array(walks.e_id[row, column]),
                    "near": pa.array(walks.nodes[row, column]),
                    "far": pa.array(walks.nodes[row, column + 1]),
                }
            )
            found = self._looked_up(relation, drawn)
            known[row, column], late[row, column], time[row, column] = found
        return _Step(known, late, time)

    def _looked_up(self, relation: Relation, drawn: pa.Table) -> tuple[Bools, Bools, Int64s]:
        """Return whether each edge is known, whether it is untimely, and its time."""
        truth = self.ask(self.true_edges(relation.edge.edge), {"wanted": drawn.select(["e_id"])})
        out = "(v.source = d.near AND v.destination = d.far)"
        back = "(v.source = d.far AND v.destination = d.near)"
        same = {"OUT": out, "IN": back, "BOTH": f"({out} OR {back})"}[relation.direction]
        late = "false" if self.spec.temporal is None else untimely(self.spec)
        rows = self.ask(
            f"""SELECT v.e_id IS NOT NULL AND {same} AS known, coalesce({late}, false) AS late,
                coalesce(v.t, {STATIC}) AS time
                FROM drawn d LEFT JOIN truth v ON d.e_id = v.e_id ORDER BY d.n""",
            {"drawn": drawn, "truth": truth},
        )
        known, late_, time = (rows[name].to_numpy() for name in ("known", "late", "time"))
        return known, late_, time

    def _vertices(self, walk: RandomWalk, walks: _Walks) -> Counts:
        """Count the vertices and negatives that are not in the snapshot, or did not exist yet at their seed's time."""
        counts: Counts = Counter()
        types = np.array(walk.vertex_types)
        bounded = walks.s if self.spec.temporal is not None else None
        for name in dict.fromkeys(walk.vertex_types):
            columns = np.flatnonzero(types == name)
            # A seed may exist only from its own time on, so it is not compared with that time.
            row, column = np.nonzero(walks.nodes[:, columns] >= 0)
            column = columns[column]
            arrays = [(row, walks.nodes[row, column], column > 0)]
            arrays += [(at, ids, np.ones(ids.size, np.bool_)) for kind, at, ids in walks.negatives if kind == name]
            row, ids, later = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
            starts = walks.nodes[row, 0] == ids if name == walk.vertex_types[0] else np.zeros(row.size, np.bool_)
            role = pa.array(["seed", "neighbour"]).take(pa.array((later & ~starts).astype(np.int64)))
            nodes = pa.table(
                {"batch": pa.array(walks.batch[row]), "id": pa.array(ids), "s": _moments(bounded, row), "role": role}
            )
            found = self.nodes(name, nodes.group_by(["batch", "id", "s", "role"]).aggregate([]))
            counts += Counter({key: count for key, count in found.items() if key[1] in _WALK_CHECKS})
        return counts

    def _dead_ends(self, walk: RandomWalk, walks: _Walks, clock: Int64s, place: int, relation: Relation) -> Counts:
        """Count the walks that ended at a step although the tables have an eligible edge for it."""
        columns = np.arange(place, walk.length, len(walk.steps))
        ended = (walks.nodes[:, columns] >= 0) & (walks.nodes[:, columns + 1] < 0)
        row, column = np.nonzero(ended)
        if not row.size:
            return Counter()
        column = columns[column]
        before = clock[row, column]
        dead = pa.table(
            {
                "batch": pa.array(walks.batch[row]),
                "n": pa.array(np.arange(row.size)),
                "s": _moments(walks.s, row),
                "near": pa.array(walks.nodes[row, column]),
                "clock": pa.array(before, mask=before == STATIC),
            }
        )
        directions = ("IN", "OUT") if relation.direction == "BOTH" else (relation.direction,)
        onward = " UNION ALL ".join(self._onward(walk, relation, direction) for direction in directions)
        query = f'SELECT batch, count(DISTINCT n) AS "dead end" FROM ({onward}) GROUP BY batch'
        return counted(self.ask(query, {"dead": dead}))

    def _onward(self, walk: RandomWalk, relation: Relation, direction: str) -> str:
        """Return SELECT batch, n of the ended walks that an edge in this direction could have continued."""
        rows = self.rows[relation.edge.edge]
        assert isinstance(rows, EdgeRows)
        element = rows.element
        ends = [(element.source, element.source_key), (element.destination, element.destination_key)]
        (near, near_key), (far, far_key) = ends if direction == "OUT" else ends[::-1]
        wanted = "SELECT DISTINCT near FROM dead"
        conditions = ["true"]
        if self.spec.temporal is not None:
            conditions.append(f"NOT coalesce({untimely(self.spec)}, false)")
        if walk.clock != "any":
            sign = {"forward": ">", "backward": "<"}[walk.clock] + ("" if walk.strict else "=")
            conditions.append(f"(v.t IS NULL OR d.clock IS NULL OR v.t {sign} d.clock)")
        if (weight := dict(self.spec.drawing.weights).get(element.name)) and self.spec.drawing.weighted:
            conditions.append("v.weight > 0")
            weighed = f", v.{quote(weight)} AS weight"
        else:
            weighed = ""
        born = self._born(far)
        if self.spec.temporal is not None and born is not None:
            sign = "<=" if self.spec.temporal.inclusive else "<"
            conditions.append(f"(v.born IS NULL OR v.born {sign} d.s)")
        birth = ", f.born" if born is not None else ""
        reached = f"({self.ids[far]})" if born is None else f"({born})"
        edges = f"""SELECT m.dense AS near, {moments(rows)}{weighed}{birth} FROM ({rows.sql}) v
            JOIN (SELECT * FROM ({self.ids[near]}) WHERE dense IN ({wanted})) m ON {same_key(near_key, "m")}
            JOIN {reached} f ON {same_key(far_key, "f")}"""
        return f"SELECT d.batch, d.n FROM dead d JOIN ({edges}) v ON d.near = v.near WHERE {' AND '.join(conditions)}"

    def _born(self, name: str) -> str | None:
        """Return SELECT k0, k1, …, dense, born of a vertex type, or None if it has no event time."""
        rows = self.rows[name]
        assert isinstance(rows, VertexRows)
        if rows.time is None or self.spec.temporal is None:
            return None
        key = rows.element.key
        return f"""SELECT m.*, {time_expression(rows.time, "v.")} AS born FROM ({rows.sql}) v
            JOIN ({self.ids[name]}) m ON {same_key(key, "m")}"""


def _summed(check: str, batch: Int64s, wrong: Bools) -> Counts:
    """Return the number of wrong steps by batch."""
    row, _ = np.nonzero(wrong)
    numbers, counts = np.unique(batch[row], return_counts=True)
    return Counter({(number, check): count for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)})


def _moments(times: Int64s | None, walk: Int64s) -> pa.Array:
    return pa.nulls(walk.size, pa.int64()) if times is None else pa.array(times[walk])


def _array(tensor: Any) -> Array:
    array: Array = tensor.cpu().numpy()
    return array
