"""Nodes of disjoint trees, numbered as they appear: a (tree, vertex) pair has a place in a table with open addressing.

A slot of the table holds base + local id, or something below base where it is free, so that it is never cleared
between batches; the pair itself stands in the lists of nodes and trees. Its size is a power of two, at least twice the
number of nodes.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.adjacency.spans import AHEAD, BLOCK
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.rng import GOLDEN, mix


@kernel
def load_neighbours(indices: Array, tail: Array, positions: Int64s, nodes: int, neighbours: Int64s) -> bool:
    """Writes the ids at physical positions to `neighbours`; returns whether all are 0 ≤ id < nodes."""
    outside: bool | np.bool_ = False
    held, last = indices.size, positions.size - 1
    for e in range(positions.size):
        prefetch(indices, min(positions[min(e + AHEAD, last)], held))
        p = positions[e]
        node = np.int64(indices[p]) if p < held else np.int64(tail[p - held])
        outside |= (node < 0) | (node >= nodes)
        neighbours[e] = node
    return not outside


@kernel
def _slot(tree: np.int64, node: np.int64, last: int) -> int:
    """Where a pair is looked for first."""
    return int(np.int64(mix(np.uint64(node) + np.uint64(tree) * GOLDEN)) & last)


@allocating_kernel
def number_pairs(
    neighbours: Int64s,
    trees: Int64s,
    sides: Int64s,
    nodes: Int64s,
    owners: Int64s,
    count: int,
    table: Int64s,
    base: int,
) -> int:
    """Replaces ids by local ids, and appends new nodes to nodes[count:] and their trees to owners[count:].

    Edge e belongs to the tree of its other end, trees[sides[e]]; `trees` may be `owners`. Returns how many nodes there
    are then.
    """
    last = table.size - 1
    slots = np.empty(BLOCK, np.int64)
    for begin in range(0, neighbours.size, BLOCK):
        end = min(begin + BLOCK, neighbours.size)
        for e in range(begin, end):
            slots[e - begin] = _slot(trees[sides[e]], neighbours[e], last)
            prefetch(table, slots[e - begin])
        for e in range(begin, end):
            node, tree, slot = neighbours[e], trees[sides[e]], slots[e - begin]
            local = table[slot] - base
            while local >= 0 and (nodes[local] != node or owners[local] != tree):
                slot = (slot + 1) & last
                local = table[slot] - base
            if local < 0:
                local = np.int64(count)
                table[slot] = base + count
                nodes[count] = node
                owners[count] = tree
                count += 1
            neighbours[e] = local
    return count


@kernel
def enter_again(nodes: Int64s, owners: Int64s, count: int, table: Int64s, base: int) -> None:
    """Enters the first `count` nodes into a table in which every slot is free."""
    last = table.size - 1
    for local in range(count):
        slot = _slot(owners[local], nodes[local], last)
        while table[slot] >= base:
            slot = (slot + 1) & last
        table[slot] = base + local
