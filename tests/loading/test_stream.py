"""A stream gives the same batches whatever runs it, shares them out, resumes, and always ends its threads."""

from __future__ import annotations

import gc
import json
import os
import pickle
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.utils.data import DataLoader

from snapdb.loading import BatchStream
from snapdb.sampling import Seeds
from snapdb.types import Drawing, Temporal
from tests.support import oracle
from tests.support.graphs import Rows, all_seeds, ties
from tests.support.inside.loading import OrderedMap, StreamOptions, _Steps
from tests.support.processes import FreshProcess
from tests.support.refusals import refused
from tests.support.streams import (
    BATCHES,
    KNOWS,
    SPEC,
    Released,
    Shelf,
    failing_stream,
    open_stream,
    prints,
    settles,
    stream,
    subset_stream,
    workers_alive,
)
from tests.support.waiting import PATIENCE


def test_an_epoch_takes_every_seed_once_in_the_oracles_order() -> None:
    batches = list(stream())
    assert [b.batch_size for b in batches] == [4] * 7 + [2]
    assert [b.input_id.tolist() for b in batches] == oracle.epoch_batches(30, SPEC.seed, 0, 4)
    assert [b.index for b in batches] == [(0, i) for i in range(BATCHES)]


def test_draws_take_the_global_batch_number() -> None:
    graph, opened = ties(), stream()
    opened.set_epoch(2)
    batch = opened[3]
    fanouts: list[Any] = [(tuple(f.edge), f.direction, list(f.counts)) for f in SPEC.fanouts]
    expected = oracle.sample(
        graph.oracle(), batch.input_id.tolist(), "customer", fanouts, SPEC.seed, oracle.global_batch(2, 3, BATCHES)
    )
    assert batch.n_id["product"].tolist() == expected.nodes["product"]
    drawn = [e.edge_id for hop in expected.hops for block in hop if block.edge == KNOWS for e in block.edges]
    assert batch.e_id[KNOWS].tolist() == drawn


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"threads": 4, "prefetch": 1}, {"threads": None}])
def test_threads_change_nothing(options: dict[str, Any]) -> None:
    assert prints(stream(**options)) == prints(stream())


def test_epochs_differ_and_advance_by_themselves() -> None:
    opened = stream(threads=2)
    first, second = prints(opened), prints(opened)
    assert set(first).isdisjoint(second)
    opened.set_epoch(1)
    assert prints(opened) == second
    opened.set_epoch(0)
    assert prints(opened) == first


def test_set_epoch_chooses_the_next_and_counting_goes_on_from_there() -> None:
    opened = stream()
    opened.set_epoch(5)
    assert [{b.index[0] for b in opened} for _ in range(2)] == [{5}, {6}]


def test_an_iteration_that_is_left_early_counts_as_its_epoch() -> None:
    opened = stream()
    for batch in opened:
        assert batch.index == (0, 0)
        break
    assert next(iter(opened)).index == (1, 0)


def test_an_iterator_that_was_never_read_counts_for_nothing() -> None:
    opened = stream()
    iter(opened)
    assert next(iter(opened)).index == (0, 0)


def test_batches_by_index_are_those_of_the_iteration() -> None:
    opened = stream(threads=2)
    batches = prints(opened)
    assert prints([opened[i] for i in reversed(range(BATCHES))]) == batches[::-1]
    assert prints([opened[-1]]) == batches[-1:]
    with pytest.raises(IndexError, match="batch 8 does not exist: an epoch has 8"):
        opened[BATCHES]


@pytest.mark.parametrize("world_size", [1, 2, 3, 9])
def test_ranks_together_give_the_single_stream(world_size: int) -> None:
    shares = [stream(rank=rank, world_size=world_size) for rank in range(world_size)]
    found = {b.index: mark for share in shares for b in list(share) for mark in prints([b])}
    assert [found[0, i] for i in range(BATCHES)] == prints(stream())
    assert sum(map(len, shares)) == BATCHES
    for share in shares:
        share.set_epoch(0)
        assert prints(share) == prints([share[i] for i in range(len(share))])


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("threads", [0, 2])
def test_dataloader_workers_together_give_the_single_stream(workers: int, threads: int) -> None:
    loader = DataLoader(stream(threads=threads), batch_size=None, num_workers=workers, multiprocessing_context="fork")
    assert len(loader) == BATCHES
    assert prints(loader) == prints(stream())


def test_persistent_workers_advance_the_epoch() -> None:
    loader = DataLoader(
        stream(), batch_size=None, num_workers=2, multiprocessing_context="fork", persistent_workers=True
    )
    plain = stream()
    assert [prints(loader), prints(loader)] == [prints(plain), prints(plain)]


