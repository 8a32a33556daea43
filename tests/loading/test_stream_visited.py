"""Under SCOPE VISITED rows are drawn anew once batches came by them, whoever reads the stream, and from wherever."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import snapdb
from snapdb.loading import Batch, BatchStream
from snapdb.sampling import Seeds, vertex_input
from snapdb.types import Fanout, Refresh, Relation, SampleSpec
from tests.support import oracle
from tests.support.graphs import MemoryGraph, all_seeds, expected, sample_spec, ties
from tests.support.refusals import refused
from tests.support.streams import BATCHES, BOUGHT, KNOWS, Shelf, after, epochs, open_stream, prints, settles

EVERY_HOP = 2**32 - 1
REFRESH = Refresh("OTF", 3, visited=True)
SPEC = sample_spec("customer", Fanout(BOUGHT, "BOTH", (2, 1)), Fanout(KNOWS, "IN", (1, 1)), refresh=REFRESH)


def every(batches: int, **further: Any) -> SampleSpec:
    return replace(SPEC, refresh=replace(REFRESH, every=batches, **further))


def stream(spec: SampleSpec = SPEC, **options: Any) -> BatchStream:
    graph = ties()
    return open_stream(graph.view(), all_seeds(graph, "customer"), spec, **{"threads": 0, **options})


def visited(spec: SampleSpec, found: oracle.Result) -> Iterator[tuple[tuple[Relation, int], list[int]]]:
    """(Rows, nodes) of all that a batch expanded, hop by hop."""
    for fanout in spec.fanouts:
        for relation in fanout.relations:
            news = found.nodes_per_hop[relation.expands]
            for hop, count in enumerate(fanout.counts):
                first = 0 if spec.layout == "BLOCKS" else sum(news[:hop])
                slot = EVERY_HOP if spec.reuse_hops or (spec.refresh and spec.refresh.shared) else hop
                if count > 0:
                    yield (relation, slot), found.nodes[relation.expands][first : sum(news[: hop + 1])]


def naive(graph: MemoryGraph, spec: SampleSpec, seeds: list[list[int]]) -> Iterator[oracle.Result]:
    """The oracle's batches, one after another, with a list of who was visited."""
    assert spec.refresh is not None
    assert spec.refresh.every is not None
    slots = (EVERY_HOP, *range(spec.hops))
    relations = [relation for fanout in spec.fanouts for relation in fanout.relations]
    rounds = {(r, slot): np.zeros(graph.nodes[r.expands], np.int32) for r in relations for slot in slots}
    seen: list[tuple[tuple[Relation, int], list[int]]] = []
    for number, ids in enumerate(seeds):
        found = expected(graph.oracle(), spec, vertex_input("customer", np.array(ids, np.int64)), number, rounds)
        yield found
        seen += visited(spec, found)
        if (number + 1) % spec.refresh.every == 0:
            for rows, nodes in seen:
                rounds[rows][nodes] = (number + 1) // spec.refresh.every
            seen = []


def as_lists(batch: Batch, found: oracle.Result) -> tuple[Any, Any]:
    """Nodes and edges of a batch, and the oracle's."""
    wanted: dict[Any, list[int]] = {}
    for blocks in found.hops:
        for block in blocks:
            source, edge, destination = block.edge
            key = block.edge if block.direction != "OUT" else (destination, f"rev_{edge}", source)
            wanted.setdefault(key, []).extend(e.edge_id for e in block.edges)
    here = {tuple(key): ids.tolist() for key, ids in batch.e_id.items()}
    return (
        ({name: ids.tolist() for name, ids in batch.n_id.items()}, here),
        ({name: found.nodes[name] for name in batch.n_id}, wanted),
    )


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        every(5, shared=True),
        every(1),
        replace(SPEC, layout="BLOCKS"),
        replace(SPEC, reuse_hops=True),
        replace(SPEC, backend="torch"),
    ],
    ids=["hops", "shared", "every batch", "blocks", "reused", "torch"],
)
def test_rows_are_drawn_anew_once_a_window_came_by_them(spec: SampleSpec) -> None:
    seeds = [ids for epoch in range(2) for ids in oracle.epoch_batches(30, spec.seed, epoch, 4)]
    opened = stream(spec, threads=2)
    batches = [batch for _ in range(2) for batch in opened]
    for batch, found in zip(batches, naive(ties(), spec, seeds), strict=True):
        here, wanted = as_lists(batch, found)
        assert here == wanted
    frozen = stream(every(1000))
    assert prints(batches)[-1] != epochs(frozen)[-1]


def test_threads_change_nothing() -> None:
    for spec in (SPEC, every(1), every(100)):
        alone = epochs(stream(spec))
        assert epochs(stream(spec, threads=3)) == alone
        assert epochs(stream(spec, threads=4, prefetch=1)) == alone


