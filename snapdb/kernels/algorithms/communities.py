"""The phases of the methods of Louvain and Leiden: nodes move, communities are refined, and become nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.kernels.algorithms.labels import count_labels
from snapdb.kernels.algorithms.rows import AHEAD, Neighbors
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import fold

_Number = int | np.int64
_TEMPERATURE = 0.01
"""The parameter theta of Leiden: how often a refinement takes another community than the best one."""
_LEAST = 1e-10
"""The least gain of a move, as a share of the strength of the node. Sums of weights are rounded."""


class Level(NamedTuple):
    """A graph without directions: an edge is in the row of each of its ends, and a self loop twice in its row."""

    one: Neighbors
    other: Neighbors
    """Further edges of each row."""
    strength: Float64s
    """[nodes] The sum of the weights of each row."""


class Partition(NamedTuple):
    """The community of each node, and what is known of communities."""

    label: Array
    """[nodes] The community of each node, 0 ≤ label < labels."""
    total: Float64s
    """[labels] The sum of the strengths of the nodes of a community."""
    size: Array
    """[labels] The number of nodes of a community."""
    empty: Array
    """[labels] A stack of communities without nodes."""
    empties: Int64s
    """[1] Its height."""


class Space(NamedTuple):
    """Arrays that kernels use, and leave as they found them."""

    counts: Float64s
    """[labels] 0."""
    touched: Array
    """[labels] The communities of the neighbors of a node."""
    queue: Array
    """[nodes] A ring of nodes."""
    queued: Bools
    """[nodes] False."""
    key: Int64s
    """[1] The bits of a uint64, from which ties and random choices are made."""


# Fast local moving (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019; Ozaki, Tezuka and Inaba, 2016): a node
# takes the community with the greatest gain of modularity, or an empty one. Only the neighbors of nodes that moved are
# visited again. Ties are decided by a hash of the community, so the order of a row has no influence. O(edges) per
# visit of all nodes, on one thread, because each node depends on those before it.
@kernel
def move_nodes(level: Level, part: Partition, space: Space, order: Array, scale: float, stop: Array) -> _Number:
    """Move nodes to other communities until none gains by it. Returns the number of moves.

    Args:
        level: The graph.
        part: The partition, which is changed.
        space: Space.
        order: The nodes, in the order in which they are visited first.
        scale: The resolution divided by the sum of all strengths.
        stop: The loop ends soon after it becomes 1.
    """
    queue, queued, key = space.queue, space.queued, np.uint64(space.key[0])
    count: _Number = order.size
    at, moves = np.int64(0), np.int64(0)
    for i in range(order.size):
        queue[i] = order[i]
        queued[order[i]] = True
    while count > 0:
        v = np.int64(queue[at])
        at = at + 1 if at + 1 < order.size else np.int64(0)
        count -= 1
        queued[v] = False
        if stop[0] != 0:
            continue
        own, strength = np.int64(part.label[v]), level.strength[v]
        found: _Number = count_labels(level.one, v, part.label, space.counts, space.touched, 0)
        found = count_labels(level.other, v, part.label, space.counts, space.touched, found)
        stay = space.counts[own] - scale * strength * (part.total[own] - strength)
        best, most, tie = own, stay + _LEAST * strength, np.uint64(0)
        for j in range(found):
            other = np.int64(space.touched[j])
            gain = space.counts[other] - scale * strength * part.total[other]
            space.counts[other] = 0.0
            if other != own and gain >= most:
                hashed = fold(key, np.uint64(other))
                if gain > most or (best != own and hashed < tie):
                    best, most, tie = other, gain, hashed
        if most < 0.0 and part.size[own] > 1 and part.empties[0] > 0:
            part.empties[0] -= 1
            best = np.int64(part.empty[part.empties[0]])
        if best == own:
            continue
        moves += 1
        _move(part, v, best, strength)
        count = _queue_neighbors(level.one, part.label, v, queue, queued, order.size, at, count)
        count = _queue_neighbors(level.other, part.label, v, queue, queued, order.size, at, count)
    return moves


@kernel
def _move(part: Partition, v: _Number, best: _Number, strength: float) -> None:
    """Move a node to a community."""
    own = np.int64(part.label[v])
    part.total[own] -= strength
    part.size[own] -= 1
    if part.size[own] == 0:
        part.total[own] = 0.0
        part.empty[part.empties[0]] = own
        part.empties[0] += 1
    part.total[best] += strength
    part.size[best] += 1
    part.label[v] = best


@kernel
def _queue_neighbors(
    rows: Neighbors, label: Array, v: _Number, queue: Array, queued: Bools, room: int, at: _Number, count: _Number
) -> _Number:
    """Append the neighbors of a node that are in other communities. Returns the number of nodes in the queue."""
    last, own = rows.indices.size - 1, label[v]
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        prefetch(label, np.int64(rows.indices[min(p + AHEAD, last)]))
        u = rows.indices[p]
        if label[u] != own and not queued[u]:
            queued[u] = True
            queue[at + count if at + count < room else at + count - room] = u
            count += 1
    return count


# The refinement of Leiden (Traag et al., 2019, algorithm A.2): the nodes of a community begin alone, and join others of
# the same community, if both are well connected to it. The choice is random with the weights exp(gain / theta), by the
# Gumbel-max trick (Gumbel, 1954) over hashes, so the order of a row has no influence. The result is connected.
@kernel
def refine_nodes(
    level: Level, part: Partition, fine: Partition, cut: Float64s, space: Space, order: Array, scale: float, stop: Array
) -> None:
    """Join nodes of the same community in `fine`.

    Args:
        level: The graph.
        part: The communities.
        fine: Communities of one node each, which are changed.
        cut: [labels] Space for the weight between a refined community and the rest of its community.
        space: Space.
        order: The nodes, in the order in which they are visited.
        scale: The resolution divided by the sum of all strengths.
        stop: The loop ends soon after it becomes 1.
    """
    key, unit = np.uint64(space.key[0]), np.float64(0.0)
    for i in range(order.size):
        v = np.int64(order[i])
        cut[fine.label[v]] = _sum_within(level.one, v, part.label) + _sum_within(level.other, v, part.label)
        unit += level.strength[v]
    unit *= _TEMPERATURE / max(level.one.indices.size + level.other.indices.size, 1)
    for i in range(order.size):
        if stop[0] != 0:
            return
        v = np.int64(order[i])
        own, strength, whole = np.int64(fine.label[v]), level.strength[v], part.total[part.label[v]]
        if fine.size[own] != 1 or cut[own] <= 0.0 or cut[own] < scale * strength * (whole - strength):
            continue
        found = _count_within(level.one, v, part.label, fine.label, space, 0)
        found = _count_within(level.other, v, part.label, fine.label, space, found)
        best, most, joined = own, np.float64(-np.inf), np.float64(0.0)
        for j in range(found):
            other = np.int64(space.touched[j])
            weight = space.counts[other]
            space.counts[other] = 0.0
            total = fine.total[other]
            gain = weight - scale * strength * total
            if other == own or gain < 0.0 or cut[other] < scale * total * (whole - total):
                continue
            hashed = fold(fold(key, np.uint64(own)), np.uint64(other))
            drawn = (np.float64(hashed >> np.uint64(11)) + 0.5) * 2.0**-53
            score = gain / unit - np.log(-np.log(drawn))
            if score > most:
                best, most, joined = other, score, weight
        if best != own:
            cut[best] += cut[own] - 2.0 * joined
            _move(fine, v, best, strength)


@kernel
def _sum_within(rows: Neighbors, v: _Number, label: Array) -> float:
    """Return the weight between a node and the others of its community."""
    total, last = 0.0, rows.indices.size - 1
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        prefetch(label, np.int64(rows.indices[min(p + AHEAD, last)]))
        u = rows.indices[p]
        if u != v and label[u] == label[v]:
            total += rows.weight[p] if rows.weight.size > 0 else 1.0
    return total


@kernel
def _count_within(rows: Neighbors, v: _Number, label: Array, fine: Array, space: Space, found: _Number) -> _Number:
    """Add the weights of the neighbors in a node's community to the counts of their refined communities."""
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        u = rows.indices[p]
        weight = rows.weight[p] if rows.weight.size > 0 else 1.0
        if u == v or label[u] != label[v] or weight == 0.0:
            continue
        other = np.int64(fine[u])
        if space.counts[other] == 0.0:
            space.touched[found] = other
            found += 1
        space.counts[other] += weight
    return found


