"""What batches hold, added up: seeds, nodes, edges by hop and relation, bytes of features; and scaled to an epoch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from snapdb.types import EdgeType

if TYPE_CHECKING:
    from snapdb.loading import Batch


@dataclass(slots=True)
class Tally:
    """Counts of some batches; scaled ones are rounded to whole numbers."""

    batches: int = 0
    seeds: int = 0
    bytes: int = 0
    """Of all tensors that are handed over."""
    nodes: Counter[str] = field(default_factory=Counter)
    features: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(vertex type, feature) → bytes."""
    edges: Counter[tuple[EdgeType, int]] = field(default_factory=Counter)
    """(key of a batch, hop) → edges drawn."""
    frontier: Counter[tuple[EdgeType, int]] = field(default_factory=Counter)
    """(key of a batch, hop) → nodes expanded."""
    negatives: int = 0
    missing: int = 0
    """Negatives that were asked, and of which none was left."""

    def add(self, batch: Batch) -> None:
        """Counts a batch."""
        self.batches += 1
        self.seeds += batch.batch_size
        self.missing += batch.negatives_missing
        if batch.edge_label_index is not None:
            self.negatives += batch.edge_label_index.shape[1] - batch.batch_size
        for name, ids in batch.n_id.items():
            self.nodes[name] += len(ids)
            self.features.update({(name, label): _size(rows) for label, rows in batch.features[name].items()})
        for key, counts in batch.num_sampled_edges.items():
            met = batch.num_sampled_nodes[key.destination]
            expanded = list(accumulate(met)) if batch.layout == "BLOCKS" else met
            for hop, count in enumerate(counts):
                self.edges[key, hop] += count
                self.frontier[key, hop] += expanded[hop]
        self.bytes += sum(_size(tensor) for tensor in batch.tensors())

    def scaled(self, seeds: int, batches: int) -> Tally:
        """What so many seeds would give, if they were all like these."""
        factor = seeds / self.seeds if self.seeds else 0.0

        def each(counts: Counter[Any]) -> Counter[Any]:
            return Counter({key: round(count * factor) for key, count in counts.items()})

        return Tally(
            batches,
            seeds,
            round(self.bytes * factor),
            each(self.nodes),
            each(self.features),
            each(self.edges),
            each(self.frontier),
            round(self.negatives * factor),
            round(self.missing * factor),
        )


def _size(tensor: Any) -> int:
    """Bytes of a tensor; of a sparse one those of its three parts."""
    if tensor.layout.__repr__() != "torch.sparse_csr":
        return int(tensor.nbytes)
    return sum(int(part.nbytes) for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values()))
