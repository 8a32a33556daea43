"""A naive implementation with numpy and torch: a vectorized sampler and `index_select`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.graphs import Graph

Int64s = npt.NDArray[np.int64]


def naive_batches(graph: Graph, fanouts: Sequence[int], batch: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of (node features [nodes, width], edge_index [2, E]) for uniform draws without replacement.

    Labels are also read.
    """
    rng = np.random.default_rng(seed)
    indptr, indices = np.array(graph.indptr), np.array(graph.indices, dtype=np.int64)
    features, labels = (torch.from_numpy(np.array(values)) for values in (graph.features, graph.labels))
    local = np.full(len(graph.labels), -1, dtype=np.int64)
    order = rng.permutation(graph.train)
    for low in range(0, len(order), batch):
        seeds = order[low : low + batch]
        nodes, edges = _sample(indptr, indices, seeds, fanouts, local, rng)
        rows = torch.from_numpy(nodes)
        torch.index_select(labels, 0, rows[: len(seeds)])
        yield torch.index_select(features, 0, rows), torch.from_numpy(edges)


def _sample(
    indptr: Int64s, indices: Int64s, seeds: Int64s, fanouts: Sequence[int], local: Int64s, rng: np.random.Generator
) -> tuple[Int64s, Int64s]:
    """Return (nodes, edge_index) of a neighbourhood, with the seeds first.

    `local` is scratch memory filled with -1, and is restored afterwards.
    """
    nodes, frontier = seeds, seeds
    pairs: list[Int64s] = []
    local[seeds] = np.arange(len(seeds))
    for fanout in fanouts:
        row, position = _draw(indptr[frontier], indptr[frontier + 1] - indptr[frontier], fanout, rng)
        neighbors = indices[position]
        new = np.unique(neighbors[local[neighbors] < 0])
        local[new] = len(nodes) + np.arange(len(new))
        pairs.append(np.stack([local[neighbors], local[frontier[row]]]))
        nodes, frontier = np.concatenate([nodes, new]), new
    local[nodes] = -1
    return nodes, np.concatenate(pairs, axis=1)


def _draw(start: Int64s, degree: Int64s, fanout: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Return (row, position) of up to `fanout` random edges per row: those with the row's smallest random keys."""
    row = np.repeat(np.arange(len(degree)), degree)
    place = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
    order = np.lexsort((rng.random(len(row)), row))
    kept = order[place < fanout]  # `place` also counts along the sorted row
    return row[kept], (start[row] + place)[kept]
