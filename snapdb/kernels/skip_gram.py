"""Skip-gram with negative sampling: stochastic gradient descent over pairs of nodes."""

from __future__ import annotations

import math

import numpy as np

from snapdb.arrays import Float32s, Int64s
from snapdb.kernels.compiled import kernel

LANES = 8
"""The number of partial sums of a dot product. The width of vectors must be a multiple of it."""


@kernel
def _dot(first: Float32s, second: Float32s) -> np.float32:
    """Return the dot product of two vectors of equal width, a multiple of LANES."""
    # Floating point addition is not associative, so the compiler vectorizes a sum only if it is written as independent
    # partial sums.
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0)
    for block in range(first.size // LANES):
        i = block * LANES
        s0 += first[i] * second[i]
        s1 += first[i + 1] * second[i + 1]
        s2 += first[i + 2] * second[i + 2]
        s3 += first[i + 3] * second[i + 3]
        s4 += first[i + 4] * second[i + 4]
        s5 += first[i + 5] * second[i + 5]
        s6 += first[i + 6] * second[i + 6]
        s7 += first[i + 7] * second[i + 7]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


# word2vec's training loop (Mikolov et al., 2013): for each pair, one positive and n negative logistic regressions,
# whose gradients are applied at once. It costs 6 width (n + 1) floating point operations per pair. One thread runs it,
# because updates without locks (Hogwild) would make the vectors depend on timing.
@kernel
def descend(
    pairs: Int64s, negatives: Int64s, vectors: Float32s, contexts: Float32s, error: Float32s, rate: np.float32
) -> float:
    """Update vectors and contexts by one step per pair, in order. Returns the sum of the losses before each step.

    Args:
        pairs: [2, pairs] The node numbers of centres and contexts.
        negatives: [pairs, n] The node numbers of negatives. Those that equal the pair's context, and -1, are skipped.
        vectors: [nodes, width] The vectors of centres.
        contexts: [nodes, width] The vectors of contexts.
        error: [width] Scratch memory.
        rate: The learning rate.
    """
    width, loss = error.size, 0.0
    for i in range(pairs.shape[1]):
        center, context = vectors[pairs[0, i]], pairs[1, i]
        for d in range(width):
            error[d] = np.float32(0)
        for s in range(negatives.shape[1] + 1):
            node = context if s == 0 else negatives[i, s - 1]
            if s > 0 and (node == context or node < 0):
                continue
            other = contexts[node]
            score = float(_dot(center, other))
            # The loss is softplus(-score) for the context and softplus(score) for negatives.
            signed = -score if s == 0 else score
            small = math.exp(-abs(signed))
            loss += max(signed, 0.0) + math.log1p(small)
            wrong = (small if signed < 0 else 1.0) / (1.0 + small)
            step = np.float32(wrong if s == 0 else -wrong) * rate
            for d in range(width):
                error[d] += step * other[d]
            for d in range(width):
                other[d] += step * center[d]
        for d in range(width):
            center[d] += error[d]
    return loss
