"""Neighbours by random walks as torch operators, bit for bit those of `visits`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from snapdb.arrays import Bools
from snapdb.graph.view import GraphView
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.torch_subgraph import HopEdges, TorchSubgraph
from snapdb.sampling.torch_walker import TorchWalker
from snapdb.sampling.traversals import Traversal
from snapdb.sampling.visits import VisitTraversal, open_visits, walk_keys, walk_starts, walks_of
from snapdb.types import Backend, SampleSpec


class TorchVisits:
    """The relations of the walks as tensors on one device."""

    name: Backend = "torch"
    host_traversals: tuple[Traversal, ...] = ()

    def __init__(self, view: GraphView, spec: SampleSpec, device: str = "cpu") -> None:
        """Copy the rows of the relations to the device. Also raises the errors of `open_walker`."""
        self.device, self._node_counts = torch.device(device), view.node_counts
        self.walker = TorchWalker(view, walks_of(spec), device)
        self.traversals = (open_visits(view, spec),)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Return empty scratch memory, because torch allocates the memory that a batch needs."""
        return Scratch({})

    def begin(self, batch: SampleRequest, traversals: Sequence[Any], scratch: Scratch) -> TorchSubgraph:
        """Return an empty subgraph on the device, to which seeds and hops are added."""
        return _VisitedSubgraph(batch, traversals[0], self.walker, self.device, self._node_counts)


class _VisitedSubgraph(TorchSubgraph):
    """The subgraph of one batch whose edges lead from the most visited vertices."""

    def __init__(
        self,
        batch: SampleRequest,
        traversal: VisitTraversal,
        walker: TorchWalker,
        device: torch.device,
        node_counts: Mapping[str, int],
    ) -> None:
        super().__init__(batch, [traversal.relation], device, node_counts, weighted=True)
        self._traversal, self._walker = traversal, walker

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        batch, traversal, relation = self.batch, self._traversal, self._traversal.relation
        numbered = self.nodes[relation.expands]
        trees = numbered.trees[low:high]
        some, of = numbered.nodes[low:high].cpu().numpy(), trees.cpu().numpy()
        keys = walk_keys(batch, hop, some, of)
        walks = self._walker.sample(walk_starts(batch, some, of), batch.number, None, keys)
        nodes = torch.as_tensor(walks.nodes, device=self.device).view(some.size, -1, walks.nodes.shape[1])
        rows, neighbors, counts = _most_visited(nodes, traversal.counted, traversal.count(hop), numbered.base)
        local = numbered.meet(neighbors, trees[rows] if self.spec.disjoint else trees[:0])
        self.edges[relation].append(HopEdges(local, rows + low, torch.zeros_like(rows), counts.to(torch.float64)))


def _most_visited(walks: Tensor, counted: Bools, top: int, base: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return starts, vertices and numbers of visits, in the order of `visits.most_visited`.

    Args:
        walks: [starts, n, length + 1] dense ids.
        counted: [length + 1] whether the vertices of a column count.
        top: The maximum number of vertices per start.
        base: The number of dense ids.
    """
    columns = [column for column in range(1, walks.shape[2]) if counted[column]]
    visited = walks[:, :, columns].flatten(1)
    start = torch.arange(walks.shape[0], device=walks.device)[:, None].expand_as(visited)
    fits = (visited >= 0) & (visited != walks[:, 0, :1])
    pairs, counts = torch.unique(start[fits] * base + visited[fits], return_counts=True)
    rows, nodes = pairs // base, pairs % base
    # `unique` sorts by (start, vertex), so a stable sort by (start, most visits first) leaves equal counts by vertex.
    most = walks.shape[1] * walks.shape[2]
    order = torch.argsort(rows * most + (most - counts), stable=True)
    rows, nodes, counts = rows[order], nodes[order], counts[order]
    first = torch.searchsorted(rows, rows)
    kept = torch.arange(rows.numel(), device=rows.device) - first < top
    return rows[kept], nodes[kept], counts[kept]