@pytest.mark.parametrize("world_size", [2, 3, 9])
def test_ranks_together_give_the_single_stream(world_size: int) -> None:
    shares = [stream(rank=rank, world_size=world_size, threads=2) for rank in range(world_size)]
    batches = sorted((batch for _ in range(2) for one in shares for batch in one), key=lambda batch: batch.index)
    assert prints(batches) == epochs(stream())


def test_padding_gives_the_epochs_first_batches_again() -> None:
    for spec in (SPEC, every(1)):
        shares = [stream(spec, rank=rank, world_size=3, pad=True) for rank in range(3)]
        for one in shares:
            one.set_epoch(1)
        found = {batch.padding: prints([batch]) for one in shares for batch in one if batch.index[1] == 0}
        assert found[True] == found[False]
        opened, resumed = stream(spec), stream(spec, rank=2, world_size=3, pad=True)
        opened.set_epoch(1)
        resumed.load_state_dict(after(opened, 6))
        batches = list(resumed)
        assert [batch.padding for batch in batches] == [True]
        assert prints(batches) == found[True]


def test_dataloader_workers_together_give_the_single_stream() -> None:
    options: dict[str, Any] = {"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork"}
    kept = DataLoader(stream(), persistent_workers=True, **options)
    assert prints(kept) + prints(kept) == epochs(stream())
    opened = stream()
    opened.set_epoch(1)
    assert prints(DataLoader(opened, **options)) == epochs(stream())[BATCHES:]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_stateful_dataloader_goes_on_with_its_workers() -> None:
    options: dict[str, Any] = {"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork"}
    loader = StatefulDataLoader(stream(), **options)
    for batch in loader:
        if batch.index == (0, 4):
            break
    state = loader.state_dict()
    del loader
    again = StatefulDataLoader(stream(), **options)
    again.load_state_dict(state)
    assert prints(again) == epochs(stream(), 1)[5:]


@pytest.mark.parametrize("consumed", [1, 3, 4, 7, 8])
def test_a_resumed_stream_gives_the_rest(consumed: int) -> None:
    whole = epochs(stream())
    opened = stream(threads=2)
    opened.set_epoch(1)
    state = after(opened, consumed)
    assert state["visits"]["window"] == (BATCHES + consumed - 1) // 3
    for resumed in (stream(threads=3), stream()):
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert (prints(resumed) if consumed < BATCHES else []) == whole[BATCHES + consumed :]


def test_a_state_of_some_ranks_goes_on_with_others_and_says_the_same_on_each() -> None:
    whole = epochs(stream())
    ranks = [stream(rank=rank, world_size=2, threads=1) for rank in range(2)]
    for one in ranks:
        one.set_epoch(1)
    first, second = (after(one, 2) for one in ranks)
    assert first == second
    resumed = [stream(rank=rank, world_size=3) for rank in range(3)]
    for one in resumed:
        one.load_state_dict(first)
    batches = sorted((batch for one in resumed for batch in one), key=lambda batch: batch.index)
    assert prints(batches) == whole[BATCHES + 4 :]


def test_without_saved_rounds_the_batches_before_are_sampled_again() -> None:
    told: list[tuple[str, float | None]] = []
    state = after(stream(), 5)
    resumed = stream(progress=lambda what, share: told.append((what, share)))
    resumed.load_state_dict({name: value for name, value in state.items() if name != "visits"})
    assert prints(resumed) == epochs(stream(), 1)[5:]
    assert [share for _, share in told] == [number / 5 for number in range(5)]


def test_set_epoch_goes_ahead_and_back() -> None:
    whole, opened = epochs(stream(), 3), stream(threads=2)
    for epoch in (2, 0, 1, 1):
        opened.set_epoch(epoch)
        assert prints(opened) == whole[epoch * BATCHES :][:BATCHES]


def test_batches_that_are_missing_are_counted_and_not_listed() -> None:
    visits = stream()._workers.builder.visits()
    many, which = visits.missing(2**60)
    assert (many, next(which), next(which)) == (2**60, 0, 1)


def test_an_epoch_that_was_left_early_counts_for_the_next_as_if_it_was_read() -> None:
    opened = stream(threads=2)
    after(opened, 2)
    assert prints(opened) == epochs(stream())[BATCHES:]


def test_a_stream_can_be_sent_to_another_process() -> None:
    graph = ties()
    view = replace(graph.view(), adjacency=Shelf(graph))
    opened = open_stream(view, all_seeds(graph, "customer"), SPEC, threads=2, progress=lambda what, share: None)
    prints(opened)
    received: BatchStream = pickle.loads(pickle.dumps(opened))
    assert prints(received) == prints(opened)


def test_batches_by_number_are_refused_and_replayed() -> None:
    opened = stream()
    for ask in (lambda: opened[3], opened.map_style):
        with refused("batches-in-order", "SCOPE ALL"):
            ask()
    whole = epochs(stream())
    assert prints([opened.replayed(1, 5), opened.replayed(1, 2)]) == [whole[BATCHES + 5], whole[BATCHES + 2]]
    assert len(opened) == opened.length(7) == BATCHES


