"""The zero-copy gather, by Triton's interpreter on the CPU, and on a GPU where there is one."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from snapdb.sampling import open_sampler, vertex_input
from snapdb.types import Fanout
from tests.support.graphs import sample_spec, ties
from tests.support.inside.loading import DeviceTransfer
from tests.support.processes import FreshProcess
from tests.support.refusals import refused
from tests.support.streams import KNOWS, stream

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")

COMPARED = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch
from snapdb.kernels.triton_gather import gather_zero_copy
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool):
    for shape in ((7,), (7, 1), (7, 3), (7, 16), (7, 1025), (7, 2, 3), (7, 0)):
        rows = (torch.arange(7 * torch.Size(shape[1:]).numel()) % 120).reshape(shape).to(dtype)
        for kind in (torch.int64, torch.int32):
            ids = torch.tensor([6, 0, 3, 3], dtype=kind)
            gathered = gather_zero_copy(rows, ids)
            assert gathered.dtype == dtype and torch.equal(gathered, rows[ids.long()]), (dtype, shape, kind)
            assert gather_zero_copy(rows, ids[:0]).shape == (0, *shape[1:])
print("equal")
"""


def test_it_copies_what_indexing_gives(fresh_process: FreshProcess) -> None:
    assert fresh_process(COMPARED).stdout.strip() == "equal"


def test_it_is_for_streams_to_a_gpu() -> None:
    with refused("zero-copy", "'cpu'", "device='cuda'"):
        stream(zero_copy=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("zero_copy", [False, True])
@pytest.mark.parametrize("room", [0, None])
def test_a_gpu_reads_features_that_do_not_fit(room: int | None, zero_copy: bool) -> None:
    view = ties().view()
    sampler = open_sampler(view, sample_spec("customer", Fanout(KNOWS, "IN", (3,))))
    transfer = DeviceTransfer(torch.device("cuda"), view, sampler.node_types, room, zero_copy=zero_copy)
    ids = torch.tensor([2, 0, 1], device="cuda")
    subgraph = sampler.sample(vertex_input("customer", np.array([0, 1])), 0, sampler.scratch())
    assert subgraph.nodes["customer"].size > 0
    for name, feature in view.node_features.get("customer", {}).items():
        rows = transfer._residents.gathered("customer", name, ids)
        assert (rows is None) == (room == 0 and not zero_copy)
        assert rows is None or torch.equal(rows.cpu(), torch.from_numpy(feature.read(np.array([2, 0, 1]))))
