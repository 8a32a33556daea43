"""SAMPLE as rows: one for each sampled edge, with the user's ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapdb.execute.opening import Opened, open_sample
from snapdb.execute.operator import Engine, Rows
from snapdb.graph import GraphView
from snapdb.plan.logical import SamplePlan
from snapdb.sampling import Block, Sampler, Subgraph, epoch_order, node_entry

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Draws the epochs' batches one after another."""

    plan: SamplePlan

    def run(self, engine: Engine) -> Rows:
        opened = open_sample(engine, self.plan)
        try:
            sampler = Sampler(opened.view, self.plan.spec)
            schema = _schema(opened.view, sampler)
            yield pa.RecordBatch.from_pylist([], schema=schema)
            for number, subgraph in self._subgraphs(engine, opened, sampler):
                for hop, blocks in enumerate(subgraph.hops):
                    for block in blocks:
                        if block.position.size:
                            yield _rows(opened.view, subgraph, number, hop, block, schema)
        finally:
            opened.lease.release()
        return None

    def _subgraphs(self, engine: Engine, opened: Opened, sampler: Sampler) -> Iterator[tuple[int, Subgraph]]:
        spec, seeds = self.plan.spec, opened.seeds
        scratch = sampler.scratch()
        size, per_epoch = spec.batch_size, -(-seeds.ids.size // spec.batch_size)
        for epoch in range(self.plan.epochs):
            order = epoch_order(seeds, spec.seed, epoch, spec.order)
            for index in range(per_epoch):
                engine.check_stopped()
                number = epoch * per_epoch + index
                engine.report(f"sampling {spec.snapshot}", number / (per_epoch * self.plan.epochs))
                chosen = seeds.ids[order[index * size : (index + 1) * size]]
                yield number, sampler.sample(node_entry(seeds.type, chosen), number, scratch)


def _schema(view: GraphView, sampler: Sampler) -> pa.Schema:
    """Ids keep their type where every edge type agrees on it, and are text where they do not."""
    edges = [walk.relation.edge for walk in sampler.walks]
    return pa.schema(
        [
            ("batch", pa.int64()),
            ("hop", pa.int64()),
            ("type", pa.string()),
            ("direction", pa.string()),
            ("source", _common(view, [edge.source for edge in edges])),
            ("destination", _common(view, [edge.destination for edge in edges])),
            ("e_id", pa.int64()),
        ]
    )


def _common(view: GraphView, vertex_types: list[str]) -> pa.DataType:
    types = {view.keys[name].read(np.empty(0, np.int64)).type for name in vertex_types}
    return types.pop() if len(types) == 1 else pa.string()


def _rows(
    view: GraphView, subgraph: Subgraph, number: int, hop: int, block: Block, schema: pa.Schema
) -> pa.RecordBatch:
    relation = block.relation
    adjacency = view.adjacency(relation)
    near = subgraph.nodes[relation.expands][block.seed_side]
    far = subgraph.nodes[relation.reaches][block.neighbour]
    if adjacency.outward is not None:
        outward = np.asarray(adjacency.outward[block.position])
    else:
        outward = np.full(near.size, relation.direction == "OUT")
    source = view.keys[relation.edge.source].read(np.where(outward, near, far))
    destination = view.keys[relation.edge.destination].read(np.where(outward, far, near))
    columns = [
        pa.array(np.full(near.size, number)),
        pa.array(np.full(near.size, hop)),
        pa.array([relation.edge.edge]).take(pa.array(np.zeros(near.size, np.int64))),
        pa.array(np.where(outward, "out", "in")),
        source.cast(schema.field("source").type),
        destination.cast(schema.field("destination").type),
        pa.array(adjacency.edge_id.read(block.position).astype(np.int64, copy=False)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
