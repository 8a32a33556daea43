"""Draws are the contract's, bit for bit; gathered rows are numpy's; recycled memory is never shared."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapdb.kernels import buffers
from snapdb.kernels.rng import Domain, below, draw, fold, mix, pick_prefix, seed_order_key
from snapdb.types import EdgeType
from tests.support import oracle
from tests.support.inside.kernels import (
    PLAIN_FIELDS,
    DrawKeys,
    EdgeBuffers,
    LocalIds,
    count_edges,
    fold_parts,
    gather,
    row_arrays,
    sample_uniform,
    shuffle,
)
from tests.support.processes import FreshProcess

WORDS = st.integers(0, 2**64 - 1)
ET = EdgeType("customer", "bought", "product").type_hash("IN")
PICK = 0xF0A625C1C1AB29D8


def u64(value: int) -> np.uint64:
    return np.uint64(value)


def floyd(key: int, degree: int, k: int) -> list[int]:
    """The positions that the kernel draws for one node whose pick key is `key`."""
    prefix, node = unfolded(key)
    rows = row_arrays(np.array([0, degree]), np.arange(degree, dtype=np.int32))
    positions, neighbors, row_nodes = (np.empty(k, np.int64) for _ in range(3))
    frontier, nodes = np.array([node]), np.empty(degree + 1, np.int64)
    spans = np.empty((1, PLAIN_FIELDS), np.int64)
    assert count_edges(rows, k, frontier, 0, 1, spans) == k
    local, drawn = LocalIds(nodes, np.zeros(degree, np.int32), 1, degree), EdgeBuffers(positions, neighbors, row_nodes)
    count, edges = sample_uniform(rows, DrawKeys(*[prefix] * 5), k, frontier, 0, 1, spans, local, 0, drawn, 0)
    assert (count, edges) == (k, k)
    return positions.tolist()


def unfolded(key: int) -> tuple[np.uint64, int]:
    """A prefix that gives `key` with node 0: fold is undone, as it is a bijection of the prefix too."""
    inner = unmixed(key)
    return u64(((inner - oracle.G) & oracle.MASK) ^ oracle.mix(oracle.G)), 0


def unmixed(z: int) -> int:
    """The number that mix maps to z."""
    z = unshifted(z, 31) * pow(0x94D049BB133111EB, -1, 2**64) & oracle.MASK
    z = unshifted(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & oracle.MASK
    return unshifted(z, 30)


def unshifted(z: int, by: int) -> int:
    """The number x with x ^ x >> by = z."""
    x = z
    for _ in range(64 // by + 1):
        x = z ^ (x >> by)
    return x


def test_mixing_and_folding_give_the_contract_vectors() -> None:
    assert mix(u64(0)) == 0
    assert mix(u64(1)) == 0x5692161D100B05E5
    assert fold(u64(0), u64(0)) == 0xA706DD2F4D197E6F
    assert fold(u64(0), u64(42)) == fold_parts(42) == 0x57E1FABA65107204


def test_type_hashes_give_the_contract_vectors() -> None:
    assert ET == 0x860DA7D90BDD38F6
    assert EdgeType("customer", "bought", "product").type_hash("OUT") == 0x7A969BCD2CCB509B


def test_the_pick_key_and_its_draws_give_the_contract_vectors() -> None:
    assert fold(pick_prefix(42, 7, 1, ET), u64(123456)) == PICK
    expected = [0xFBC33FA4663DF263, 0xB9945E293C549CF6, 0x6992AECE412F7080, 0xC336E5EBF4683B2B]
    assert [draw(u64(PICK), u64(i)) for i in range(4)] == expected


@pytest.mark.parametrize(("n", "expected"), [(10, 9), (2**31 - 1, 2111938513), (2**40, 1081312519270)])
def test_below_gives_the_contract_vectors(n: int, expected: int) -> None:
    assert below(u64(0xFBC33FA4663DF263), u64(n)) == expected


@pytest.mark.parametrize(("d", "expected"), [(20, [15, 12, 7, 14, 6]), (100_000, [98342, 72491, 41239])])
def test_floyd_gives_the_contract_vectors(d: int, expected: list[int]) -> None:
    assert floyd(PICK, d, len(expected)) == expected


def test_a_row_key_and_its_floyd_give_the_contract_vectors() -> None:
    row = fold_parts(42, Domain.ROW, 0, 3, 2**32 - 1, ET, 123456)
    assert row == 0xC7B75DC917766C6A
    assert floyd(int(row), 20, 10) == [10, 4, 6, 3, 7, 5, 9, 13, 18, 19]


def test_phases_and_negatives_give_the_contract_vectors() -> None:
    assert int(fold_parts(42, Domain.PHASE, 0, ET, 5)) >> 32 == 3177133315
    assert below(u64(draw(fold_parts(42, Domain.NEG, 0, 3, 1), u64(0))), u64(1000)) == 47


def test_seed_orders_give_the_contract_vectors() -> None:
    assert shuffle(seed_order_key(42, 0), 8).tolist() == [7, 2, 4, 5, 0, 1, 6, 3]
    assert shuffle(seed_order_key(42, 1), 8).tolist() == [4, 1, 0, 2, 6, 3, 5, 7]


@given(WORDS, WORDS)
def test_fold_and_draw_are_the_oracles(key: int, part: int) -> None:
    assert fold(u64(key), u64(part)) == oracle.fold(key, part)
    assert draw(u64(key), u64(part)) == oracle.draw(key, part)


@given(WORDS, st.one_of(st.integers(1, 2**63 - 1), st.sampled_from([1, 2, 2**31 - 1, 2**31, 2**32, 2**63 - 1])))
def test_below_is_exact_up_to_two_to_the_63(bits: int, n: int) -> None:
    assert below(u64(bits), u64(n)) == bits * n >> 64


@given(WORDS, st.integers(2, 3000), st.data())
def test_floyd_is_the_oracles_whatever_holds_the_chosen(key: int, degree: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, degree - 1))
    assert floyd(key, degree, k) == oracle.floyd(key, degree, k)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8", "?", "c16", ">f4"])
@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 7), (50, 64), (50, 0), (50, 2, 3)])
def test_gathered_rows_are_numpys(kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, shape).astype(kind)
    ids = rng.integers(0, 50, 200)
    found = gather(rows, ids)
    assert found.dtype == rows.dtype
    assert np.array_equal(found, rows[ids])
    assert gather(rows, ids[:0]).shape == (0, *shape[1:])


def test_gathering_keeps_every_bit_of_a_nan() -> None:
    rows = np.array([0x7FC12345, 0xFFC00001], np.uint32).view(np.float32)
    assert gather(rows, np.array([1, 0])).view(np.uint32).tolist() == [0xFFC00001, 0x7FC12345]


@pytest.mark.parametrize(
    "rows", [np.arange(60.0).reshape(6, 10)[:, ::2], np.asfortranarray(np.arange(60).reshape(6, 10))], ids=["cut", "F"]
)
def test_rows_that_are_not_contiguous_are_gathered_too(rows: npt.NDArray[Any]) -> None:
    assert np.array_equal(gather(rows, np.array([5, 0])), rows[[5, 0]])


def test_memory_mapped_rows_and_int32_ids_are_gathered_too(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.arange(60, dtype=np.float32).reshape(6, 10))
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = gather(rows, np.array([5, 0], np.int32))
    assert type(found) is np.ndarray
    assert found.flags.writeable
    assert np.array_equal(found, np.load(tmp_path / "x.npy")[[5, 0]])


@pytest.mark.parametrize("wrong", [-1, 6, 2**40])
@pytest.mark.parametrize("shape", [(6,), (6, 2)])
def test_ids_that_are_no_rows_are_refused(wrong: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(IndexError, match=f"row {wrong} does not exist: there are 6 rows"):
        gather(np.zeros(shape), np.array([0, wrong]))


def test_two_live_arrays_never_share_recycled_memory() -> None:
    arrays = [buffers.empty((300_000,), np.int64) for _ in range(4)]
    for i, array in enumerate(arrays):
        array[:] = i
    del arrays[1]
    arrays.append(buffers.empty((290_000,), np.int64))
    arrays[-1][:] = 9
    assert [array[0] for array in arrays] == [array[-1] for array in arrays] == [0, 2, 3, 9]


def test_memory_is_used_again_once_its_last_view_is_gone() -> None:
    buffers.release_free()
    array = buffers.empty((1 << 20,), np.float32)
    address, view = array.ctypes.data, array[1:].reshape(-1, 3)
    del array
    other = buffers.empty((1 << 20,), np.float32)
    assert other.ctypes.data != address
    del view
    gc.collect()
    assert buffers.empty((1 << 20,), np.float32).ctypes.data == address


def test_a_somewhat_smaller_array_takes_a_free_block_too() -> None:
    buffers.release_free()
    array = buffers.empty((1 << 20,), np.uint8)
    address = array.ctypes.data
    del array
    smaller = buffers.empty((900_000,), np.uint8)
    assert smaller.ctypes.data == address
    del smaller
    assert buffers.empty((500_000,), np.uint8).ctypes.data != address  # half of the block would be lost


def test_free_blocks_are_given_back_but_for_some_of_each_size() -> None:
    buffers.release_free()
    arrays = [buffers.empty((1 << 20,), np.uint8) for _ in range(5)]
    del arrays
    whole = buffers.free_bytes()
    buffers.keep_free(2)
    assert buffers.free_bytes() == whole * 2 // 5
    buffers.release_free()
    assert buffers.free_bytes() == 0


def test_threads_share_recycled_memory_without_harm() -> None:
    wrong = []

    def work(mark: int) -> None:
        for _ in range(200):
            array = buffers.empty((70_000,), np.int64)
            array[:] = mark
            if array.min() != mark or array.max() != mark:
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_work_without_a_place_to_cache_them(fresh_process: FreshProcess) -> None:
    code = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from snapdb.kernels.rng import mix\n"
        "assert mix(np.uint64(1)) == 0x5692161D100B05E5\n"
        "assert mix.stats.cache_path is None\n"
    )
    done = fresh_process(code)
    assert done.returncode == 0, done.stderr
