"""Label propagation: every node takes the label that is most frequent among its neighbors."""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.kernels.algorithms.rows import AHEAD, Neighbors
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import fold


# Asynchronous label propagation (Raghavan, Albert and Kumara, 2007): nodes see labels that changed in the same round,
# so that labels do not oscillate. A node keeps its label if no other is more frequent. Ties between other labels are
# decided by a hash of the label and the round. O(edges) per round, on one thread, because each node depends on those
# before it.
@kernel
def propagate_labels(
    arriving: Neighbors,
    leaving: Neighbors,
    order: Int64s,
    labels: Array,
    counts: Float64s,
    touched: Array,
    key: Int64s,
    stop: Array,
) -> int:
    """Update the label of every node once. Returns the number of labels that changed.

    Args:
        arriving: The edges that arrive at a node.
        leaving: The edges that leave a node.
        order: The nodes, in the order in which they are updated.
        labels: [nodes] The label of each node, 0 ≤ label < nodes.
        counts: [nodes] Zeros, space for the weight of each label.
        touched: [nodes] Space for the labels of the neighbors of a node.
        key: [1] The key of the ties of the round, the bits of a uint64.
        stop: The loop ends soon after it becomes 1.
    """
    changed, ties = 0, np.uint64(key[0])
    for i in range(order.size):
        if i & 0xFFFF == 0 and stop[0] != 0:
            return 0
        v = order[i]
        found = count_labels(arriving, v, labels, counts, touched, 0)
        found = count_labels(leaving, v, labels, counts, touched, found)
        own = np.int64(labels[v])
        best, most = own, counts[own]
        rank = np.uint64(0)
        for j in range(found):
            label = np.int64(touched[j])
            if counts[label] > most:
                best, most = label, counts[label]
                rank = fold(ties, np.uint64(label))
            elif counts[label] == most and best != own:
                other = fold(ties, np.uint64(label))
                if other < rank:
                    best, rank = label, other
        for j in range(found):
            counts[touched[j]] = 0.0
        if best != own:
            labels[v] = best
            changed += 1
    return changed


@kernel
def count_labels(
    rows: Neighbors, v: int | np.int64, labels: Array, counts: Float64s, touched: Array, found: int | np.int64
) -> int | np.int64:
    """Add the weights of the neighbors of a node to the counts of their labels. Returns the number of touched labels.

    A label of weight 0 may be touched twice.
    """
    last = rows.indices.size - 1
    for p in range(rows.indptr[v], rows.indptr[v + 1]):
        prefetch(labels, np.int64(rows.indices[min(p + AHEAD, last)]))
        if rows.indices[p] == v:
            continue
        weight = rows.weight[p] if rows.weight.size > 0 else 1.0
        label = labels[rows.indices[p]]
        if weight == 0.0:
            continue
        if counts[label] == 0.0:
            touched[found] = label
            found += 1
        counts[label] += weight
    return found
