"""Draws are uniform: every edge of a star, and every pair, is taken equally often over many batches."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.sampling import numba_sampler, vertex_input
from snapdb.types import EdgeType, Fanout
from tests.support.chances import STRICT, inclusion, pairs_are_even
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec

KNOWS = EdgeType("node", "knows", "node")
BATCHES = 4000


def positions(degree: int, k: int, batches: int = BATCHES) -> npt.NDArray[np.int64]:
    """[batches, k] the positions drawn from a star's row, batch by batch."""
    edges = EdgeList(np.arange(degree, dtype=np.int64), np.zeros(degree, np.int64))
    sampler = numba_sampler(
        MemoryGraph({"node": degree}, {KNOWS: edges}).view(), sample_spec("node", Fanout(KNOWS, "IN", (k,)))
    )
    scratch = sampler.scratch()
    hub = vertex_input("node", np.zeros(1, np.int64))
    return np.stack([sampler.sample(hub, batch, scratch).hops[0][0].position for batch in range(batches)])


@pytest.mark.parametrize(("degree", "k"), [(11, 1), (20, 10), (64, 15), (65, 15), (200, 100), (300, 140), (1500, 5)])
def test_every_edge_is_taken_equally_often(degree: int, k: int) -> None:
    drawn = positions(degree, k)
    assert all(len(set(row)) == k for row in drawn[:200].tolist())
    assert STRICT < inclusion(drawn, degree) < 1 - STRICT


def test_every_pair_is_taken_equally_often() -> None:
    pairs_are_even(positions(12, 4), 12)


def test_the_measure_sees_a_prefix_of_a_draw_which_is_no_sample() -> None:
    degree, k = 20, 10
    assert inclusion(positions(degree, k)[:, : k // 2], degree) < STRICT


def test_the_measure_sees_one_percent_of_bias() -> None:
    degree, k = 64, 1
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(degree) < degree // 2, 1.01, 0.99) / degree
    biased = rng.choice(degree, size=(BATCHES * 100, k), p=weights)
    assert inclusion(biased, degree) < STRICT


def test_the_measure_sees_draws_that_are_too_even() -> None:
    degree = 20
    even = np.arange(BATCHES)[:, None] % degree
    assert inclusion(even, degree) > 1 - STRICT


def test_draws_of_neighbouring_batches_are_independent() -> None:
    degree, k = 40, 10
    drawn = positions(degree, k)
    overlap = [len(set(a) & set(b)) for a, b in zip(drawn.tolist(), drawn[1:].tolist(), strict=False)]
    expected, spread = k * k / degree, math.sqrt(k * (k / degree) * (1 - k / degree) * (degree - k) / (degree - 1))
    assert abs(np.mean(overlap) - expected) < 4 * spread / math.sqrt(len(overlap))
