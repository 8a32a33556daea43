"""What batches say of themselves, as tables that SQL can hold against the snapshot: edges, seeds, negatives, nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.sampling import Seeds
from snapdb.types import EdgeType, Relation

if TYPE_CHECKING:
    from snapdb.loading import Batch


Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Evidence:
    """The tables of some batches. `batch` is a batch's number, `tree` the index of a seed in it, -1 without trees;
    `s` is the seed's time, NULL where there is none; vertices are dense ids."""

    edges: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """Edge type → batch, tree, s, e_id, source, destination, either: these two may be swapped; crosses: two trees."""
    seeds: list[pa.Table] = field(default_factory=list)
    """Seed edges: batch, tree, s, e_id."""
    negatives: list[pa.Table] = field(default_factory=list)
    """batch, n: a number of its own, s, source, destination."""
    nodes: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """Vertex type → batch, id, s, role: 'seed', 'negative' or 'neighbour'."""
    size: int = 0
    """Rows of all tables."""

    def add(self, number: int, batch: Batch, seeds: Seeds, relations: Iterable[Relation]) -> None:
        """Takes down a batch. What its seeds are is told by the seed set, and not by the batch."""
        times = seed_times(batch, seeds)
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


def seed_times(batch: Batch, seeds: Seeds) -> Int64s | None:
    """[batch_size] the times of a batch's seeds, as the seed set has them."""
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
        "s": _moments(times if batch.batch else None, tree),
        "e_id": pa.array(_array(batch.e_id[key])),
        "source": pa.array(source),
        "destination": pa.array(destination),
        "either": pa.array(np.full(near.size, relation.direction == "BOTH")),
        "crosses": pa.array(crosses),
    }


def _seed_edges(batch: Batch, seeds: Seeds, times: Int64s | None) -> dict[str, Any]:
    trees = np.arange(batch.batch_size)
    ids = seeds.ids[_array(batch.input_id)]
    return {"tree": pa.array(trees), "s": _moments(times, trees), "e_id": pa.array(ids)}


def _negatives(batch: Batch, times: Int64s | None) -> dict[str, Any]:
    edge = EdgeType(*batch.seed_type)
    seed, local = _drawn(batch)
    return {
        "n": pa.array(np.arange(local.size)),
        "s": _moments(times, seed),
        "source": pa.array(_array(batch.n_id[edge.source])[_array(batch.src_index)[seed]]),
        "destination": pa.array(_array(batch.n_id[edge.destination])[local]),
    }


def _nodes(batch: Batch, times: Int64s | None) -> Iterable[tuple[str, dict[str, Any]]]:
    """Who entered, each with its seed's time, and of trees all others."""
    for kind, role, seed, local in _entered(batch):
        yield kind, _roles(role, _array(batch.n_id[kind])[local], times, seed)
    for kind, trees in batch.batch.items():
        yield kind, _roles("neighbour", _array(batch.n_id[kind]), times, _array(trees))


def _entered(batch: Batch) -> Iterable[tuple[str, str, Int64s, Int64s]]:
    """The vertex type, role, seeds and local ids of each group."""
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
    """Of each negative its seed, and its local id."""
    if batch.dst_neg_index is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    local = _array(batch.dst_neg_index).reshape(batch.batch_size, -1)
    found = local >= 0
    return np.nonzero(found)[0], local[found]


def _roles(role: str, ids: Int64s, times: Int64s | None, seed: Int64s) -> dict[str, Any]:
    return {"id": pa.array(ids), "s": _moments(times, seed), "role": pa.array([role]).take(pa.array(seed * 0))}


def _moments(times: Int64s | None, seed: Int64s) -> pa.Array:
    return pa.nulls(seed.size, pa.int64()) if times is None else pa.array(times[seed])


def _array(tensor: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = tensor.cpu().numpy()
    return found
