"""Ranks share an epoch without loss, and where it does not come out even they do what they were told."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

from snapdb.loading import BatchStream
from snapdb.sampling import Seeds
from tests.support.graphs import all_seeds, ties
from tests.support.streams import BATCHES, SPEC, open_stream, prints, stream, subset_stream

RANKS = [1, 2, 3, 5, 9]


def ranks_of(world_size: int, **options: Any) -> list[BatchStream]:
    return [stream(rank=rank, world_size=world_size, **options) for rank in range(world_size)]


@pytest.mark.parametrize("world_size", RANKS)
def test_without_drop_last_and_pad_ranks_differ_by_one_at_most(world_size: int) -> None:
    sizes = [len(one) for one in ranks_of(world_size)]
    assert sum(sizes) == BATCHES
    assert max(sizes) - min(sizes) <= 1
    assert not any(b.padding for one in ranks_of(world_size) for b in one)


@pytest.mark.parametrize("world_size", RANKS)
def test_drop_last_leaves_out_the_small_batch_and_what_not_every_rank_would_get(world_size: int) -> None:
    shares = [list(one) for one in ranks_of(world_size, drop_last=True)]
    each = (BATCHES - 1) // world_size  # the last of them holds 2 seeds of 4
    assert [len(share) for share in shares] == [len(one) for one in ranks_of(world_size, drop_last=True)]
    assert [len(share) for share in shares] == [each] * world_size
    assert all(b.batch_size == 4 for share in shares for b in share)
    together = sorted((b for share in shares for b in share), key=lambda b: b.index)
    assert prints(together) == prints(stream())[: each * world_size]


def test_drop_last_keeps_a_last_batch_that_is_full() -> None:
    graph = ties()
    seeds = Seeds("customer", np.arange(28), None, None)
    assert len(open_stream(graph.view(), seeds, SPEC, threads=0, drop_last=True)) == 7
    assert len(open_stream(graph.view(), all_seeds(graph, "customer"), SPEC, threads=0, drop_last=True)) == 7


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("world_size", RANKS)
def test_pad_repeats_the_first_batches_for_ranks_that_would_have_fewer(world_size: int, threads: int) -> None:
    shares = [list(one) for one in ranks_of(world_size, pad=True, threads=threads)]
    assert {len(share) for share in shares} == {-(-BATCHES // world_size)}
    given = {b.index: prints([b]) for share in shares for b in share if not b.padding}
    assert [given[0, i] for i in range(BATCHES)] == [[mark] for mark in prints(stream())]
    padding = sorted((b for share in shares for b in share if b.padding), key=lambda b: b.index)
    assert prints(padding) == prints(stream())[: -BATCHES % world_size]
    assert all(b.index[1] < -BATCHES % world_size for b in padding)


def test_pad_repeats_an_epoch_of_one_batch_as_often_as_it_takes() -> None:
    graph = ties()
    few = Seeds("customer", np.arange(3), None, None)
    ranks = [open_stream(graph.view(), few, SPEC, threads=0, rank=r, world_size=4, pad=True) for r in range(4)]
    assert [[(b.index, b.padding) for b in one] for one in ranks] == [[((0, 0), r > 0)] for r in range(4)]


def test_an_epoch_that_no_rank_gets_a_batch_of_is_over_for_all() -> None:
    ranks = ranks_of(9, drop_last=True)
    assert [list(one) for one in ranks] == [[]] * 9
    assert {one.state_dict()["epoch"] for one in ranks} == {1}


def test_a_rank_with_nothing_goes_on_to_the_next_epoch_as_the_others_do() -> None:
    first, last = stream(rank=0, world_size=9), stream(rank=8, world_size=9)
    assert (len(list(first)), list(last)) == (1, [])
    first_again = list(first)
    assert list(last) == []
    assert {first_again[0].index[0], first.state_dict()["epoch"] - 1, last.state_dict()["epoch"] - 1} == {1}


@pytest.mark.parametrize("uneven", [{}, {"drop_last": True}, {"pad": True}], ids=str)
def test_batches_by_index_are_those_that_the_rank_is_given(uneven: dict[str, bool]) -> None:
    for one in ranks_of(3, **uneven):
        given = list(one)
        assert prints([one[i] for i in range(len(one))]) == prints(given)
        assert [one[i].padding for i in range(len(one))] == [b.padding for b in given]


@pytest.mark.parametrize("uneven", [{"drop_last": True}, {"pad": True}], ids=str)
def test_what_is_left_of_an_epoch_comes_out_even_for_any_number_of_ranks(uneven: dict[str, bool]) -> None:
    state = stream(**uneven).state_dict(consumed=3)
    ranks = ranks_of(2, **uneven)
    for one in ranks:
        one.load_state_dict(state)
    found = [[(b.index[1], b.padding) for b in one] for one in ranks]
    even = [[(3, False), (5, False)], [(4, False), (6, False)]]
    assert found == (even if "drop_last" in uneven else [[*even[0], (7, False)], [*even[1], (0, True)]])
    assert {one.state_dict()["epoch"] for one in ranks} == {1}


def test_after_the_last_batch_that_is_not_dropped_the_epoch_is_over() -> None:
    one = stream(world_size=3, drop_last=True)
    loop = iter(one)
    next(loop)
    assert (one.state_dict()["epoch"], one.state_dict()["consumed"]) == (0, 3)
    next(loop)
    assert (one.state_dict()["epoch"], one.state_dict()["consumed"]) == (1, 0)


def test_the_last_slice_of_a_subset_is_dropped_or_padded_by_its_own_size() -> None:
    graph, spec = (
        ties(),
        replace(SPEC, subset=Fraction(11, 30)),
    )  # epochs of 3, 3 and 2 batches, none of 4 seeds at its end
    for option, sizes in (("drop_last", [2, 2, 2]), ("pad", [4, 4, 2])):
        ranks = [
            open_stream(
                graph.view(), all_seeds(graph, "customer"), spec, threads=0, rank=r, world_size=2, **{option: True}
            )
            for r in range(2)
        ]
        assert [sum(len(list(one)) for one in ranks) for _ in range(3)] == sizes


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_share_what_a_rank_is_padded_with(workers: int) -> None:
    one = stream(rank=2, world_size=3, pad=True)
    loader = DataLoader(one, batch_size=None, num_workers=workers, multiprocessing_context="fork")
    assert [(b.index[1], b.padding) for b in loader] == [(2, False), (5, False), (0, True)]


def test_drop_last_and_pad_together_are_refused() -> None:
    with pytest.raises(ValueError, match="pass one of them"):
        stream(drop_last=True, pad=True)


def test_a_stream_says_which_share_it_gives() -> None:
    assert repr(stream()) == "BatchStream(8 batches of 4 customer seeds, epoch 0)"
    share = "of 4 customer seeds, epoch 0, rank 2 of 3"
    assert repr(stream(rank=2, world_size=3)) == f"BatchStream(2 of 8 batches {share}, which have 2 or 3)"
    assert repr(stream(rank=2, world_size=3, pad=True)) == f"BatchStream(3 of 8 batches {share})"
    assert repr(stream(drop_last=True)) == "BatchStream(7 of 8 batches of 4 customer seeds, epoch 0)"


def test_the_map_style_view_gives_the_batches_of_its_epoch_in_any_order() -> None:
    one = stream()
    view = one.map_style(2)
    one.set_epoch(2)
    batches = prints(one)
    assert (len(view), repr(view)) == (BATCHES, "MapStyle(8 batches)")
    assert prints(view[i] for i in (5, 0, -1)) == [batches[5], batches[0], batches[-1]]
    assert len(stream(world_size=3, pad=True).map_style()) == 3
    with pytest.raises(IndexError, match="batch 8 does not exist"):
        view[BATCHES]
    with pytest.raises(ValueError, match="found -1"):
        one.map_style(-1)


def test_the_map_style_view_stays_with_the_epoch_in_which_it_was_made() -> None:
    one = subset_stream()
    one.set_epoch(2)
    view = one.map_style()
    one.set_epoch(0)
    assert (len(view), view[1].index) == (2, (2, 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shuffling_loader_takes_the_map_style_view(workers: int) -> None:
    context = "fork" if workers else None
    view = stream().map_style()
    loader = DataLoader(view, batch_size=None, shuffle=True, num_workers=workers, multiprocessing_context=context)
    found = {b.index: mark for b in loader for mark in prints([b])}
    assert [found[0, i] for i in range(BATCHES)] == prints(stream())


def test_torchs_own_samplers_take_the_map_style_view() -> None:
    view = stream().map_style()
    some = DataLoader(view, batch_size=None, sampler=RandomSampler(view, num_samples=3))
    assert len({b.index for b in some}) == 3
    ranks = [DistributedSampler(view, num_replicas=3, rank=rank, shuffle=False) for rank in range(3)]
    assert [[b.index[1] for b in DataLoader(view, batch_size=None, sampler=one)] for one in ranks] == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 0],
    ]
