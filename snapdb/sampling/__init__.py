"""Neighbour sampling: seed order, seed expansion, and the samplers that turn seeds into subgraphs."""

from snapdb.sampling.backends import numba_sampler, open_sampler
from snapdb.sampling.sampler import NeighborSampler
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.seeds import SeedExpansion, batches_before, batches_in, epoch_order, full_batches_in
from snapdb.sampling.subgraph import (
    Block,
    Edges,
    ExcludedEdges,
    Ints,
    SamplerInput,
    SeedGroup,
    Seeds,
    Subgraph,
    vertex_input,
)

__all__ = [
    "Block",
    "Edges",
    "ExcludedEdges",
    "Ints",
    "NeighborSampler",
    "SamplerInput",
    "Scratch",
    "SeedExpansion",
    "SeedGroup",
    "Seeds",
    "Subgraph",
    "batches_before",
    "batches_in",
    "epoch_order",
    "full_batches_in",
    "numba_sampler",
    "open_sampler",
    "vertex_input",
]
