"""Big gathers, which go past the caches in whole lines, give numpy's rows whatever their width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from snapdb.kernels import buffers
from tests.support.inside.kernels import gather, warming

BIG = 5_000_000
"""Bytes that go past the caches, where there is a way."""

SHAPES = [
    ("f4", (100,)),
    ("f4", (128,)),
    ("f4", (101,)),
    ("f4", (15,)),
    ("f4", (16,)),
    ("f4", (17,)),
    ("f8", (50,)),
    ("f2", (33,)),
    ("u1", (63,)),
    ("u1", (64,)),
    ("u1", (65,)),
    ("u1", (127,)),
    ("u1", (129,)),
    ("u1", (5003,)),
    ("c16", (9,)),
    (">f4", (30,)),
    ("f4", (7, 5)),
]


@pytest.mark.parametrize(("kind", "shape"), SHAPES)
def test_rows_of_any_width_go_past_the_caches_whole(kind: str, shape: tuple[int, ...]) -> None:
    width = np.dtype(kind).itemsize * int(np.prod(shape))
    rng = np.random.default_rng(width)
    rows = rng.integers(0, 256, (997, width), np.uint8).view(kind).reshape(997, *shape)
    ids = rng.integers(0, 997, BIG // width)
    ids[:2] = ids[-2:] = 0, 996
    found = gather(rows, ids)
    assert found.shape == (ids.size, *shape)
    assert found.dtype == rows.dtype
    assert found.tobytes() == rows[ids].tobytes()


def test_rows_that_begin_anywhere_in_memory_are_gathered_too() -> None:
    memory = np.arange(400_001, dtype=np.uint32).view(np.uint8)
    rows = memory[1 : 1 + 4000 * 400].view("f4").reshape(4000, 100)
    ids = np.random.default_rng(0).integers(0, 4000, BIG // 400)
    assert gather(rows, ids).tobytes() == rows[ids].tobytes()


@pytest.mark.parametrize("place", [0, 7, -1])
def test_an_id_that_is_no_row_is_found_among_many(place: int) -> None:
    rows, ids = np.zeros((10, 100), np.float32), np.zeros(BIG // 400, np.int64)
    ids[place] = 10
    with pytest.raises(IndexError, match="row 10 does not exist: there are 10 rows"):
        gather(rows, ids)


def test_values_and_ids_of_every_kind_give_numpys_values() -> None:
    values = np.random.default_rng(0).integers(-(2**30), 2**30, 1000).astype(np.int32)
    for kind in (np.int64, np.int32, np.uint16):
        ids: Any = np.random.default_rng(1).integers(0, 1000, 100_000).astype(kind)
        assert np.array_equal(gather(values, ids), values[ids])
    ids = np.arange(999, -1, -1)
    ids.flags.writeable = False
    assert np.array_equal(gather(values, ids), values[::-1])


def test_big_results_begin_at_a_line() -> None:
    assert buffers.empty((BIG,), np.uint8).ctypes.data % 64 == 0


def test_warming_can_be_done_twice_and_passes_errors_on() -> None:
    with warming():
        pass
    with pytest.raises(ValueError, match="of the block"), warming():
        raise ValueError("of the block")
