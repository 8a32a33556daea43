"""Errors in GraphSnapShot's public code, reproduced in a few lines each, to check that tests detect them.

A row is an array of edge ids. Draws without keys use numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def some(edges: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return `count` random edges, or all edges if there are fewer."""
    found: Ints = rng.permutation(edges)[:count]
    return found


def cached_edges(degrees: Ints, fanouts: Sequence[int], amplify: float) -> int:
    """Return the number of cached edges with one row per node and layer.

    Row sizes are truncated to integers, and each node gets an additional edge to itself.
    """
    return int(sum(np.minimum(degrees, int(amplify * fanout)).sum() + degrees.size for fanout in fanouts))


def refreshes(batches: int, nodes: int, size: int) -> int:
    """Return how often a cache is filled: a hard-coded period replaces EVERY."""
    return 1 + batches // (nodes // size)


def refreshed_in_part(row: Ints, edges: Ints, size: int, share: float, rng: np.random.Generator) -> Ints:
    """Return a row after a partial refresh: new edges are added to the retained ones without removing duplicates."""
    fresh = int(share * size)
    return np.concatenate([some(row, size - fresh, rng), some(edges, fresh, rng)])


def fetched_in_part(row: Ints, edges: Ints, fanout: int, rate: float, rng: np.random.Generator) -> Ints:
    """Return the edges of a partial fetch: the residual draw is from all edges, including those in the row."""
    kept = int(fanout * rate)
    return np.concatenate([some(row, kept, rng), some(edges, fanout - kept, rng)])


def written_back(row: Ints, edges: Ints, size: int, fresh: int, rng: np.random.Generator) -> Ints:
    """Return a seed's row after a partial refresh of seeds with shared rows: even the seeds' rows are retained."""
    return np.concatenate([row, some(row, size - fresh, rng), some(edges, fresh, rng)])


def twice_weighted(weights: Floats, size: int, fanout: int, rows: int, rng: np.random.Generator) -> Ints:
    """Return [rows, fanout] edges where weights determine both the row and the draw from the row."""

    def raced(drawn: Floats, count: int) -> Ints:
        found: Ints = np.argsort(rng.exponential(size=drawn.shape) / drawn, axis=1)[:, :count]
        return found

    row = raced(np.broadcast_to(weights, (rows, weights.size)), size)
    return np.take_along_axis(row, raced(weights[row], fanout), axis=1)


def most_in_layers(fanouts: Sequence[int], amplify: float) -> list[int]:
    """Return the maximum number of edges per node in each layer: caches are read in reverse order of creation."""
    return [min(f, int(amplify * made)) for f, made in zip(fanouts, reversed(fanouts), strict=True)]


def local_ids(rows: Ints) -> Ints:
    """Return the ids that accompany the edges of [nodes, size] rows: consecutive numbers over the cache."""
    return np.arange(rows.size, dtype=np.int64).reshape(rows.shape)


def without(rows: Ints, excluded: Ints) -> Ints:
    """Return the edges that remain after exclusion: excluded edges are looked up among the cache's own ids."""
    return rows[~np.isin(local_ids(rows), excluded)]


def edges_of_the_split(source: Ints, destination: Ints, threshold: int) -> int:
    """Return the number of edges in the subgraphs induced by nodes of high degree and by nodes of low degree."""
    dense = np.bincount(destination, minlength=int(source.max()) + 1) > threshold
    return int((dense[source] == dense[destination]).sum())