def test_workers_of_a_rank_give_the_ranks_share() -> None:
    loader = DataLoader(stream(rank=1, world_size=2), batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert prints(loader) == prints(stream(rank=1, world_size=2))


@pytest.mark.parametrize("memory", [None, 10**6])
def test_a_stream_can_be_sent_to_another_process(memory: int | None) -> None:
    graph = ties()
    view = replace(graph.view(), adjacency=Shelf(graph))
    opened = open_stream(view, all_seeds(graph, "customer"), SPEC, threads=2, memory=memory, lease=Released())
    opened.set_epoch(3)
    received: BatchStream = pickle.loads(pickle.dumps(opened))
    assert prints(received) == prints(opened)


@pytest.mark.parametrize("consumed", range(BATCHES + 1))
def test_a_resumed_stream_gives_the_rest(consumed: int) -> None:
    opened = stream(threads=2, prefetch=4)
    opened.set_epoch(1)
    iterator = iter(opened)
    for _ in range(consumed):
        next(iterator)
    state = json.loads(json.dumps(opened.state_dict()))
    rest = prints(iterator) + prints(opened)
    resumed = stream(threads=1)
    resumed.load_state_dict(state)
    found = prints(resumed)
    found += prints(resumed) if consumed < BATCHES else []
    assert found == rest


def test_a_state_that_was_loaded_can_be_saved_again() -> None:
    opened = stream()
    for _, _batch in zip(range(3), opened, strict=False):
        pass
    state = opened.state_dict()
    again = stream()
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert (state["epoch"], state["consumed"]) == (0, 3)


def test_a_state_of_another_seed_set_sampler_or_share_is_refused() -> None:
    graph = ties()
    state = stream().state_dict()
    fewer = Seeds("customer", np.arange(29), None, None)
    others = {
        "seeds": open_stream(graph.view(), fewer, SPEC, threads=0),
        "batch_size": open_stream(graph.view(), all_seeds(graph, "customer"), replace(SPEC, batch_size=5), threads=0),
        "seed": open_stream(graph.view(), all_seeds(graph, "customer"), replace(SPEC, seed=1), threads=0),
    }
    for name, other in others.items():
        with refused("stream-state", f"its {name} is"):
            other.load_state_dict(state)
    newer = replace(graph.view(), lineage={**graph.view().lineage, "version": 2})
    with refused("stream-state"):
        open_stream(newer, all_seeds(graph, "customer"), SPEC, threads=0).load_state_dict(state)
    with refused("stream-state", "'snapdb-0'"):
        stream().load_state_dict({**state, "rng": "snapdb-0"})


@pytest.mark.parametrize("change", [{"consumed": 9}, {"consumed": -1}, {"epoch": -1}, {"epoch": 2**31}, {"epoch": "1"}])
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    with refused("stream-state"):
        stream().load_state_dict({**stream().state_dict(), **change})


def test_a_state_of_another_way_to_draw_is_refused() -> None:
    graph, state = ties(), stream().state_dict()
    others: dict[str, dict[str, Any]] = {
        "drawing": {"drawing": Drawing(replace=True)},
        "subset": {"subset": Fraction(1, 2)},
        "layout": {"layout": "BLOCKS"},
        "reuse_hops": {"reuse_hops": True},
    }
    for name, change in others.items():
        other = open_stream(graph.view(), all_seeds(graph, "customer"), replace(SPEC, **change), threads=0)
        with refused("stream-state", f"its {name} is"):
            other.load_state_dict(state)
    timed = replace(all_seeds(graph, "customer"), time=np.arange(30))
    with refused("stream-state"):
        open_stream(graph.view(), timed, SPEC, threads=0).load_state_dict(state)
    temporal = replace(SPEC, temporal=Temporal(inclusive=True, within=7))
    state = open_stream(graph.view(), timed, SPEC, threads=0).state_dict()
    with refused("stream-state"):
        open_stream(graph.view(), timed, temporal, threads=0).load_state_dict(state)


def test_subset_epochs_share_out_the_seeds_and_count_their_own_batches() -> None:
    opened = subset_stream()
    found = [list(opened) for _ in range(4)]
    assert [len(epoch) for epoch in found] == [3, 3, 2, 3]
    assert [[b.index for b in epoch] for epoch in found[:3]] == [
        [(e, i) for i in range(n)] for e, n in enumerate((3, 3, 2))
    ]
    taken = [sorted(i for b in epoch for i in b.input_id.tolist()) for epoch in found]
    assert sorted(taken[0] + taken[1] + taken[2]) == list(range(30))
    assert taken[3] != taken[0]
    opened.set_epoch(2)
    assert (len(opened), opened.batches) == (2, 2)
    assert prints([opened[1]]) == prints(found[2][1:])
    with pytest.raises(IndexError, match="batch 2 does not exist: an epoch has 2"):
        opened[2]


def test_subset_epochs_go_on_in_the_global_batch_number() -> None:
    graph = ties()
    opened = subset_stream()
    opened.set_epoch(5)  # 3 + 3 + 2 + 3 + 3 batches came before
    batch = opened[1]
    fanouts: list[Any] = [(tuple(f.edge), f.direction, list(f.counts)) for f in SPEC.fanouts]
    expected = oracle.sample(graph.oracle(), batch.input_id.tolist(), "customer", fanouts, SPEC.seed, 15)
    assert batch.n_id["product"].tolist() == expected.nodes["product"]


@pytest.mark.parametrize("consumed", range(3))
def test_a_resumed_subset_goes_on_with_its_epoch(consumed: int) -> None:
    opened = subset_stream(threads=2)
    opened.set_epoch(2)
    iterator = iter(opened)
    for _ in range(consumed):
        next(iterator)
    state = json.loads(json.dumps(opened.state_dict()))
    rest = prints(iterator) + prints(opened)
    resumed = subset_stream()
    resumed.load_state_dict(state)
    found = prints(resumed)
    found += prints(resumed) if consumed < 2 else []
    assert found == rest
    with refused("stream-state"):
        resumed.load_state_dict({**state, "epoch": 2, "consumed": 3})


def test_ranks_share_the_epochs_of_a_subset() -> None:
    for epoch in range(3):
        shares = [subset_stream(rank=rank, world_size=2) for rank in range(2)]
        whole = subset_stream()
        for one in (*shares, whole):
            one.set_epoch(epoch)
        assert sum(map(len, shares)) == len(whole)
        found = {b.index: mark for share in shares for b in list(share) for mark in prints([b])}
        assert [found[epoch, i] for i in range(len(whole))] == prints(whole)


def test_something_else_is_no_state() -> None:
    with refused("stream-state", "but it has no '"):
        stream().load_state_dict({"epoch": 1})


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_failure_comes_out_in_its_batchs_turn_and_says_which(threads: int) -> None:
    opened = failing_stream(threads=threads)
    iterator = iter(opened)
    assert [next(iterator).index[1] for _ in range(2)] == [0, 1]
    with pytest.raises(OSError, match="disk on fire") as caught:
        next(iterator)
    assert caught.value.__notes__ == ["while building batch 2 of epoch 0"]
    assert settles(lambda: workers_alive() == 0)


def test_after_a_failure_the_stream_goes_on_with_the_next_epoch() -> None:
    opened = failing_stream(threads=2)
    with pytest.raises(OSError, match="disk on fire"):
        list(opened)
    state = opened.state_dict()
    assert (state["epoch"], state["consumed"]) == (0, 2)
    assert next(iter(opened)).index == (1, 0)


def test_a_reader_that_is_interrupted_can_read_on() -> None:
    opened = stream(threads=2)

    def read() -> None:
        for _ in opened:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    gc.collect()
    assert settles(lambda: workers_alive() == 0)
    assert [b.index[0] for b in opened] == [1] * BATCHES


def test_leaving_the_loop_ends_the_threads() -> None:
    for batch in stream(threads=3):
        assert batch.index == (0, 0)
        break
    assert settles(lambda: workers_alive() == 0)


def test_the_end_of_an_epoch_ends_the_threads() -> None:
    list(stream(threads=3))
    assert workers_alive() == 0


def test_a_failure_of_the_reader_ends_the_threads() -> None:
    def read() -> None:
        for _ in stream(threads=3):
            raise RuntimeError("the trainer failed")

    with pytest.raises(RuntimeError, match="trainer"):
        read()
    gc.collect()
    assert settles(lambda: workers_alive() == 0)


def test_closing_ends_the_threads_and_releases_once() -> None:
    calls: list[int] = []
    opened = stream(threads=3, lease=Released(lambda: calls.append(1)))
    iterator = iter(opened)
    batch = next(iterator)
    opened.close()
    assert workers_alive() == 0
    opened.close()
    assert calls == [1]
    assert len(batch.e_id[KNOWS]) == batch.edge_index[KNOWS].shape[1]
    assert batch.ids("customer")[0].as_py().startswith("c")
    for use in (lambda: next(iterator), lambda: opened[0], lambda: list(opened)):
        with refused("stream-closed"):
            use()


def test_dropped_threads_end_even_where_their_lock_is_held() -> None:
    """Garbage is collected at any allocation, or in a process that was forked while a thread held the lock."""
    results = OrderedMap(str, range(100), threads=2, room=lambda _: 7)
    assert next(results) == "0"
    with results._steps._lock:
        del results
        gc.collect()
    assert settles(lambda: workers_alive() == 0)


def test_a_stream_that_is_dropped_releases() -> None:
    calls: list[int] = []
    opened = stream(lease=Released(lambda: calls.append(1)))
    del opened
    gc.collect()
    assert calls == [1]


def test_leaving_the_with_block_releases() -> None:
    calls: list[int] = []
    with stream(lease=Released(lambda: calls.append(1))) as opened:
        next(iter(opened))
    assert calls == [1]


def test_a_forked_process_closes_a_stream_whose_threads_it_does_not_have() -> None:
    opened = stream(threads=2)
    next(iterator := iter(opened))
    (results,) = opened._workers._maps
    with results._steps._lock:
        child = os.fork()
        if child == 0:
            opened.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(iterator)) == BATCHES - 1


