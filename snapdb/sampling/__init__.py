"""From seeds to subgraphs: keys, seed orders, and the sampler that draws neighbourhoods over kernels."""

from snapdb.sampling.backends import numba_sampler, open_sampler
from snapdb.sampling.entrance import Entrance
from snapdb.sampling.sampler import NeighborSampler
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.seeds import batches_before, batches_in, epoch_order, full_batches_in
from snapdb.sampling.subgraph import Block, Edges, Entry, Excluded, Group, Ints, Seeds, Subgraph, node_entry

__all__ = [
    "Block",
    "Edges",
    "Entrance",
    "Entry",
    "Excluded",
    "Group",
    "Ints",
    "NeighborSampler",
    "Scratch",
    "Seeds",
    "Subgraph",
    "batches_before",
    "batches_in",
    "epoch_order",
    "full_batches_in",
    "node_entry",
    "numba_sampler",
    "open_sampler",
]
