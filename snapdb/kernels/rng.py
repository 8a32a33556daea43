"""Random numbers from a stateless, counter-based generator (rng scheme `snapdb-1`) that hashes named parts and a slot.

All arithmetic is on 64-bit unsigned integers and wraps around. Operands must be uint64, because numba converts uint64 +
int64 to int64.

    >>> [hex(mix(np.uint64(1))), hex(fold(np.uint64(0), np.uint64(42)))]
    ['0x5692161d100b05e5', '0x57e1faba65107204']
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.compiled import allocating_kernel, kernel, multiply_high

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The increment of splitmix64, which is 2^64 divided by the golden ratio, made odd."""


# A counter-based generator (Salmon et al., 2011). Each number is a hash of the parts that identify it, so any thread or
# device can compute any draw independently, in any order. The mixer is that of splitmix64 (Steele, Lea and Flood,
# 2014).
@kernel
def mix(z: np.uint64) -> np.uint64:
    """Apply the finaliser of splitmix64, a bijection in which every bit of z affects every bit of the result."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def fold(key: np.uint64, part: np.uint64) -> np.uint64:
    """Extend a key by one part. For a fixed key, this is a bijection of the part. The first key is fold(0, seed)."""
    return mix((key ^ mix(part + _GOLDEN)) + _GOLDEN)


@kernel
def draw(key: np.uint64, slot: np.uint64) -> np.uint64:
    """Return element `slot` of the key's sequence of 64-bit random numbers."""
    return mix(key + slot * _GOLDEN)


# Lemire's multiplication (2019) instead of a division. Without the rejection step, the bias is below n / 2^64, and each
# draw consumes exactly one random number.
@kernel
def below(bits: np.uint64, n: np.uint64) -> np.uint64:
    """floor(bits * n / 2^64): a uniform number 0 ≤ result < n, for n ≥ 1."""
    high: np.uint64 = multiply_high(bits, n)
    return high


@allocating_kernel
def fold_each(key: np.uint64, parts: Int64s) -> UInt64s:
    """Return fold(key, part) for each part, as [parts]."""
    keys = np.empty(parts.size, np.uint64)
    for i in range(parts.size):
        keys[i] = fold(key, np.uint64(parts[i]))
    return keys


def fold_parts(seed: int, *parts: int) -> np.uint64:
    """Return the key of a seed and the parts that follow it, each 0 ≤ part < 2^64.

    >>> hex(fold_parts(42, 2, 7, 1, 0x860DA7D90BDD38F6, 123456))
    '0xf0a625c1c1ab29d8'
    """
    return np.uint64(_fold_all(np.array((seed, *parts), np.uint64)))


# One call folds all parts. No key is passed to a kernel as a bare argument, because numba dispatches a call with a
# uint64 scalar and a tuple of arrays through Python. This took `sample_uniform` 170 µs instead of 6 µs.
@kernel
def _fold_all(parts: UInt64s) -> np.uint64:
    key = np.uint64(0)
    for part in parts:
        key = fold(key, part)
    return key


# A shuffle that is a pure function of its key. Sorting by hash costs O(n log n), but Fisher-Yates would need state.
def shuffle(key: np.uint64, count: int) -> Int64s:
    """Return the numbers 0 ≤ i < count in the order of fold(key, i).

    fold is a bijection of its part, so there are no ties, and every sort gives this order.
    """
    return np.argsort(fold_each(key, np.arange(count, dtype=np.int64))).astype(np.int64, copy=False)


# Keys consist of the parts that distinguish draws, in the order in which they are folded.
EVERY_HOP = 2**32 - 1
"""The hop value in keys that do not depend on the hop."""


class Domain(IntEnum):
    """The purpose of a draw. It is the first part after the seed, so that no two purposes share random bits."""

    ROW = 1
    PICK = 2
    FRESH = 3
    PHASE = 4
    SEEDPERM = 5
    NEG = 6
    HASH = 7
    WALK = 8
    PAIR = 9


def pick_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """Return the pick key of a hop over one edge type. Folding a node's dense id into it gives the node's key.

    `batch` is the global batch number, and `edge_type` is `Relation.hash`.

    >>> hex(fold(pick_prefix(42, 7, 1, 0x860DA7D90BDD38F6), np.uint64(123456)))
    '0xf0a625c1c1ab29d8'
    """
    return fold_parts(seed, Domain.PICK, batch, hop, edge_type)


def fresh_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """Return the key of a hop's residual draws over one edge type, analogous to `pick_prefix`."""
    return fold_parts(seed, Domain.FRESH, batch, hop, edge_type)


def hash_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """Return the hash key of a hop over one edge type. Folding a node id and an edge id into it gives an edge key."""
    return fold_parts(seed, Domain.HASH, batch, hop, edge_type)


def labor_keys(
    seed: int, batch: int, hop: int, edge_type: int, dependent: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the parts of a neighbour's variate: (key, next period's key, key of phases, elapsed share of the period).

    A variate is used for `dependent` batches. It is redrawn when the upper half of fold(key of phases, dense id) plus
    the share reaches 2^32. The keys are for the whole hop, without the edge type.
    """
    whole, share = divmod((batch << 32) // dependent, 1 << 32)
    now, later = (fold_parts(seed, Domain.HASH, round_, hop) for round_ in (whole, whole + 1))
    return now, later, fold_parts(seed, Domain.PHASE, hop, edge_type), np.uint64(share)


def seed_order_key(seed: int, epoch: int) -> np.uint64:
    """Return the key of an epoch's shuffle. Folding an ordinal into it gives the ordinal's sort key."""
    return fold_parts(seed, Domain.SEEDPERM, epoch)
