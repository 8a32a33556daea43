"""A state goes on anywhere: with other threads, DataLoader workers and ranks, in DataLoader and StatefulDataLoader.

docs/torch.md shows what was tried; `SNAPDB_RECORD=1` writes its table anew.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from itertools import islice, product
from typing import Any, NamedTuple

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from snapdb.loading import BatchStream
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.streams import BATCHES, prints, stream, subset_stream
from tests.support.thoroughness import some

PAGE = ROOT / "docs" / "torch.md"
TABLE = re.compile(r"(<!-- resumed: .* -->\n\n).*(\n\n<!-- /resumed -->)", re.DOTALL)
THREADS, WORKERS, RANKS = (0, 1, 3), (0, 1, 2), (1, 2, 3)
RECORD = bool(os.environ.get("SNAPDB_RECORD"))
TAKEN = 2
"""Batches that each rank takes before the state is saved."""

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on machines of one core


class Way(NamedTuple):
    """How an epoch is read."""

    ranks: int
    workers: int
    threads: int

    def streams(self) -> list[BatchStream]:
        """One for each rank."""
        return [stream(threads=self.threads, rank=rank, world_size=self.ranks) for rank in range(self.ranks)]

    def loader(self, one: BatchStream) -> Any:
        """What the loop of a rank goes through."""
        if self.workers == 0:
            return one
        return DataLoader(one, batch_size=None, num_workers=self.workers, multiprocessing_context="fork")


WAYS = [Way(*way) for way in product(RANKS, WORKERS, THREADS)]


@cache
def whole() -> list[bytes]:
    """Epoch 0 as a single stream gives it."""
    return prints(stream())


@cache
def state_of(way: Way) -> str:
    """What every rank saves after so many batches, all the same, as it lies in a file."""
    states = set()
    for one in way.streams():
        loop = iter(way.loader(one))
        taken = prints(islice(loop, TAKEN))
        assert taken == whole()[one.sharing.rank :: way.ranks][:TAKEN]
        states.add(json.dumps(one.state_dict(consumed=TAKEN) if way.workers else one.state_dict()))
        del loop
    (state,) = states
    return state


@cache
def goes_on(way: Way, state: str) -> bool:
    """Whether the ranks give just what was left of the epoch, each its share and bit for bit."""
    consumed, found = json.loads(state)["consumed"], []
    for one in way.streams():
        one.load_state_dict(json.loads(state))
        found.append(prints(way.loader(one)) == whole()[consumed + one.sharing.rank :: way.ranks])
    return all(found)


@pytest.mark.parametrize(
    ("saver", "reader"),
    some(
        [
            (Way(RANKS[(i + j) % 3], WORKERS[(j + 1) % 3], THREADS[i]), Way(RANKS[i], WORKERS[j], THREADS[j]))
            for i, j in sorted(product(range(3), repeat=2), key=lambda pair: (pair[0] - pair[1]) % 3)
        ],
        3,
    ),
    ids=str,
)
def test_a_state_goes_on_with_other_threads_workers_and_ranks(saver: Way, reader: Way) -> None:
    assert goes_on(reader, state_of(saver))


def test_the_page_tells_of_every_pair_that_was_tried() -> None:
    heads = [f"{ranks} rank{'s' * (ranks > 1)}" for ranks in RANKS]
    lines = ["| Saved by | " + " | ".join(f"resumed by {head}" for head in heads) + " |", "|---" * 4 + "|"]
    for (ranks, head), workers in product(zip(RANKS, heads, strict=True), WORKERS):
        savers = [way for way in WAYS if way[:2] == (ranks, workers)]
        cells = [[(saver, way) for saver in savers for way in WAYS if way.ranks == others] for others in RANKS]
        # All of it takes a minute: what is tried when the page is written is tried in part by the test above.
        if RECORD:
            assert all(goes_on(way, state_of(saver)) for cell in cells for saver, way in cell)
        told = " | ".join(f"{len(cell)} of {len(cell)}" for cell in cells)
        lines.append(f"| {head}, {workers} worker{'s' * (workers != 1)} | {told} |")
    text = PAGE.read_text()
    made = TABLE.sub(lambda found: found[1] + "\n".join(lines) + found[2], text)
    if RECORD:
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "SNAPDB_RECORD=1 writes the table anew"


@pytest.mark.parametrize("workers", WORKERS)
def test_a_stateful_data_loader_goes_on_in_mid_epoch(workers: int) -> None:
    loader = stateful(workers)
    loop = iter(loader)
    assert prints(islice(loop, 5)) == whole()[:5]
    state = json.loads(json.dumps(loader.state_dict()))
    again = stateful(workers)
    again.load_state_dict(state)
    assert prints(again) == whole()[5:] == prints(loop)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_goes_on_with_the_next_epoch_after_the_end_of_one(workers: int) -> None:
    options = {"persistent_workers": True} if workers else {}
    loader = stateful(workers, **options)
    assert prints(loader) == whole()
    state = loader.state_dict()
    again = stateful(workers, **options)
    again.load_state_dict(state)
    assert [b.index for b in again] == [(1, i) for i in range(BATCHES)]


def test_a_resumed_stateful_data_loader_is_saved_again_and_goes_on() -> None:
    state, found = None, []
    for _ in range(4):
        loader = stateful(2)
        if state is not None:
            loader.load_state_dict(state)
        found += prints(islice(iter(loader), 2))
        state = loader.state_dict()
    assert found == whole()


def stateful(workers: int, **options: Any) -> Any:
    """A StatefulDataLoader over a new stream."""
    if workers:
        options["multiprocessing_context"] = "fork"
    return StatefulDataLoader(stream(threads=1), batch_size=None, num_workers=workers, **options)


def test_the_state_of_a_worker_fits_that_worker_alone() -> None:
    loader = stateful(2)
    next(iter(loader))
    (state, _) = [worker["dataset_state"] for worker in loader.state_dict()["_snapshot"]["_worker_snapshots"].values()]
    assert state["worker"] == {"id": 0, "num_workers": 2, "rank": 0, "world_size": 1, "taken": 1}
    with refused("stream-state"):
        stream().load_state_dict(state)
    with refused("stream-state"):
        stream().load_state_dict({**state, "worker": {"taken": -1}})


def test_a_state_in_which_each_rank_counted_its_own_is_still_read() -> None:
    state = {**stream().state_dict(), "world_size": 3, "consumed": 2}
    for ranks in RANKS:
        one = stream(world_size=ranks)
        one.load_state_dict(state)
        assert prints(one) == whole()[6::ranks]
    one.load_state_dict({**state, "consumed": 3})  # as rank 0, which had a batch more
    assert prints(one) == []


def test_ranks_that_took_equally_many_save_the_same() -> None:
    ways = [stream(rank=rank, world_size=3) for rank in range(3)]
    loops = [iter(one) for one in ways]
    for consumed in (3, 6):
        for loop in loops:
            next(loop)
        assert [(one.state_dict()["epoch"], one.state_dict()["consumed"]) for one in ways] == [(0, consumed)] * 3
    for loop in loops:
        list(loop)
    assert [(one.state_dict()["epoch"], one.state_dict()["consumed"]) for one in ways] == [(1, 0)] * 3


@pytest.mark.parametrize("consumed", [-1, 4, True, "2"])
def test_a_rank_cannot_have_taken_more_than_its_share(consumed: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 3, found"):
        stream(world_size=3).state_dict(consumed=consumed)


def test_what_a_loop_took_counts_from_where_it_was_resumed() -> None:
    one = stream()
    one.load_state_dict(one.state_dict(consumed=3))
    assert one.state_dict(consumed=2)["consumed"] == 5
    assert (one.state_dict(consumed=5)["epoch"], one.state_dict(consumed=5)["consumed"]) == (1, 0)


def test_an_epoch_of_a_subset_goes_on_with_other_ranks() -> None:
    saver = subset_stream()
    saver.set_epoch(1)
    state = saver.state_dict(consumed=1)
    rest = prints([saver[1], saver[2]])
    for ranks in (1, 2):
        readers = [subset_stream(rank=rank, world_size=ranks) for rank in range(ranks)]
        for one in readers:
            one.load_state_dict(state)
        assert [prints(one) for one in readers] == [rest[rank::ranks] for rank in range(ranks)]
        assert [next(iter(one)).index for one in readers] == [(2, rank) for rank in range(ranks)]


def test_a_stream_that_goes_on_still_counts_its_epoch_from_the_start() -> None:
    one = stream(rank=1, world_size=2)
    one.load_state_dict(stream().state_dict(consumed=3))
    assert (len(one), one[0].index) == (4, (0, 1))
    assert [b.index for b in one] == [(0, 4), (0, 6)]
    assert [b.index for b in one] == [(1, 1), (1, 3), (1, 5), (1, 7)]
