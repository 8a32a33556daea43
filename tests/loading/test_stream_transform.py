"""A transform makes of each batch what the reader gets, wherever batches are made; batches move as torch asks."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import snapdb
from snapdb.loading import Batch, BatchStream
from tests.support.graphs import all_seeds, ties
from tests.support.refusals import refused
from tests.support.streams import BATCHES, KNOWS, SPEC, Shelf, open_stream, prints, stream


def degrees(batch: Batch) -> tuple[int, torch.Tensor]:
    """The number of the batch, and how many of its edges each customer has."""
    known = batch.edge_index[KNOWS][1]
    return batch.index[1], torch.bincount(known, minlength=len(batch.n_id["customer"]))


def to_undirected(data: Any) -> Any:
    """What a transform of PyG does with its data."""
    for store in data.edge_stores:
        store.edge_index = torch.cat([store.edge_index, store.edge_index.flip(0)], dim=1)
    return data


def fails_in_the_third(batch: Batch) -> Batch:
    if batch.index[1] == 2:
        raise ZeroDivisionError("no neighbours")
    return batch


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_what_a_transform_returns_is_what_the_stream_gives(threads: int) -> None:
    one, expected = stream(threads=threads, transform=degrees), [degrees(batch) for batch in stream()]
    assert same(list(one), expected)
    one.set_epoch(0)
    assert same([one[i] for i in range(BATCHES)], expected)
    assert same([one.map_style()[i] for i in range(BATCHES)], expected)


def test_a_transform_runs_on_the_threads_that_make_batches() -> None:
    def thread_of(batch: Batch) -> str:
        return threading.current_thread().name

    assert all(name.startswith("snapdb-batch") for name in stream(threads=2, transform=thread_of))
    assert set(stream(threads=0, transform=thread_of)) == {threading.current_thread().name}


def test_on_another_device_a_transform_finds_the_batch_there_and_runs_in_the_readers_thread() -> None:
    def place_of(batch: Batch) -> tuple[str, str]:
        return batch.x["customer"].device.type, threading.current_thread().name

    assert set(stream(threads=2, device="meta", transform=place_of)) == {("meta", threading.current_thread().name)}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_in_a_transform_comes_in_its_turn_and_names_the_batch(threads: int, device: str) -> None:
    one = stream(threads=threads, device=device, transform=fails_in_the_third)
    loop = iter(one)
    assert [next(loop).index[1] for _ in range(2)] == [0, 1]
    with pytest.raises(ZeroDivisionError, match="no neighbours") as caught:
        next(loop)
    assert caught.value.__notes__ == ["in the transform of batch 2 of epoch 0"]
    assert one.state_dict()["consumed"] == 2
    with pytest.raises(ZeroDivisionError, match="no neighbours"):
        one.map_style(0)[2]


def test_a_transform_of_pyg_is_told_how_to_be_given() -> None:
    with pytest.raises(AttributeError) as caught:
        list(stream(transform=to_undirected))
    assert "lambda batch: T(batch.to_pyg())" in caught.value.__notes__[1]
    assert len(list(stream(transform=lambda batch: to_undirected(batch.to_pyg())))) == BATCHES


@pytest.mark.parametrize(("workers", "code"), [(0, "collate"), (1, "input")])
def test_a_loader_that_would_collate_batches_is_told_what_to_say(workers: int, code: str) -> None:
    loader = DataLoader(
        stream(), batch_size=2, num_workers=workers, multiprocessing_context="fork" if workers else None
    )
    with refused(code, "DataLoader(…, batch_size=None)", recorded=not workers):  # a worker's is made anew by torch
        next(iter(loader))


@pytest.mark.parametrize("threads", [0, 2])
def test_a_transform_may_not_end_the_epoch(threads: int) -> None:
    def ends(batch: Batch) -> Batch:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(stream(threads=threads, transform=ends))


def test_workers_apply_the_transform() -> None:
    loader = DataLoader(stream(transform=degrees), batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert same(list(loader), [degrees(batch) for batch in stream()])


def test_a_transform_sees_which_batches_are_padding() -> None:
    def padded(batch: Batch) -> bool:
        return batch.padding

    assert list(stream(rank=2, world_size=3, pad=True, transform=padded)) == [False, False, True]


def test_a_state_does_not_depend_on_the_transform() -> None:
    one = stream(transform=degrees)
    one.load_state_dict(stream().state_dict(consumed=6))
    assert [number for number, _ in one] == [6, 7]


def test_something_that_cannot_be_called_is_no_transform() -> None:
    with pytest.raises(TypeError, match="transform must be a function of a batch, found 3"):
        stream(transform=3)


def travelling(transform: Callable[[Batch], Any] | None) -> BatchStream:
    """A stream that can be sent to another process, as far as it depends on the graph."""
    graph = ties()
    view = replace(graph.view(), adjacency=Shelf(graph))
    return open_stream(view, all_seeds(graph, "customer"), SPEC, threads=0, transform=transform)


def test_a_transform_travels_with_its_stream() -> None:
    received: BatchStream = pickle.loads(pickle.dumps(travelling(degrees)))
    assert same(list(received), [degrees(batch) for batch in stream()])


def test_a_transform_that_cannot_travel_is_refused_by_name() -> None:
    def local(batch: Batch) -> Batch:
        return batch

    with refused("transform"):
        pickle.dumps(travelling(local))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator is here, to which memory can be pinned")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator:UserWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_is_to_pin_memory_works_where_there_is_nothing_to_pin_it_for(workers: int) -> None:
    context = "fork" if workers else None
    loader = DataLoader(
        stream(), batch_size=None, num_workers=workers, multiprocessing_context=context, pin_memory=True
    )
    assert prints(loader) == prints(stream())


def test_a_batch_goes_to_a_device_without_waiting() -> None:
    (batch,) = [stream()[0]]
    there = batch.to("cpu", non_blocking=True)
    assert prints([there]) == prints([batch])
    assert batch.to("meta", non_blocking=True).x["customer"].device.type == "meta"


DATABASE = """
CREATE TABLE person AS SELECT range AS id, [range, 1]::FLOAT[2] AS f FROM range(60);
CREATE TABLE met AS SELECT range % 60 AS a, (range * 7 + 1) % 60 AS b FROM range(300);
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT now OF town;
"""
SAMPLE = "SAMPLE FROM now SEEDS (SELECT id FROM person) AS person FANOUT (met => [3, 3]) BATCH 8"


def width(batch: Batch) -> int:
    return batch.only.x.shape[1]


def test_the_database_hands_its_arguments_to_the_stream(db: snapdb.Database) -> None:
    db.script(DATABASE)
    assert [len(db.stream(SAMPLE, rank=r, world_size=3, pad=True)) for r in range(3)] == [3, 3, 3]
    assert [len(db.stream(SAMPLE, rank=r, world_size=3, drop_last=True)) for r in range(3)] == [2, 2, 2]
    with db.stream(SAMPLE, transform=width) as one:
        assert list(one) == [2] * 8
    with pytest.raises(ValueError, match="pass one of them"):
        db.stream(SAMPLE, pad=True, drop_last=True)
    with pytest.raises(TypeError, match="transform must be a function"):
        db.stream(SAMPLE, transform="width")  # type: ignore[arg-type]


def test_a_stream_of_a_database_can_be_sent_to_another_process(db: snapdb.Database) -> None:
    db.script(DATABASE)
    received: BatchStream = pickle.loads(pickle.dumps(db.stream(SAMPLE, threads=1, transform=width)))
    assert list(received) == [2] * 8