def test_a_forked_process_does_not_release() -> None:
    reading, writing = os.pipe()
    opened = stream(lease=Released(lambda: os.write(writing, b"x")))
    child = os.fork()
    if child == 0:
        opened.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    opened.close()
    os.close(writing)
    assert os.read(reading, 9) == b"x"
    os.close(reading)


def test_threads_never_work_further_ahead_than_prefetch() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return item

    results = OrderedMap(work, range(100), threads=4, room=lambda _: 3)
    for taken in range(1, 20):
        assert next(results) == taken - 1
        time.sleep(0.002)
        assert len(begun) <= taken + 3
    results.close()


def test_slow_items_do_not_change_the_order() -> None:
    def work(item: int) -> int:
        time.sleep(0.01 * (item % 3 == 0))
        return item

    assert list(OrderedMap(work, range(30), threads=4, room=lambda _: 8)) == list(range(30))


def test_two_steps_of_an_item_may_be_on_two_threads() -> None:
    def finish(item: int) -> int:
        if item == 17:
            raise OSError("disk on fire")
        return -item

    results = OrderedMap(lambda item: item, range(100), threads=3, room=lambda _: 7, finish=finish)
    assert [next(results) for _ in range(17)] == [-item for item in range(17)]
    with pytest.raises(OSError, match="disk on fire"):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_while_items_wait_to_be_begun_few_threads_finish() -> None:
    """Two of four threads finish; the other two begin what there is, and only then finish too."""
    finishing, most, begun, guard = [0], [0], [0], threading.Lock()
    filled, all_begun = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(8)
        filled.set()

    def begin(item: int) -> int:
        filled.wait(PATIENCE)
        with guard:
            begun[0] += 1
            if begun[0] == 8:
                all_begun.set()
        return item

    def finish(item: int) -> int:
        with guard:
            finishing[0] += 1
            if not all_begun.is_set():
                most[0] = max(most[0], finishing[0])
        all_begun.wait(PATIENCE)
        with guard:
            finishing[0] -= 1
        return item

    assert list(OrderedMap(begin, items(), threads=4, room=lambda _: 9, finish=finish)) == list(range(8))
    # The last item is taken from the queue before it counts as begun: a third thread may finish from then on.
    assert begun[0] == 8
    assert most[0] <= 3