def test_two_iterations_of_one_stream_are_refused_where_one_goes_on() -> None:
    opened = stream(every(1))
    first = iter(opened)
    next(first)
    next(first)
    prints(opened)
    with refused("batches-in-order"):
        list(first)


class Once:
    """Fails at the first call that is about some batch."""

    def __init__(self, work: Any, about: Any) -> None:
        self.work, self.about, self.failed = work, about, False

    def __call__(self, *arguments: Any) -> Any:
        if not self.failed and self.about(*arguments):
            self.failed = True
            raise OSError("disk on fire")
        return self.work(*arguments)


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_a_batch_that_fails_is_told_and_nobody_waits_for_it(threads: int) -> None:
    expected, before = epochs(stream(every(2)), 1), threading.active_count()
    entering, drawing = (stream(every(2), rank=1, world_size=2, threads=threads) for _ in range(2))
    fourth = oracle.epoch_batches(30, SPEC.seed, 0, 4)[3]
    entrance, sampler = entering._workers.builder._expansion, drawing.sampler
    entrance.entry = Once(entrance.entry, lambda ordinals, epoch: ordinals.tolist() == fourth)
    sampler.sample = Once(sampler.sample, lambda entry, number, *rest: number == 3)
    for opened in (entering, drawing):
        with pytest.raises(OSError, match="disk on fire"):
            list(opened)
        opened.set_epoch(0)
        assert prints(opened) == expected[1::2]
    assert settles(lambda: threading.active_count() == before)


@pytest.mark.parametrize(
    "change", [{"window": "1"}, {"window": -1}, {"rounds": []}, {"rounds": [["customer", 3]]}, {"rounds": None}]
)
def test_damaged_rounds_are_refused(change: dict[str, Any]) -> None:
    state = after(stream(), 7)
    with refused("stream-state"):
        stream().load_state_dict({**state, "visits": {**state["visits"], **change}})
    cut = [[*names, text[:8]] for *names, text in state["visits"]["rounds"]]
    with refused("stream-state"):
        stream().load_state_dict({**state, "visits": {**state["visits"], "rounds": cut}})
    rows = state["visits"]["rounds"]
    swapped = [[*own[:-1], following[-1]] for own, following in zip(rows, [*rows[1:], rows[0]], strict=True)]
    for other in ({"rounds": swapped}, {"window": state["visits"]["window"] + 1}):
        with refused("stream-state"):
            stream().load_state_dict({**state, "visits": {**state["visits"], **other}})
    with refused("stream-state"):
        stream(every(4)).load_state_dict(state)


def test_a_state_of_before_there_were_policies_fits_a_stream_without_one() -> None:
    plain = stream(replace(SPEC, refresh=None))
    state = {name: value for name, value in plain.state_dict().items() if name not in ("refresh", "generation")}
    plain.load_state_dict(state)
    with refused("stream-state"):
        stream().load_state_dict(state)


STATEMENT = """
    SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2, 2]) BATCH 10
    REFRESH OTF 100 PERCENT EVERY 4 BATCHES SCOPE VISITED
"""


def test_rows_batches_and_what_is_replayed_of_them_are_the_same() -> None:
    with snapdb.connect() as db:
        db.script("""
            CREATE TABLE person AS SELECT range AS id FROM range(60);
            CREATE TABLE knows AS
              SELECT a.range AS a, b.range AS b FROM range(60) a, range(60) b WHERE (a.range * b.range) % 5 < 2;
            CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES
              (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
            CREATE SNAPSHOT s OF g;
        """)
        with db.stream(STATEMENT, threads=2) as opened:
            batches = [batch for _ in range(3) for batch in opened]
        drawn = [ids for batch in batches for ids in batch.only.e_id.tolist()]
        rows = db.execute(STATEMENT + "EPOCHS 3").arrow()
        assert rows["e_id"].to_pylist() == drawn
        assert db.execute(STATEMENT.replace("VISITED", "ALL") + "EPOCHS 3").arrow()["e_id"].to_pylist() != drawn
        for place in (1, 16):
            batch = batches[place]
            lineage = json.loads(json.dumps(batch.lineage))
            assert prints([snapdb.replay(lineage, batch.index[1], database=db)]) == prints([batch])
            replayed = db.replay_rows(lineage, batch.index[1])
            assert replayed["e_id"].to_pylist() == batch.only.e_id.tolist()
        told: list[str] = []
        db.progress = lambda what, share: told.append(what)
        with db.stream(STATEMENT) as opened:
            opened.set_epoch(1)
            assert prints(opened) == prints(batches[6:12])
        assert "sampling the skipped batches, on which pool rows depend" in told


def test_no_seeds_make_no_batches() -> None:
    graph = ties()
    empty = Seeds("customer", np.empty(0, np.int64), None, None)
    assert list(open_stream(graph.view(), empty, SPEC, threads=2)) == []