# The rows of a community are read twice: its distinct neighbors are counted, and then listed. Each community is one
# task's, and its nodes are read in a fixed order, so sums have the same bits on any number of threads. O(edges).
@kernel
def join_rows(
    level: Level, starts: Int64s, nodes: Array, label: Array, counts: Float64s, touched: Array, joined: Neighbors,
    fill: bool, low: int, high: int,
) -> None:  # fmt: skip
    """Fill the rows of the communities low ≤ c < high, with the weights of parallel edges added, or their lengths.

    Args:
        level: The graph.
        starts: [communities + 1] The position of the first node of each community in `nodes`.
        nodes: The nodes by community.
        label: [nodes] The community of each node.
        counts: [communities] 0, space.
        touched: [communities] Space.
        joined: The rows. With `fill`, indices and weights are filled, or else `indptr[c + 1]` with the length.
        fill: Whether rows are filled.
        low: The first community.
        high: The end of the communities.
    """
    for c in range(low, high):
        found: _Number = np.int64(0)
        for i in range(starts[c], starts[c + 1]):
            v = np.int64(nodes[i])
            found = _count_all(level.one, v, label, counts, touched, found)
            found = _count_all(level.other, v, label, counts, touched, found)
        if not fill:
            joined.indptr[c + 1] = found
        at = joined.indptr[c]
        for j in range(found):
            if fill:
                joined.indices[at + j] = touched[j]
                joined.weight[at + j] = counts[touched[j]]
            counts[touched[j]] = 0.0


