"""What a batch has to read of files that memory does not hold: whole pages, each once, where no cache has the edges."""

import mmap
from collections.abc import Iterator

import numpy as np

from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.row_cache import HEAD, CachedRows, find_records
from snapdb.sampling.rounds import Rounds, row_keys, row_size, slot_of
from snapdb.sampling.sampler import NeighborSampler
from snapdb.sampling.subgraph import Block, Subgraph
from snapdb.sampling.walks import Walk

_AT_ONCE = 1 << 16
"""Edges that are looked up in their rows together: each takes as much memory as a row."""


def pages_read(sampler: NeighborSampler, found: Subgraph, batch: int, rounds: Rounds | None = None) -> int:
    """Bytes of the pages of neighbours that a batch reads of topologies, beside what the sampler's cache has now.

    The kernel counts as many for a file that is read page by page and of which nothing is in memory.

    Args:
        found: what was sampled as batch number `batch`.
        rounds: of its rows, under SCOPE VISITED.
    """
    total = 0
    for walk in sampler.backend.host_walks:
        rows = walk.arrays.rows
        missed = np.concatenate([np.empty(0, np.int64), *_missed(sampler, walk, found, batch, rounds)])
        tail = missed >= rows.indices.size
        total += _pages(rows.indices, missed[~tail]) + _pages(rows.patch.indices, missed[tail] - rows.indices.size)
    return total * mmap.PAGESIZE


def _missed(
    sampler: NeighborSampler, walk: Walk, found: Subgraph, batch: int, rounds: Rounds | None
) -> Iterator[Int64s]:
    """Positions of the edges that are in no row of the cache, hop after hop."""
    spec, cache, relation = sampler.spec, sampler.cache, walk.relation
    base = None if cache is None else cache.base(relation)
    for hop, blocks in enumerate(found.hops):
        for block in blocks:
            if block.relation != relation:
                continue
            nodes, count = found.nodes[relation.expands][block.seed_side], walk.count(hop)
            missed = np.ones(nodes.size, np.bool_) if base is None else base.places[nodes] < 0
            if cache is not None and spec.refresh is not None and count > 0:
                size = row_size(spec.refresh, walk.fanout, count)
                records = cache.rows(relation, slot_of(spec, hop), size)
                if records is not None:
                    number = np.empty((nodes.size, 2), np.int64)
                    keys = row_keys(spec, relation, hop, batch, rounds)
                    find_records(keys, records, nodes, 0, nodes.size, nodes.size, number)
                    missed &= ~_recorded(records, number[:, 0], size, block)
            yield block.position[missed]


def _recorded(records: CachedRows, numbers: Int64s, size: int, block: Block) -> Bools:
    """Which edges of a block are in the records of these numbers; -1: there is none."""
    found = np.zeros(numbers.size, np.bool_)
    for low in range(0, numbers.size, _AT_ONCE):
        some = slice(low, low + _AT_ONCE)
        which = np.flatnonzero(numbers[some] >= 0) + low
        rows = records.records[numbers[which], HEAD : HEAD + size]
        found[which] = (rows == block.position[which, None]).any(axis=1)
    return found


def _pages(array: Array, places: Int64s) -> int:
    """How many pages of memory these items lie on."""
    return int(np.unique((array.ctypes.data + places * array.itemsize) // mmap.PAGESIZE).size)
