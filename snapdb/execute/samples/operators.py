"""The operators of SAMPLE, which returns rows, and of CREATE SAMPLER."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Int64s
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView
from snapdb.graph.features import HistoryFeature, SparseReader
from snapdb.graph.view import Adjacency
from snapdb.loading.budgets import enough_memory, scratch_bytes
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.loading.visited_rounds import VisitedRounds
from snapdb.loading.workers import OrderedMap
from snapdb.plan.samples import CreateSamplerPlan, SamplePlan
from snapdb.plan.samples.plans import unreached_fanouts
from snapdb.sampling import Block, Ints, Scratch, SeedExpansion, Seeds, Subgraph, batches_before, epoch_order
from snapdb.sampling.backends import open_sampler
from snapdb.storage.tables.commit import put_name
from snapdb.types import Relation, Sampler, SampleSpec
from snapdb.types.text import counted

_SHOWN = 3
"""The maximum number of fanouts that a notice names."""


def sample(plan: SamplePlan, context: ExecutionContext) -> Rows:
    """Run SAMPLE: return one row per sampled edge, with the keys of the user's tables, in batch order."""
    opened = open_sample(context, plan)
    try:
        context.check_stopped()
        with plan.places.under():
            maker = RowMaker(opened)
        # Yield an empty batch first, so that a result without edges also has a schema.
        yield pa.RecordBatch.from_pylist([], schema=maker.schema)
        yield from _sampled_rows(context, plan, opened, maker)
    finally:
        opened.release()
    return None


