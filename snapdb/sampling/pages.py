"""What a batch has to read of files that memory does not hold: whole pages, each once, where no cache has the edges."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.row_cache import HEAD, CachedRows
from snapdb.sampling.rounds import row_size, slot_of
from snapdb.sampling.sampler import Sampler
from snapdb.sampling.subgraph import Block, Subgraph
from snapdb.sampling.walks import Walk

__all__ = ["pages_read"]

Int64s = npt.NDArray[np.int64]


def pages_read(sampler: Sampler, found: Subgraph) -> int:
    """Bytes of the pages of neighbours that a batch reads of topologies, beside what the sampler's cache has now.

    The kernel counts as many for a file that is read page by page and of which nothing is in memory.
    """
    total = 0
    for walk in sampler.walks:
        rows = walk.arrays.rows
        missed = np.concatenate([np.empty(0, np.int64), *_missed(sampler, walk, found)])
        tail = missed >= rows.indices.size
        total += _pages(rows.indices, missed[~tail]) + _pages(rows.patch.indices, missed[tail] - rows.indices.size)
    return total * mmap.PAGESIZE


def _missed(sampler: Sampler, walk: Walk, found: Subgraph) -> Iterator[Int64s]:
    """Positions of the edges that are in no row of the cache, hop after hop."""
    for number, blocks in enumerate(found.hops):
        for block in blocks:
            if block.relation == walk.relation:
                nodes = found.nodes[walk.relation.expands][block.seed_side]
                yield block.position[~_kept(sampler, walk, number, nodes, block)]


def _kept(sampler: Sampler, walk: Walk, number: int, nodes: Int64s, block: Block) -> npt.NDArray[np.bool_]:
    """Which edges of a hop are in the cache."""
    kept = np.zeros(nodes.size, np.bool_)
    spec, cache, relation = sampler.spec, sampler.cache, walk.relation
    if cache is None:
        return kept
    if (base := cache.base(relation)) is not None:
        kept |= base.places[nodes] >= 0
    count = walk.count(number)
    if spec.refresh is not None and count > 0:
        size = row_size(spec.refresh, walk.fanout, count)
        records = cache.rows(relation, slot_of(spec, number), size)
        if records is not None:
            kept |= _drawn(records, size, nodes, block.position)
    return kept


def _drawn(records: CachedRows, size: int, nodes: Int64s, positions: Int64s) -> npt.NDArray[np.bool_]:
    """Which of these edges are in the drawn row of their node."""
    places = records.places[nodes]
    rows = records.records[np.maximum(places, 0), HEAD : HEAD + size] if records.records.size else places[:, None]
    found: npt.NDArray[np.bool_] = (places >= 0) & (rows == positions[:, None]).any(axis=1)
    return found


def _pages(array: npt.NDArray[Any], places: Int64s) -> int:
    """How many pages of memory these items lie on."""
    return int(np.unique((array.ctypes.data + places * array.itemsize) // mmap.PAGESIZE).size)
