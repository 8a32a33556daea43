"""The keys of draws, for all nodes or edges of a hop at once."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from snapdb.kernels.neighbor_pool.rows import RowKeys
from snapdb.kernels.torch_ops import fold, shifted, signed
from snapdb.sampling.keys import fresh_prefix, hash_prefix, labor_keys, pick_prefix
from snapdb.sampling.torch_eligible import Frontier


@dataclass(frozen=True, slots=True)
class HopKeys:
    """The keys of one hop over one edge type."""

    seed: int
    batch: int
    hop: int
    edge_type: int
    ordinals: Tensor | None
    """Of the seeds, by tree, where trees are disjoint."""

    def picks(self, frontier: Frontier) -> Tensor:
        """The pick key of each node."""
        return self._of_nodes(pick_prefix(self.seed, self.batch, self.hop, self.edge_type), frontier)

    def fresh(self, frontier: Frontier) -> Tensor:
        """The key of each node for its residual draw."""
        return self._of_nodes(fresh_prefix(self.seed, self.batch, self.hop, self.edge_type), frontier)

    def _of_nodes(self, prefix: np.uint64, frontier: Frontier) -> Tensor:
        keys = fold(_word(prefix), frontier.nodes)
        return keys if self.ordinals is None else fold(keys, self.ordinals[frontier.trees])

    def edges(self, nodes: Tensor, edge_ids: Tensor) -> Tensor:
        """The hash key of each edge, whatever the tree."""
        return fold(fold(_word(hash_prefix(self.seed, self.batch, self.hop, self.edge_type)), nodes), edge_ids)

    def neighbours(self, nodes: Tensor, dependent: int) -> Tensor:
        """The hash key of each neighbor, which no other node enters."""
        now, later, turns, share = labor_keys(self.seed, self.batch, self.hop, self.edge_type, dependent)
        return fold(_turned(now, later, turns, share, nodes), nodes)


def row_words(keys: RowKeys, nodes: Tensor) -> Tensor:
    """The row key of each node."""
    if keys.rounds.size == 0:
        return fold(_turned(keys.now, keys.later, keys.phase, keys.share, nodes), nodes)
    rounds = torch.from_numpy(keys.rounds[nodes.cpu().numpy()]).to(nodes.device, torch.int64)
    hop, kind = (torch.tensor(_word(part), device=nodes.device) for part in (keys.hop, keys.kind))
    return fold(fold(fold(fold(_word(keys.stem), rounds), hop), kind), nodes)


def _turned(now: np.uint64, later: np.uint64, turns: np.uint64, share: np.uint64, nodes: Tensor) -> Tensor:
    """The key `later` of each node that is in the next round, and `now` of the others."""
    turned = shifted(fold(_word(turns), nodes), 32) + int(share) >= 1 << 32
    return torch.where(turned, _word(later), _word(now))


def _word(key: np.uint64) -> int:
    return signed(int(key))