PREAMBLE = "from tests.support.streams import stream\nimport os, signal, threading, time\n"


def test_another_process_gives_the_same_bytes(fresh_process: FreshProcess) -> None:
    code = PREAMBLE + (
        "import hashlib\n"
        "from tests.support.streams import prints\n"
        "print(hashlib.sha256(b''.join(prints(stream(threads=2)))).hexdigest())\n"
    )
    done = fresh_process(code)
    assert done.stdout.strip() == sha256(b"".join(prints(stream()))).hexdigest(), done.stderr


def test_a_process_ends_with_an_iteration_half_read(fresh_process: FreshProcess) -> None:
    done = fresh_process(PREAMBLE + "it = iter(stream(threads=2)); next(it); print('read')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "")


def test_ctrl_c_stops_the_loop_and_the_threads_and_the_next_loop_goes_on(fresh_process: FreshProcess) -> None:
    code = PREAMBLE + (
        "opened = stream(threads=2)\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    while True:\n"
        "        for batch in opened: time.sleep(0.001)\n"
        "except KeyboardInterrupt: print('stopped')\n"
        "while any(t.name.startswith('snapdb-batch') for t in threading.enumerate()): time.sleep(0.01)\n"
        "print(len(list(opened)))\n"
    )
    done = fresh_process(code)
    assert (done.returncode, done.stdout) == (0, f"stopped\n{BATCHES}\n"), done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": -1}, "threads must be 0 or more"),
        ({"prefetch": 0}, "prefetch must be 1 or more"),
        ({"world_size": 0}, "world_size must be 1 or more"),
        ({"rank": 2, "world_size": 2}, "rank must be 0 ≤ rank < world_size = 2, found 2"),
        ({"rank": -1}, "rank must be"),
        ({"device": "gpu please"}, "is not a valid device"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with refused("device", "'cuda'"):
        stream(device="cuda")


@pytest.mark.parametrize("device", ["hpu", "xla"])
def test_a_device_that_torch_only_knows_by_name_is_refused(device: str) -> None:
    with refused("device", f"'{device}'", "device='cpu'", recorded=False):  # torch's words are in it
        stream(device=device)


def test_negative_epochs_are_refused() -> None:
    with pytest.raises(ValueError, match="found -1"):
        stream().set_epoch(-1)


def test_batches_go_where_the_statement_says_unless_the_caller_says_another_place() -> None:
    graph = ties()
    on = replace(SPEC, device="cpu")
    assert open_stream(graph.view(), all_seeds(graph, "customer"), on).device.type == "cpu"
    assert open_stream(graph.view(), all_seeds(graph, "customer"), on, device="meta").device.type == "meta"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_statement_for_a_device_that_is_not_there_is_refused() -> None:
    graph = ties()
    with refused("device", "ON", "'cuda'", "CUDA"):
        open_stream(graph.view(), all_seeds(graph, "customer"), replace(SPEC, device="cuda"))


def test_threads_are_those_that_were_asked_for_or_all_cores() -> None:
    assert stream(threads=3).threads == 3
    assert stream(threads=None).threads == len(os.sched_getaffinity(0))
    options = StreamOptions(threads=None)
    assert options.threads_of(1, on_gpu=True) == 2  # they only tell it what to do
    assert options.threads_of(10**6) == 1
    assert (options.ahead(3), replace(options, prefetch=5).ahead(3)) == (4, 5)


def test_batches_are_made_for_the_device() -> None:
    batch = next(iter(stream(device="meta", threads=1)))
    assert batch.x["customer"].device.type == "meta"


def test_no_seeds_give_no_batches() -> None:
    graph = ties()
    empty = Seeds("customer", np.empty(0, np.int64), None, None)
    opened = open_stream(graph.view(), empty, SPEC, threads=2)
    assert len(opened) == 0
    assert list(opened) == []
    assert opened.state_dict()["epoch"] == 0


def test_lineage_is_plain_and_says_where_a_batch_comes_from() -> None:
    opened = stream()
    opened.set_epoch(3)
    lineage = json.loads(json.dumps(opened[0].lineage))
    assert lineage["snapshot"] == "s"
    assert (lineage["rng"], lineage["seed"], lineage["epoch"], lineage["generation"]) == ("snapdb-1", 42, 3, 0)
    assert lineage["sampler"] == SPEC.text


def test_features_that_may_not_be_written_are_copied() -> None:
    class Shared(Rows):
        def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
            values = super().read(ids)
            values.flags.writeable = False
            return values

    graph = ties()
    view = replace(graph.view(), node_features={"customer": {"x": Shared(graph.features["customer"]["x"])}})
    batch = open_stream(view, all_seeds(graph, "customer"), SPEC, threads=0)[0]
    batch.x["customer"][:] = 0


def test_few_batches_have_their_features_at_once() -> None:
    """Of five batches ahead, one per thread is finished; each one that is taken lets another be."""
    finished: list[int] = []
    steps: _Steps[int, None] = _Steps(lambda item: item, finished.append, 2)
    for item in range(5):
        steps.add(item)
    steps.run()
    assert finished == [0, 1]
    for taken in range(1, 4):
        assert steps.take()
        steps.run()
        assert finished == list(range(2 + taken))
    assert not steps.take()


def test_the_batch_that_is_due_is_finished_though_later_ones_have_their_features() -> None:
    late, entered, finished = threading.Event(), threading.Event(), list[int]()

    def begin(item: int) -> int:
        if item == 0:
            entered.set()
            assert late.wait(PATIENCE)
        return item

    steps: _Steps[int, None] = _Steps(begin, finished.append, 2)
    due, *_ = [steps.add(item) for item in range(5)]
    slow = threading.Thread(target=steps.run)
    slow.start()
    assert entered.wait(PATIENCE)
    steps.run()
    assert finished == [1, 2]
    late.set()
    due.result(PATIENCE)
    slow.join(PATIENCE)
    assert finished == [1, 2, 0]
