"""What GraphSnapShot's public code does where it errs, in a few lines each, for tests that must not pass with it.

A row is an array of edge ids, and what is drawn without a key is drawn with numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def some(edges: Ints, count: int, rng: np.random.Generator) -> Ints:
    """So many of the edges, or all where there are no more."""
    found: Ints = rng.permutation(edges)[:count]
    return found


def cached_edges(degrees: Ints, fanouts: Sequence[int], amplify: float) -> int:
    """Edges in a cache of a row for each layer: sizes are cut off, and each node gets an edge to itself."""
    return int(sum(np.minimum(degrees, int(amplify * fanout)).sum() + degrees.size for fanout in fanouts))


def refreshes(batches: int, nodes: int, size: int) -> int:
    """How often a cache is filled: EVERY gives way to a period of the code's own."""
    return 1 + batches // (nodes // size)


def refreshed_in_part(row: Ints, edges: Ints, size: int, share: float, rng: np.random.Generator) -> Ints:
    """A row after a partial refresh: fresh edges join what is kept, which may hold them already."""
    fresh = int(share * size)
    return np.concatenate([some(row, size - fresh, rng), some(edges, fresh, rng)])


def fetched_in_part(row: Ints, edges: Ints, fanout: int, rate: float, rng: np.random.Generator) -> Ints:
    """What a partial fetch delivers: fresh edges are drawn from all, those of the row among them."""
    kept = int(fanout * rate)
    return np.concatenate([some(row, kept, rng), some(edges, fanout - kept, rng)])


def written_back(row: Ints, edges: Ints, size: int, fresh: int, rng: np.random.Generator) -> Ints:
    """A seed's row after a partial refresh of seeds, shared: the rows that stay are all rows, the seeds' too."""
    return np.concatenate([row, some(row, size - fresh, rng), some(edges, fresh, rng)])


def twice_weighted(weights: Floats, size: int, fanout: int, rows: int, rng: np.random.Generator) -> Ints:
    """[rows, fanout] what is delivered where weights decide over the row, and again over what is taken of it."""

    def raced(drawn: Floats, count: int) -> Ints:
        found: Ints = np.argsort(rng.exponential(size=drawn.shape) / drawn, axis=1)[:, :count]
        return found

    row = raced(np.broadcast_to(weights, (rows, weights.size)), size)
    return np.take_along_axis(row, raced(weights[row], fanout), axis=1)


def most_in_layers(fanouts: Sequence[int], amplify: float) -> list[int]:
    """The most edges of a node, layer by layer: caches are read in the reverse of the order they are made in."""
    return [min(f, int(amplify * made)) for f, made in zip(fanouts, reversed(fanouts), strict=True)]


def local_ids(rows: Ints) -> Ints:
    """The ids delivered with the edges of [nodes, size] rows: they count through the cache."""
    return np.arange(rows.size, dtype=np.int64).reshape(rows.shape)


def without(rows: Ints, excluded: Ints) -> Ints:
    """What is left of rows without the excluded edges: these are looked for among the cache's own ids."""
    return rows[~np.isin(local_ids(rows), excluded)]


def edges_of_the_split(source: Ints, destination: Ints, threshold: int) -> int:
    """How many edges are in either of the graphs that nodes of high and of low degree induce."""
    dense = np.bincount(destination, minlength=int(source.max()) + 1) > threshold
    return int((dense[source] == dense[destination]).sum())
