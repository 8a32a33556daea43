"""The torch back end: its numbers, what it reads of rows, how it is opened, and that numba draws the same.

test_methods.py compares it with the oracle for every method; test_gpu.py runs that table on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from typing import get_args

import numpy as np
import pytest
import torch

from snapdb.kernels.torch_ops import below, draw, fold, number
from snapdb.sampling import open_sampler, torch_backend, vertex_input
from snapdb.types import FULL, Direction, Drawing, EdgeType, Fanout, Relation, Temporal
from tests.support import oracle
from tests.support.backends import same_batches, seen, torch_sampler, words
from tests.support.forms import FORMS, changing, view_of
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec, ties
from tests.support.inside.kernels import (
    LOG_TABLE,
    _race_lengths,
    chunks,
    floyd,
    high_half,
    lower_bound,
    order_in_rows,
    signed,
    unsigned_order,
)
from tests.support.processes import FreshProcess
from tests.support.refusals import refused
from tests.support.worlds import DRAWINGS, SETTINGS, case

BOUGHT = EdgeType("customer", "bought", "product")
KNOWS = EdgeType("customer", "knows", "customer")


def tensor(values: list[int]) -> torch.Tensor:
    """The words of these numbers."""
    return torch.tensor([signed(value) for value in values])


def unsigned(words: torch.Tensor) -> list[int]:
    """The numbers of these words."""
    return [value % 2**64 for value in words.tolist()]


# Numbers


def test_the_logarithms_are_those_of_fifty_digits() -> None:
    with localcontext() as context:
        context.prec = 50
        two = Decimal(2).ln()
        exact = [(1 + Decimal(i) / 4096).ln() / two * 2**40 for i in range(4097)]
    assert LOG_TABLE.tolist() == [int(value.to_integral_value()) for value in exact]
    assert all(abs(value % 1 - Decimal("0.5")) > Decimal("1e-5") for value in exact)  # so that no rounding is close


def test_folds_and_draws_are_the_contracts() -> None:
    keys, parts = words(1), words(2)
    pairs = list(zip(keys, parts, strict=True))
    assert unsigned(fold(tensor(keys), tensor(parts))) == [oracle.fold(k, x) for k, x in pairs]
    assert unsigned(fold(signed(keys[-1]), tensor(parts))) == [oracle.fold(keys[-1], x) for x in parts]
    for slot in (0, 1, 1023, 2**40):
        assert unsigned(draw(tensor(keys), slot)) == [oracle.draw(k, slot) for k in keys]
    assert high_half(tensor(keys)).tolist() == [oracle.u32(k) for k in keys]


def test_below_is_exact_up_to_two_to_the_63() -> None:
    bits = words(3)
    for n in (1, 3, 2**31 - 1, 2**31, 2**32 + 1, 10**15, 2**63 - 1):
        assert below(tensor(bits), torch.tensor(n)).tolist() == [oracle.below(r, n) for r in bits]


def test_words_are_ordered_as_unsigned_numbers() -> None:
    numbers = words(4)
    order = unsigned_order(tensor(numbers)).argsort(stable=True).tolist()
    assert [numbers[i] for i in order] == sorted(numbers)


@pytest.mark.parametrize("k", [1, 5, 64, 1024])
def test_floyds_draws_are_the_contracts(k: int) -> None:
    keys = words(k, 20)
    degrees = [k + 1 + i * i for i in range(len(keys))]
    drawn = floyd(tensor(keys), torch.tensor(degrees), k).tolist()
    assert drawn == [oracle.floyd(key, d, k) for key, d in zip(keys, degrees, strict=True)]


def test_lengths_in_the_race_are_the_contracts() -> None:
    bits = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, *(r >> 32 for r in words(5, 1000))]
    lengths = _race_lengths(torch.tensor(bits), torch.tensor(LOG_TABLE))
    assert lengths.tolist() == [oracle.race_length(b) for b in bits]
    assert int(lengths.min()) >= 0


# Rows


def test_local_ids_are_given_by_first_appearance() -> None:
    rng = np.random.default_rng(6)
    known, met = rng.permutation(50)[:20], rng.integers(0, 50, 300)
    local, new = number(torch.tensor(known), torch.tensor(met))
    ids = known.tolist()
    for node in met.tolist():
        if node not in ids:
            ids.append(node)
    assert local.tolist() == [ids.index(node) for node in met.tolist()]
    assert met[new.numpy()].tolist() == ids[20:]


def test_what_is_known_twice_keeps_its_first_local_id() -> None:
    local, new = number(torch.tensor([4, 7, 4]), torch.tensor([4, 9, 7]))
    assert (local.tolist(), new.tolist()) == ([0, 3, 1], [1])


def test_lower_bounds_are_those_of_a_sorted_list() -> None:
    rng = np.random.default_rng(7)
    values = np.sort(rng.integers(0, 20, 100))
    low, high = np.sort(rng.integers(0, 101, (2, 300)), axis=0)
    bounds = rng.integers(-1, 22, 300)
    found = lower_bound(*(torch.tensor(a) for a in (values, low, high, bounds)), steps=7)
    wanted = [a + np.searchsorted(values[a:b], x) for a, b, x in zip(low, high, bounds, strict=True)]
    assert found.tolist() == [int(at) for at in wanted]


def test_rows_are_sorted_each_for_itself_by_all_keys() -> None:
    rng = np.random.default_rng(8)
    rows = np.sort(rng.integers(0, 5, 200))
    keys = rng.integers(0, 4, (2, 200))
    order = order_in_rows(torch.tensor(rows), *(torch.tensor(key) for key in keys))
    assert order.tolist() == np.lexsort((keys[1], keys[0], rows)).tolist()


def test_chunks_cover_all_rows_once() -> None:
    sizes = torch.tensor([0, 0, 4, 100, 0, 3, 3, 3, 0])
    for most in (1, 3, 7, 50, 1000):
        found = chunks(sizes, most)
        assert [row for low, high in found for row in range(low, high)] == list(range(9))
        assert all(int(sizes[low:high].sum()) <= 2 * most or int(sizes[low:high].max()) > most for low, high in found)


# Batches


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_torch_draws_what_numba_draws(drawing: str, setting: str) -> None:
    for direction in get_args(Direction):
        graph, spec, entry, batch = case(drawing, setting, direction, 2)
        same_batches(graph.view(), spec, entry, "cpu", batch)


@pytest.mark.parametrize("patched", [False, True], ids=["root", "patched"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", get_args(Direction))
def test_the_form_of_the_rows_is_not_seen(direction: Direction, form: str, patched: bool) -> None:
    graph = changing(seed=3, nodes=12, edges=60, hub=150)
    weights = np.random.default_rng(3).random(210)
    view = replace(view_of(graph.adjacency(form, patched=patched), graph.nodes), weights={"knows": weights})
    entry = vertex_input("customer", np.array([0, 3, 11, 7]), times=np.array([4, 3, 8, 0]))
    for drawing in ("uniform", "weighted", "latest", "labor"):
        for temporal in (None, Temporal(True, 4)):
            fanout = Fanout(KNOWS, direction, (5, 2))
            spec = sample_spec("customer", fanout, drawing=DRAWINGS[drawing], temporal=temporal)
            same_batches(view, spec, entry, "cpu", 5)


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_rows_that_are_looked_through_in_chunks_give_the_same(drawing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, spec, entry, batch = case(drawing, "links until", "BOTH", 3)
    sampler = torch_sampler(graph.view(), spec)
    whole = seen(sampler, sampler.sample(entry, batch, sampler.scratch()))
    monkeypatch.setattr(torch_backend, "_LOOKED_THROUGH", 40)
    assert seen(sampler, sampler.sample(entry, batch, sampler.scratch())) == whole


def test_a_batch_without_seeds_or_edges_is_empty() -> None:
    graph = MemoryGraph({"customer": 3}, {KNOWS: EdgeList.of([])})
    for drawing in (Drawing(), Drawing("BOTTOMK"), Drawing("PRIORITY", weights=(("knows", "w"),), weighted=True)):
        view = replace(graph.view(), weights={"knows": np.empty(0)})
        spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2, 2))), drawing=drawing)
        for seeds in ([], [2, 0]):
            same_batches(view, spec, vertex_input("customer", np.array(seeds, np.int64)), "cpu", 0)
    no_hops = sample_spec("customer", Fanout(KNOWS, "IN", ()))
    same_batches(graph.view(), no_hops, vertex_input("customer", np.array([1])), "cpu", 0)


def test_more_with_replacement_than_floyd_may_draw() -> None:
    star = MemoryGraph({"customer": 3000}, {KNOWS: EdgeList(np.arange(3000), np.zeros(3000, np.int64))})
    for drawing in (Drawing(replace=True), Drawing("BOTTOMK"), Drawing("LATEST")):
        spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2000,))), drawing=drawing)
        same_batches(star.view(), spec, vertex_input("customer", np.array([0, 1])), "cpu", 2)


def test_arrays_come_out_on_the_cpu_in_the_hosts_memory() -> None:
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (2,)))
    sampler = torch_sampler(ties().view(), spec)
    found = sampler.sample(vertex_input("customer", np.array([3])), 0, sampler.scratch())
    for values in (found.nodes["customer"], found.edges[Relation(KNOWS, "IN")].index, found.entered[0]):
        assert isinstance(values, np.ndarray)
        assert values.dtype == np.int64


# Opening


def test_torch_is_chosen_by_name_or_by_device() -> None:
    view, spec = ties().view(), sample_spec("customer", Fanout(KNOWS, "IN", (2,)))
    assert open_sampler(view, spec).backend.name == "numba"
    assert open_sampler(view, replace(spec, device="cpu")).backend.name == "numba"
    assert open_sampler(view, replace(spec, backend="numba")).backend.name == "numba"
    assert open_sampler(view, replace(spec, backend="torch")).backend.name == "torch"


def test_torch_is_imported_only_when_it_is_asked_for(fresh_process: FreshProcess) -> None:
    code = "import snapdb.sampling.backends, sys; print('torch' in sys.modules)"
    assert fresh_process(code).stdout == "False\n"


def test_a_select_does_not_wait_for_torch(fresh_process: FreshProcess) -> None:
    code = (
        "import sys, snapdb, snapdb.lineage\n"
        "with snapdb.connect() as db: db.execute('SELECT 1').fetchall()\n"
        "print('torch' in sys.modules)"
    )
    assert fresh_process(code).stdout == "False\n"


@pytest.mark.parametrize("name", ["gpu", "cuda:", "CUDA", "cuda:one", "meta", ""])
def test_what_is_no_device_is_refused(name: str) -> None:
    spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2,))), device=name)
    with refused("device", "'cpu'", "'cuda'"):
        open_sampler(ties().view(), spec)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("backend", [None, "numba", "torch"])
def test_cuda_where_there_is_none_is_refused(backend: str | None) -> None:
    spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2,))), device="cuda:1", backend=backend)
    with refused("device", "ON", "'cuda:1'", "CUDA"):
        open_sampler(ties().view(), spec)


def test_a_fanout_beyond_what_torch_draws_is_refused() -> None:
    view, torch_spec = ties().view(), replace(sample_spec("customer"), backend="torch")
    large = replace(torch_spec, fanouts=(Fanout(KNOWS, "IN", (5, 1025)),))
    with refused("device", "FANOUT", "1025", "WITH", "1024"):
        open_sampler(view, large)
    open_sampler(view, replace(torch_spec, fanouts=(Fanout(KNOWS, "IN", (1024, FULL)),)))
    open_sampler(view, replace(large, drawing=Drawing("LABOR")))


def test_edges_that_do_not_fit_on_the_device_are_refused() -> None:
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (2,)), drawing=Drawing("BOTTOMK"))
    needed = 31 * 8 + 120 * 4 + 120 * 4  # where rows start, neighbours, edge ids
    with refused("device", f"{needed:,} bytes on cpu", "1,000"):
        torch_sampler(ties().view(), spec, room=1000)
    torch_sampler(ties().view(), spec, room=needed)


def test_torch_refuses_what_numba_refuses() -> None:
    graph = ties()
    weighed = Drawing(weights=(("bought", "price"),), weighted=True)
    spec = replace(sample_spec("customer", Fanout(BOUGHT, "OUT", (2,))), backend="torch", drawing=weighed)
    with refused("bad-weight"):
        open_sampler(replace(graph.view(), weights={"bought": np.full(200, np.nan)}), spec)
    twice = (Fanout(BOUGHT, "OUT", (2,)), Fanout(BOUGHT, "BOTH", (2,)))
    with refused("duplicate-fanout"):
        open_sampler(graph.view(), replace(spec, fanouts=twice, drawing=Drawing()))
    with pytest.raises(ValueError, match="seed type 'nobody' does not exist"):
        open_sampler(graph.view(), replace(spec, seed_type="nobody"))


def test_seeds_out_of_range_are_refused() -> None:
    sampler = torch_sampler(ties().view(), sample_spec("customer", Fanout(KNOWS, "IN", (2,))))
    with pytest.raises(IndexError, match="0 ≤ id < 30, found -1 to 3"):
        sampler.sample(vertex_input("customer", np.array([3, -1])), 0, sampler.scratch())


def test_neighbours_that_are_no_vertices_are_damage() -> None:
    graph = ties()
    small = replace(graph, nodes={"customer": 30, "product": 20})
    view = replace(small.view(), node_counts={"customer": 12, "product": 20})
    with refused("damaged-snapshot"):
        torch_sampler(view, sample_spec("product", Fanout(BOUGHT, "IN", (2,))))
