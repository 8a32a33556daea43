"""SAMPLE as rows: one for each sampled edge, with the user's ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.execute.opening import Opened, open_sample
from snapdb.execute.operator import Engine, Rows
from snapdb.graph import GraphView
from snapdb.graph.view import Adjacency
from snapdb.plan.logical import SamplePlan
from snapdb.sampling import Block, Entrance, Ints, Sampler, Subgraph, batches_before, epoch_order
from snapdb.sampling.backends import open_sampler
from snapdb.sampling.memory import enough_memory
from snapdb.types import Relation

if TYPE_CHECKING:
    from snapdb.sampling.torch_sampler import TorchSampler

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Draws the epochs' batches one after another."""

    plan: SamplePlan

    def run(self, engine: Engine) -> Rows:
        opened = open_sample(engine, self.plan)
        try:
            engine.check_stopped()
            with self.plan.places.under():
                sampler = open_sampler(opened.view, self.plan.spec)
            rows = {walk.relation: walk.adjacency for walk in sampler.walks}
            schema = _schema(opened.view, list(rows))
            yield pa.RecordBatch.from_pylist([], schema=schema)
            for number, subgraph in self._subgraphs(engine, opened, sampler):
                for hop, blocks in enumerate(subgraph.hops):
                    for block in blocks:
                        if block.position.shape[0]:
                            yield _rows(opened.view, rows[block.relation], subgraph, number, hop, block, schema)
        finally:
            opened.lease.release()
        return None

    def _subgraphs(
        self, engine: Engine, opened: Opened, sampler: Sampler | TorchSampler
    ) -> Iterator[tuple[int, Subgraph]]:
        spec, seeds = self.plan.spec, opened.seeds
        scratch, entrance = sampler.scratch(), Entrance(opened.view, spec, seeds)
        total = batches_before(seeds.ids.size, spec, self.plan.epochs)
        for epoch in range(self.plan.epochs if total else 0):
            order = epoch_order(seeds, spec.seed, epoch, spec.order, spec.subset)
            first = batches_before(seeds.ids.size, spec, epoch)
            for index, start in enumerate(range(0, order.size, spec.batch_size)):
                number = first + index
                engine.step(f"sampling {spec.snapshot}", number / total)
                with enough_memory(epoch, index):
                    entry = entrance.entry(order[start : start + spec.batch_size], epoch)
                    subgraph = sampler.sample(entry, number, scratch)
                yield number, subgraph


def _schema(view: GraphView, relations: Sequence[Relation]) -> pa.Schema:
    """Ids keep their type where every edge type agrees on it, and are text where they do not."""
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
    far = _on_host(subgraph.nodes[relation.reaches])[_on_host(block.neighbour)]
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
        source.cast(schema.field("source").type),
        destination.cast(schema.field("destination").type),
        pa.array(rows.edge_id.read(position).astype(np.int64, copy=False)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _on_host(values: Ints) -> npt.NDArray[Any]:
    """The numbers as numpy has them, wherever they are."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
