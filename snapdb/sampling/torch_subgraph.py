"""The subgraph of one batch as tensors that grow with every hop, for torch back ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from snapdb.kernels.torch_ops import number
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.subgraph import Edges, Ints, SeedGroup
from snapdb.sampling.torch_traversals import tensor_on
from snapdb.types import Relation


@dataclass(slots=True)
class Numbered:
    """The nodes of one vertex type in a batch. A node's position is its local id."""

    base: int
    """The number of dense ids."""
    nodes: Tensor
    """[nodes] dense ids."""
    trees: Tensor
    """[nodes] the tree of each node. Empty if trees are not disjoint."""

    @property
    def count(self) -> int:
        return self.nodes.numel()

    def append(self, nodes: Tensor) -> Tensor:
        """Return new local ids for these nodes, including duplicates."""
        low = self.count
        self.nodes = torch.cat((self.nodes, nodes))
        return torch.arange(low, self.count, device=nodes.device)

    def meet(self, nodes: Tensor, trees: Tensor) -> Tensor:
        """Return the local ids of these (tree, node) pairs. New nodes are numbered by first appearance."""
        if trees.numel():
            # Encode (tree, vertex) as one integer, so that one sort relabels pairs.
            local, new = number(self.trees * self.base + self.nodes, trees * self.base + nodes)
            self.trees = torch.cat((self.trees, trees[new]))
        else:
            local, new = number(self.nodes, nodes)
        self.nodes = torch.cat((self.nodes, nodes[new]))
        return local


class HopEdges(NamedTuple):
    """The edges that one hop draws over one relation."""

    neighbors: Tensor
    """[edges] local ids of neighbours."""
    sides: Tensor
    """[edges] local ids of the expanded nodes."""
    positions: Tensor
    """[edges] positions in the flat rows."""
    weights: Tensor | None
    """[edges] Horvitz-Thompson weights, or None."""


class TorchSubgraph(ABC):
    """The subgraph of one batch, to which hops are added. Subclasses specify how the edges of a hop are drawn."""

    def __init__(
        self,
        batch: SampleRequest,
        relations: Sequence[Relation],
        device: torch.device,
        node_counts: Mapping[str, int],
        *,
        weighted: bool,
    ) -> None:
        """`weighted` specifies whether edges have weights."""
        self.batch, self.spec, self.device = batch, batch.spec, device
        none = torch.empty(0, dtype=torch.int64, device=device)
        ends = [] if self.spec.link is None else [self.spec.link.edge.destination]
        reached = [name for relation in relations for name in (relation.expands, relation.reaches)]
        types = dict.fromkeys([self.spec.seed_type, *ends, *reached])
        self.nodes = {name: Numbered(node_counts[name], none, none) for name in types}
        weights = none.to(torch.float64) if weighted else None
        self.edges = {relation: [HopEdges(none, none, none, weights)] for relation in relations}

    def enter(self, group: SeedGroup, *, each: bool) -> Ints:
        numbered, nodes = self.nodes[group.type], tensor_on(group.ids, self.device)
        if each:
            return host_values(numbered.append(nodes))
        trees = tensor_on(group.trees, self.device) if self.spec.disjoint else numbered.trees
        return host_values(numbered.meet(nodes, trees))

    @abstractmethod
    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        """Draw the edges of one hop over traversal `place`, for the nodes with local ids low ≤ id < high."""

    def node_counts(self) -> dict[str, int]:
        return {name: numbered.count for name, numbered in self.nodes.items()}

    def edge_counts(self) -> dict[Relation, int]:
        return {relation: sum(part.positions.numel() for part in parts) for relation, parts in self.edges.items()}

    def finish(self) -> tuple[dict[str, Ints], dict[Relation, Edges], dict[str, Ints] | None]:
        """Return nodes, edges and trees, as tensors on a GPU or as arrays in host memory."""
        ids = torch.int64 if self.spec.ids == "int64" else torch.int32
        edges = {}
        for relation, parts in self.edges.items():
            index = torch.stack(
                [torch.cat([part.neighbors for part in parts]), torch.cat([part.sides for part in parts])]
            )
            position, weight = joined([part.positions for part in parts]), joined([part.weights for part in parts])
            edges[relation] = Edges(host_values(index.to(ids)), host_values(position), host_values(weight))
        nodes = {name: host_values(numbered.nodes.to(ids)) for name, numbered in self.nodes.items()}
        if not self.spec.disjoint:
            return nodes, edges, None
        return nodes, edges, {name: host_values(numbered.trees) for name, numbered in self.nodes.items()}


def joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Return the concatenated parts, or None if there are none."""
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None


def host_values(tensor: Tensor | None) -> Ints:
    """Return the tensor, or a numpy array that shares its memory if that is host memory."""
    return tensor.numpy() if tensor is not None and tensor.device.type == "cpu" else tensor
