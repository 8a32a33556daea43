"""Relations that a sampler never walks: they are there, without an edge, and nothing of them is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from snapdb.graph.adjacency import rows_adjacency
from snapdb.graph.view import Adjacency, EdgeReader
from snapdb.storage.arrays.topology import Rows
from snapdb.types import PropertyGraph, Relation


@dataclass(frozen=True, slots=True)
class WithoutIdle:
    """Opens relations, but those that are idle."""

    reader: EdgeReader
    idle: frozenset[Relation]
    graph: PropertyGraph
    node_counts: Mapping[str, int]

    def __call__(self, relation: Relation) -> Adjacency:
        """The relation's rows; of an idle one no row has an edge, and it has the columns that its edges would have."""
        if relation not in self.idle:
            return self.reader(relation)
        element = self.graph.edge(relation.edge.edge)
        assert element is not None, "idle relations are of the snapshot's graph"
        none = np.empty(0, np.int64)
        rows = Rows(
            indptr=np.zeros(1, np.int64),
            indices=np.empty(0, np.int32),
            edge_id=np.empty(0, np.int32),
            time=None if element.event_time is None else none,
            weight=None if element.weight is None else np.empty(0, np.float64),
            until=None if element.event_end is None else none,
        )
        outward = np.empty(0, np.bool_) if relation.direction == "BOTH" else None
        return rows_adjacency(rows, nodes=self.node_counts[relation.expands], outward=outward)
