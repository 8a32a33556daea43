"""The table of all methods on a GPU: torch on CUDA draws what numba draws on the CPU, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from snapdb.kernels.torch_ops import below, draw, fold
from snapdb.sampling import open_sampler, vertex_input
from snapdb.types import Direction, EdgeType, Fanout, Temporal
from tests.support import oracle
from tests.support.backends import same_batches, words
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.kernels import LOG_TABLE, _race_lengths, signed
from tests.support.worlds import DRAWINGS, SETTINGS, case

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason=f"torch {torch.__version__} finds no CUDA device"),
]

OF = EdgeType("leaf", "of", "hub")


def on_gpu(values: list[int]) -> torch.Tensor:
    """The words of these numbers."""
    return torch.tensor([signed(value) for value in values], device="cuda")


def test_a_gpu_counts_as_the_contract_does() -> None:
    keys, parts = words(1), words(2)
    folded = fold(on_gpu(keys), on_gpu(parts)).tolist()
    assert folded == [signed(oracle.fold(k, x)) for k, x in zip(keys, parts, strict=True)]
    assert draw(on_gpu(keys), 7).tolist() == [signed(oracle.draw(k, 7)) for k in keys]
    for n in (3, 2**31, 2**63 - 1):
        assert below(on_gpu(keys), torch.tensor(n, device="cuda")).tolist() == [oracle.below(r, n) for r in keys]
    bits = [r >> 32 for r in keys]
    table = torch.tensor(LOG_TABLE, device="cuda")
    assert _race_lengths(on_gpu(bits), table).tolist() == [oracle.race_length(b) for b in bits]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_a_gpu_draws_what_numba_draws(drawing: str, setting: str) -> None:
    for direction in get_args(Direction):
        for seed in range(2):
            graph, spec, entry, batch = case(drawing, setting, direction, seed)
            same_batches(graph.view(), spec, entry, "cuda", batch)


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_a_gpu_draws_a_large_hub_as_numba_does(drawing: str) -> None:
    rng = np.random.default_rng(0)
    leaves, weights = rng.permutation(100_000), rng.choice([0.0, 1.0, 2.5], 100_000)
    listed = EdgeList(leaves, np.zeros(100_000, np.int64), rng.integers(0, 50, 100_000), weights)
    graph = MemoryGraph({"leaf": 100_000, "hub": 2}, {OF: listed}, weights={"of": weights})
    how = DRAWINGS[drawing]
    how = replace(how, weights=(("of", "stars"),) if how.weighted else ())
    for temporal in (None, Temporal(False, 7)):
        spec = sample_spec("hub", Fanout(OF, "IN", (64,)), drawing=how, temporal=temporal)
        same_batches(
            graph.view(), spec, vertex_input("hub", np.array([0, 1, 0]), times=np.array([9, 9, 30])), "cuda", 3
        )


def test_batches_stay_on_the_gpu() -> None:
    graph = MemoryGraph({"leaf": 9, "hub": 1}, {OF: EdgeList(np.arange(9), np.zeros(9, np.int64))})
    sampler = open_sampler(graph.view(), sample_spec("hub", Fanout(OF, "IN", (4,)), device="cuda"))
    assert sampler.backend.name == "torch"
    found = sampler.sample(vertex_input("hub", np.array([0])), 0, sampler.scratch())
    for values in (*found.nodes.values(), *found.entered, *(edges.index for edges in found.edges.values())):
        assert values.device.type == "cuda"
