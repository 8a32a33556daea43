"""A graph under the names that PyG gives its parts, whether it is a snapshot or lies in PyG's own Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from snapdb.errors import InputError
from snapdb.graph.view import Adjacency, EdgeReader, GraphView
from snapdb.types import EdgeType, Relation

TIME, WEIGHT = "edge_time", "edge_weight"
"""The graph's EVENT TIME and WEIGHT, as batches call them."""


@dataclass(frozen=True, slots=True)
class PygGraph:
    """What is sampled, and what PyG calls it."""

    view: GraphView
    relations: Mapping[EdgeType, Relation]
    """PyG's edge type → how it is walked."""
    single: bool
    """PyG knows no types here: it is a Data, or a snapshot of one vertex type and one edge type."""
    node_time: Mapping[str, Tensor] = field(default_factory=dict)
    """Node type → [nodes] since when each is there, where nodes have times."""

    @property
    def node_types(self) -> tuple[str, ...]:
        return tuple(self.view.node_counts)

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """How many dense ids there are, as PyG keeps it: a number, or a dict by node type."""
        counts = dict(self.view.node_counts)
        return counts[self.node_types[0]] if self.single else counts

    @property
    def timed(self) -> bool:
        """Whether some edge has a time."""
        return any(self.view.adjacency(relation).time is not None for relation in self.relations.values())

    def relation(self, edge_type: tuple[str, str, str] | None) -> Relation:
        """How an edge type of PyG is walked; None stands for the only one."""
        if edge_type is None and len(self.relations) == 1:
            return next(iter(self.relations.values()))
        found = None if edge_type is None else self.relations.get(EdgeType(*edge_type))
        if found is None:
            known = ", ".join(str(tuple(key)) for key in self.relations)
            raise InputError(f"there is no edge type {edge_type}, but {known or 'none'}", code="pyg-argument")
        return found

    def alive(self, node_type: str) -> Tensor | None:
        """The dense ids of a type's nodes; None: all below their number."""
        alive = self.view.alive[node_type]
        return None if alive is None else torch.from_numpy(np.flatnonzero(alive))

    def timeless(self) -> PygGraph:
        """The same graph, all of whose nodes and edges are always there."""
        view = replace(self.view, adjacency=_Timeless(self.view.adjacency), born={})
        return replace(self, view=view, node_time={})


def whole_times(name: str, values: Tensor) -> Tensor:
    """[n] times as int64.

    Raises:
        InputError: they are no whole numbers, or no vector.
    """
    times = torch.as_tensor(values).detach().cpu()
    if times.is_floating_point() or times.dtype == torch.bool or times.dim() != 1:
        raise InputError(
            f"times are a vector of whole numbers, but {name} is {times.dtype} of shape {list(times.shape)}; "
            "convert it with .long()",
            code="pyg-data",
        )
    return times.to(torch.int64).contiguous()


@dataclass(frozen=True, slots=True)
class _Timeless:
    """Rows without their times."""

    reader: EdgeReader

    def __call__(self, relation: Relation) -> Adjacency:
        return replace(self.reader(relation), time=None, until=None)