@kernel
def _count_all(rows: Neighbors, v: _Number, label: Array, counts: Float64s, touched: Array, found: _Number) -> _Number:
    """Add the weights of the neighbors of a node and of the node itself to the counts of their communities."""
    last = rows.indices.size - 1
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        prefetch(label, np.int64(rows.indices[min(p + AHEAD, last)]))
        weight = rows.weight[p] if rows.weight.size > 0 else 1.0
        if weight == 0.0:
            continue
        other = label[rows.indices[p]]
        if counts[other] == 0.0:
            touched[found] = other
            found += 1
        counts[other] += weight
    return found


@kernel
def group_nodes(label: Array, order: Array, starts: Int64s, nodes: Array) -> None:
    """Fill `nodes` with the nodes of each community in the order of `order`, by counting sort.

    `starts` [communities + 1] is 0, and becomes the first position of each community.
    """
    for i in range(order.size):
        starts[label[order[i]] + 1] += 1
    for c in range(1, starts.size):
        starts[c] += starts[c - 1]
    for i in range(order.size):
        v = order[i]
        nodes[starts[label[v]]] = v
        starts[label[v]] += 1
    for c in range(starts.size - 1, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@kernel
def add_inside(level: Level, label: Array, sums: Float64s, block: int, low: int, high: int) -> None:
    """Fill `sums` [blocks] with the weight within communities of the rows in each block low ≤ b < high of nodes."""
    for b in range(low, high):
        total = 0.0
        for v in range(b * block, min((b + 1) * block, label.size)):
            total += _inside(level.one, v, label) + _inside(level.other, v, label)
        sums[b] = total


@kernel
def _inside(rows: Neighbors, v: _Number, label: Array) -> float:
    total, last = 0.0, rows.indices.size - 1
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        prefetch(label, np.int64(rows.indices[min(p + AHEAD, last)]))
        if label[rows.indices[p]] == label[v]:
            total += rows.weight[p] if rows.weight.size > 0 else 1.0
    return total
