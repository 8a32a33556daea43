"""Negatives of seed edges, as drawn by the engine and by the oracle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.sampling import SeedExpansion
from snapdb.types import EdgeType, SampleSpec
from tests.support import oracle
from tests.support.graphs import MemoryGraph

Ints = npt.NDArray[np.int64]


BOUGHT = EdgeType("customer", "bought", "product")


def drawn(entrance: SeedExpansion, ordinals: Ints, epoch: int = 0) -> list[list[int]]:
    """Return [seeds, negatives] dense ids of an input's negatives, or -1 for negatives that could not be drawn."""
    entry = entrance.entry(ordinals, epoch)
    assert entry.negatives is not None
    group = entry.groups[2]
    found = entry.negatives
    assert found[found >= 0].tolist() == list(range(group.ids.size))
    assert group.trees.tolist() == np.nonzero(found >= 0)[0].tolist()
    return [[-1 if i < 0 else int(group.ids[i]) for i in row] for row in found.tolist()]


def expected(
    graph: MemoryGraph, spec: SampleSpec, ordinals: Ints, times: Ints | None, epoch: int = 0, edge: EdgeType = BOUGHT
) -> list[list[int]]:
    """Return the oracle's negatives in the same form."""
    world, sources = graph.oracle(), graph.edges[edge].source
    assert spec.link is not None
    asked = spec.link.negatives
    assert asked is not None
    rows = []
    for ordinal in ordinals.tolist():
        time = None if times is None else int(times[ordinal])
        among = [tuple(name) for name in asked.among]
        pool = oracle.candidates(world, tuple(edge), int(sources[ordinal]), asked.known, time, among)
        if asked.weight is None:
            rows.append(oracle.negatives(pool, asked.count, spec.seed, epoch, ordinal))
        else:
            assert graph.destination_weights is not None
            weights = graph.destination_weights.tolist()
            rows.append(oracle.weighted_negatives(pool, weights, asked.count, spec.seed, epoch, ordinal))
    return rows
