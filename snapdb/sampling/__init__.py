"""From seeds to subgraphs: keys, seed orders, and the sampler that draws neighbourhoods over kernels."""

from snapdb.sampling.sampler import Sampler
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.seeds import epoch_order
from snapdb.sampling.subgraph import Block, Edges, Entry, Excluded, Group, Seeds, Subgraph, node_entry

__all__ = [
    "Block",
    "Edges",
    "Entry",
    "Excluded",
    "Group",
    "Sampler",
    "Scratch",
    "Seeds",
    "Subgraph",
    "epoch_order",
    "node_entry",
]