def _sampled_rows(
    context: ExecutionContext, plan: SamplePlan, opened: StreamSource, maker: RowMaker
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all batches in order. One or more threads build the rows, and stop when the reader stops."""

    def rows_of(task: _BatchSeeds) -> list[pa.RecordBatch]:
        context.check_stopped()
        return maker.rows(task)

    total = batches_before(opened.seeds.ids.size, opened.spec, plan.epochs)
    options = StreamOptions(threads=plan.hints.threads, max_threads=context.threads)
    threads = 1 if maker.in_order else min(options.threads_of(1, on_gpu=maker.on_gpu), total)
    epochs = range(plan.epochs if total else 0)
    tasks = (task for epoch in epochs for task in epoch_batches(opened.seeds, opened.spec, epoch))
    if threads <= 1:
        yield from _read(context, plan, map(rows_of, tasks), total)
        return
    results: OrderedMap[_BatchSeeds, list[pa.RecordBatch]] = OrderedMap(
        rows_of, tasks, threads=threads, room=lambda under_way: maker.room(threads + 1)
    )
    try:
        yield from _read(context, plan, results, total)
    finally:
        results.close()


def epoch_batches(seeds: Seeds, spec: SampleSpec, epoch: int) -> Iterator[_BatchSeeds]:
    """Yield the batches of one epoch, in order."""
    order = epoch_order(seeds, spec.seed, epoch, spec.order, spec.subset)
    first = batches_before(seeds.ids.size, spec, epoch)
    for index, start in enumerate(range(0, order.size, spec.batch_size)):
        yield _BatchSeeds(first + index, epoch, index, order[start : start + spec.batch_size])


def _read(
    context: ExecutionContext, plan: SamplePlan, results: Iterator[list[pa.RecordBatch]], total: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of every batch, and report progress before each batch."""
    for number in range(total):
        context.step(f"sampling {plan.spec.snapshot}", number / total)
        yield from next(results)


def create_sampler(plan: CreateSamplerPlan, context: ExecutionContext) -> Rows:
    """Run CREATE SAMPLER: insert the sampler's catalog row, or replace the existing row."""
    yield from ()
    sampler = replace(plan.sampler, text=_text(context, plan))
    with context.store.catalog_db.writing(publishes=True) as connection:
        put_name(connection, sampler, plan.replaces)
    text = f"{_sampler_text(sampler)}{_unreached(plan.sample.spec)}"
    return Outcome(f"sampler {sampler.name} of snapshot {sampler.snapshot}: {text}")


def _text(context: ExecutionContext, plan: CreateSamplerPlan) -> str:
    """Return the sampler's text. REFRESH EVERY AUTO is resolved to the current number of batches."""
    refresh = plan.sample.spec.refresh
    if refresh is None or refresh.every is not None:
        return plan.sampler.text
    opened = open_sample(context, plan.sample)
    opened.release()
    return opened.spec.text


def _sampler_text(sampler: Sampler) -> str:
    edges = " edges" if sampler.edges else ""
    return f"batches of {sampler.batch:,} {sampler.seeds}{edges}, {counted(sampler.hops, 'hop')}"


def _unreached(spec: SampleSpec) -> str:
    """Return a notice that lists the fanouts that no hop can use, or '' if there are none."""
    names = [f"{fanout.edge.edge} {fanout.direction}" for fanout in unreached_fanouts(spec)]
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; not reachable from the seeds: {', '.join(names[:_SHOWN])}{more} (EXPLAIN shows each hop)"


@dataclass(frozen=True, slots=True)
class _BatchSeeds:
    """The seeds of a batch, from which its rows are built."""

    number: int
    """The batch number, counted over all epochs."""
    epoch: int
    index: int
    """The batch number within the epoch."""
    ordinals: Int64s
    """The ordinals of the seeds."""


class RowMaker:
    """Builds the rows of batches. Several threads share it, and a thread borrows one scratch buffer per batch."""

    def __init__(self, opened: StreamSource) -> None:
        """Open the sampler, and read the keys that the rows contain."""
        spec = opened.spec
        self._view, self._spec, self._hints = opened.view, spec, opened.hints
        self._sampler = open_sampler(opened.view, replace(opened.hints.applied(spec), ids="int64"))
        self._expansion = SeedExpansion(opened.view, spec, opened.seeds)
        self._idle: deque[Scratch] = deque()  # append and pop are atomic, so no lock is necessary
        self._adjacency: dict[Relation, Adjacency] = {
            traversal.relation: traversal.adjacency for traversal in self._sampler.traversals
        }
        self._visits = VisitedRounds(spec, self._sampler.traversals) if self.in_order else None
        self._largest = 0
        self.schema = _schema(opened.view, list(self._adjacency))

    @property
    def on_gpu(self) -> bool:
        """Whether sampling runs on a GPU."""
        return self._sampler.on_gpu

    @property
    def in_order(self) -> bool:
        """Whether rows depend on the accesses of earlier batches, so that batches must be built in order."""
        return self._spec.in_order

    def rows(self, task: _BatchSeeds) -> list[pa.RecordBatch]:
        """Return the edges of a batch, hop by hop, in sampling order. Any thread can call this."""
        try:
            scratch = self._idle.pop()
        except IndexError:
            scratch = self._sampler.scratch()
        with enough_memory(task.epoch, task.index):
            entry = self._expansion.entry(task.ordinals, task.epoch)
            sample = partial(self._sampler.sample, entry, task.number, scratch)
            subgraph = sample() if self._visits is None else self._visits.sampled(task.number, sample)
            self._idle.append(scratch)
            if self._visits is not None:
                self._visits.forget(task.number)
            self._gather(subgraph)
            blocks = list(self._blocks(task.number, subgraph))
        if self._spec.memory is not None:
            # The sampled arrays and the rows built from them have about the same size.
            self._largest = max(self._largest, scratch_bytes(scratch) + 2 * sum(rows.nbytes for rows in blocks))
        return blocks

    def room(self, most: int) -> int:
        """Return the number of batches that can be in progress or unread within the statement's memory limit."""
        limit = self._spec.memory
        if limit is None:
            return most
        return max(1, min(most, limit // self._largest)) if self._largest else 1

    def _gather(self, subgraph: Subgraph) -> None:
        """Read features and targets as a batch does, unless an optimizer rule removed them."""
        if self._hints.reads is not None:
            return
        for kind, nodes in subgraph.nodes.items():
            ids = _on_host(nodes)
            for feature in (*self._view.node_features.get(kind, {}).values(), *_listed(self._view.targets.get(kind))):
                if isinstance(feature, SparseReader):
                    feature.read_sparse(ids)
                elif not isinstance(feature, HistoryFeature):  # values with a history are read per batch
                    feature.read(ids)

    def _blocks(self, number: int, subgraph: Subgraph) -> Iterator[pa.RecordBatch]:
        for hop, blocks in enumerate(subgraph.hops):
            for block in blocks:
                if block.position.shape[0]:
                    rows = self._adjacency[block.relation]
                    yield _rows(self._view, rows, subgraph, number, hop, block, self.schema)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else [value]


def _schema(view: GraphView, relations: Sequence[Relation]) -> pa.Schema:
    """Return the schema. Ids keep their type if all edge types agree on it, and are strings otherwise."""
    return pa.schema(
        [
            ("batch", pa.int64()),
            ("hop", pa.int64()),
            ("type", pa.string()),
            ("direction", pa.string()),
            ("source", _common(view, [relation.edge.source for relation in relations])),
            ("destination", _common(view, [relation.edge.destination for relation in relations])),
            ("e_id", pa.int64()),
        ]
    )


def _common(view: GraphView, vertex_types: list[str]) -> pa.DataType:
    types = {view.keys[name].read(np.empty(0, np.int64)).type for name in vertex_types}
    return types.pop() if len(types) == 1 else pa.string()


def _rows(
    view: GraphView, rows: Adjacency, subgraph: Subgraph, number: int, hop: int, block: Block, schema: pa.Schema
) -> pa.RecordBatch:
    relation, position = block.relation, _on_host(block.position)
    near = _on_host(subgraph.nodes[relation.expands])[_on_host(block.seed_side)]
    far = _on_host(subgraph.nodes[relation.reaches])[_on_host(block.neighbor)]
    if rows.outward is not None:
        outward = np.asarray(rows.outward[position])
    else:
        outward = np.full(near.size, relation.direction == "OUT")
    source = view.keys[relation.edge.source].read(np.where(outward, near, far))
    destination = view.keys[relation.edge.destination].read(np.where(outward, far, near))
    columns = [
        pa.array(np.full(near.size, number)),
        pa.array(np.full(near.size, hop)),
        pa.array([relation.edge.edge]).take(pa.array(np.zeros(near.size, np.int64))),
        pa.array(np.where(outward, "out", "in")),
        _as(source, schema.field("source").type),
        _as(destination, schema.field("destination").type),
        pa.array(rows.edge_id.read(position).astype(np.int64, copy=False)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as(keys: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast keys to a type. The text of a composite key includes the names of its parts, as in {'a': 1, 'b': 'x'}."""
    if pa.types.is_struct(keys.type) and pa.types.is_string(wanted):
        return pa.array([str(key) for key in keys.to_pylist()], wanted)
    return keys.cast(wanted)


def _on_host(values: Ints) -> Array:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
