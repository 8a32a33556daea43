"""What PyG's loaders are told to draw, as the SAMPLE statement that draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_geometric.sampler import NumNeighbors
from torch_geometric.sampler.base import SubgraphType

from snapdb.errors import InputError
from snapdb.pyg.graph import PygGraph
from snapdb.types import Drawing, Fanout, Method, SampleSpec, Temporal

STRATEGIES: dict[str, Method] = {"uniform": "UNIFORM", "last": "LATEST"}


@dataclass(frozen=True, slots=True)
class Words:
    """PyG's words for how neighbours are drawn; what snapdb does not draw so is refused.

    Raises:
        InputError: a word has no such value here, or two do not go together.
    """

    num_neighbors: Sequence[int] | Mapping[tuple[str, str, str], Sequence[int]] | NumNeighbors
    replace: bool = False
    subgraph_type: str | SubgraphType = "directional"
    """'bidirectional' adds each sampled edge's way back, as PyG does it."""
    disjoint: bool = False
    temporal_strategy: str = "uniform"
    time_attr: str | None = None
    weight_attr: str | None = None
    is_sorted: bool = False
    """Nothing depends on it: edges are sorted here in any case."""
    directed: bool = True

    def __post_init__(self) -> None:
        if not self.directed or SubgraphType(self.subgraph_type) == SubgraphType.induced:
            raise InputError(
                "subgraph_type='induced' (or directed=False) was asked, but snapdb draws edges along with their nodes "
                "and adds no others; leave it out, or take PyG's own NeighborLoader",
                code="pyg-argument",
            )
        if self.temporal_strategy not in STRATEGIES:
            raise InputError(
                f"temporal_strategy is {' or '.join(map(repr, STRATEGIES))}, found {self.temporal_strategy!r}",
                code="pyg-argument",
            )
        latest = self.time_attr is not None and self.temporal_strategy == "last"
        if latest and (self.replace or self.weight_attr is not None):
            other = "replace=True" if self.replace else f"weight_attr={self.weight_attr!r}"
            raise InputError(
                f"temporal_strategy='last' takes the newest edges, each once and whatever they weigh; leave {other} "
                "out, or take 'uniform'",
                code="pyg-argument",
            )

    @property
    def counts(self) -> NumNeighbors:
        """The numbers of neighbours as PyG reads them; a fresh value, for one keeps what it was first asked for."""
        given = self.num_neighbors
        return NumNeighbors(given.values, given.default) if isinstance(given, NumNeighbors) else NumNeighbors(given)

    @property
    def trees(self) -> bool:
        """Whether each seed has a tree of its own."""
        return self.disjoint or self.time_attr is not None

    def spec(self, graph: PygGraph, seed_type: str, seed: int) -> SampleSpec:
        """The statement that draws so, from seeds of a type.

        Raises:
            InputError: a number of neighbours is none.
            ValueError: they are not those of the graph's edge types.
        """
        counts: Any = self.counts.get_values(list(graph.relations))
        for key in graph.relations:
            if not all(isinstance(count, int | np.integer) for count in counts[key]):
                raise InputError(
                    f"num_neighbors has a whole number for each hop, found {list(counts[key])} for {tuple(key)}",
                    code="pyg-argument",
                )
        fanouts = tuple(
            Fanout(relation.edge, relation.direction, tuple(counts[key])) for key, relation in graph.relations.items()
        )
        latest = self.time_attr is not None and self.temporal_strategy == "last"
        return SampleSpec(
            snapshot=str(graph.view.lineage.get("snapshot", "")),
            seed_type=seed_type,
            seed_query="",
            fanouts=fanouts,
            batch_size=1,
            seed=seed,
            order="IN ORDER",
            text="",
            drawing=Drawing("LATEST" if latest else "UNIFORM", self.replace, self._weights(graph), self._weighted),
            temporal=Temporal(inclusive=True, within=None) if self.trees else None,
        )

    @property
    def _weighted(self) -> bool:
        return self.weight_attr is not None

    def _weights(self, graph: PygGraph) -> tuple[tuple[str, str], ...]:
        """The edge types that have weights, where they are asked for."""
        if self.weight_attr is None:
            return ()
        weighed = (r for r in graph.relations.values() if graph.view.adjacency(r).weight is not None)
        return tuple((relation.edge.edge, self.weight_attr) for relation in weighed)
