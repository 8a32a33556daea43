"""A stream stays within the memory it is given, gives all of it back, and does not grow with its epochs."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import snapdb
from snapdb.kernels import buffers
from snapdb.loading import BatchStream
from snapdb.types import EdgeType, Fanout
from tests.support.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec
from tests.support.inside.kernels import gather
from tests.support.inside.loading import MemoryBudget, scratch_bytes
from tests.support.refusals import refused
from tests.support.streams import failing_stream, open_stream, prints, settles, workers_alive
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE

KNOWS = EdgeType("person", "knows", "person")
SPEC = sample_spec("person", Fanout(KNOWS, "IN", (4, 4)), batch_size=50)
WIDTH = 1024
"""Floats of a vertex: batches are megabytes, and their blocks are recycled ones."""


class Watched:
    """A feature that counts the arrays it gave which are still alive."""

    shape, dtype = (400, WIDTH), np.dtype(np.float32)

    def __init__(self) -> None:
        self.values = np.random.default_rng(0).random(self.shape, np.float32)
        self.alive = self.most = 0
        self.guard = threading.RLock()  # what is collected while it is held comes back through `gone`

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rows = gather(self.values, ids)
        with self.guard:
            self.alive += rows.nbytes
            self.most = max(self.most, self.alive)
        weakref.finalize(rows, self.gone, rows.nbytes)
        return rows

    def gone(self, size: int) -> None:
        with self.guard:
            self.alive -= size


def graph() -> MemoryGraph:
    """People who know each other: 8 batches an epoch."""
    rng = np.random.default_rng(1)
    return MemoryGraph({"person": 400}, {KNOWS: EdgeList(rng.integers(0, 400, 4000), rng.integers(0, 400, 4000))})


@pytest.fixture
def watched() -> Watched:
    return Watched()


def stream(feature: Watched, **options: Any) -> BatchStream:
    view = replace(graph().view(), node_features={"person": {"x": feature}})
    return open_stream(view, all_seeds(graph(), "person"), SPEC, **options)


def whole(opened: BatchStream) -> tuple[int, int]:
    """(bytes of a batch at most, bytes of one scratch); blocks are up to an eighth larger than what is in them."""
    sizes = [sum(t.nbytes for t in batch.tensors()) + 8 * len(batch.e_id[KNOWS]) for batch in opened]
    opened.set_epoch(0)
    sampler: Any = opened.sampler
    return max(sizes) * 9 // 8, scratch_bytes(sampler.scratch())


def test_a_budget_counts_scratch_for_each_thread_and_all_batches_but_the_readers() -> None:
    budget = MemoryBudget(10_000)
    assert budget.room(4, 8) == 1  # nothing is known yet
    budget.made(1000, scratch=500)
    assert [budget.room(threads, 8) for threads in (1, 2, 4, 8)] == [8, 8, 7, 6]
    assert budget.room(4, 3) == 3
    assert budget.room(4, 8, sharers=2) == 2
    budget.made(4000, scratch=500)
    assert budget.room(4, 8) == 1
    budget.made(10, scratch=10)
    assert budget.room(4, 8) == 1  # the largest counts
    assert MemoryBudget(None).room(4, 8) == 8


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_what_is_ready_or_under_way_stays_within_the_memory(watched: Watched, batches: int) -> None:
    batch, scratch = whole(stream(watched, threads=0))
    gc.collect()
    watched.most = watched.alive
    opened = stream(watched, threads=4, memory=batches * (batch + 2 * scratch))
    for batch_read in opened:
        time.sleep(0.005)  # threads go as far ahead as they may
        del batch_read  # else the reader has two for a moment, when the next one is handed over
    assert watched.most <= (batches + 1) * batch  # one is the reader's
    assert buffers.free_bytes() <= batches * (batch + 2 * scratch) + batch


def test_memory_changes_no_batch(watched: Watched) -> None:
    batch, scratch = whole(stream(watched, threads=0))
    expected = prints(stream(watched, threads=0))
    for memory in (batch + 2 * scratch, 3 * batch, 10**9):
        assert prints(stream(watched, threads=3, memory=memory)) == expected


@pytest.mark.parametrize("threads", [0, 2])
def test_memory_below_one_batch_says_what_is_needed(watched: Watched, threads: int) -> None:
    batch, scratch = whole(stream(watched, threads=0))
    opened = stream(watched, threads=threads, memory=batch // 2)
    with refused("memory", "KB", "MB", "BATCH", "FANOUT"):
        next(iter(opened))
    with refused("memory"):
        opened[0]
    with refused("memory"):
        stream(watched, memory=scratch // 2)
    assert settles(lambda: workers_alive() == 0)


def test_memory_is_said_in_sql_or_beside_it(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "db") as db:
        db.script("""
            CREATE TABLE person AS SELECT range AS id, [range, 1]::FLOAT[2] AS f FROM range(100);
            CREATE TABLE met AS SELECT hash(range) % 100 AS a, hash(range + 1) % 100 AS b FROM range(500);
            CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x))
              EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
            CREATE SNAPSHOT now OF town;
        """)
        query = "SAMPLE FROM now SEEDS (SELECT id FROM person) AS person FANOUT (met => [5, 5]) BATCH 10"
        expected = prints(db.stream(query, threads=0))
        assert prints(db.stream(f"{query} WITH (memory = '10MB')", threads=2)) == expected
        assert prints(db.stream(query, threads=2, memory="10 MB")) == expected
        assert (
            prints(db.stream(f"{query} WITH (memory = '10 B')", memory=10**7)) == expected
        )  # the caller's word counts
        with refused("memory", at="WITH (memory = '10 B')") as caught:
            db.stream(f"{query} WITH (memory = '10 B')")
        assert caught.value.text is not None
        with pytest.raises(ValueError, match="a number of bytes or a size such as '2GB'"):
            db.stream(query, memory="much")
        with pytest.raises(ValueError, match="memory must be 1 byte or more, found 0"):
            db.stream(query, memory=0)


def test_buffers_wait_for_the_next_stream_until_the_database_is_closed(tmp_path: Path) -> None:
    buffers.release_free()
    with snapdb.connect(tmp_path / "db") as db:
        db.script("""
            CREATE TABLE person AS SELECT range AS id, [range]::FLOAT[1] AS f FROM range(100_000);
            CREATE TABLE met AS SELECT range AS a, range AS b FROM range(100_000);
            CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x))
              EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
            CREATE SNAPSHOT now OF town;
        """)
        query = "SAMPLE FROM now SEEDS (SELECT id FROM person) AS person FANOUT (met => [1]) BATCH 50_000"
        sizes = []
        for _ in range(2):
            with db.stream(query, threads=1) as opened:
                for batch in opened:
                    del batch
            sizes.append(buffers.free_bytes())
        assert sizes[0] == sizes[1] > 0
    assert buffers.free_bytes() == 0


def test_nothing_stays_after_a_loop_that_is_left(watched: Watched) -> None:
    for _ in stream(watched, threads=3):
        break
    gc.collect()
    assert settles(lambda: workers_alive() == 0)
    del _
    assert settles(lambda: watched.alive == 0)


def test_nothing_stays_after_a_failure() -> None:
    opened = failing_stream(threads=2, memory=10**7)
    with pytest.raises(OSError, match="disk on fire"):
        list(opened)
    assert workers_alive() == 0
    opened.set_epoch(1)
    assert next(iter(opened)).index == (1, 0)


def test_closing_while_another_thread_reads_ends_both(watched: Watched) -> None:
    opened = stream(watched, threads=2)
    ended: list[BaseException | None] = []

    def read() -> None:
        try:
            while True:
                for _ in opened:
                    time.sleep(0.001)
        except snapdb.SnapdbError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.05)
    opened.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert "closed" in str(ended[0])
    assert workers_alive() == 0


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture
def small_spec() -> Iterator[Any]:
    yield sample_spec("person", Fanout(KNOWS, "IN", (3, 3)), batch_size=200)
    buffers.release_free()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("memory", [None, 20_000_000])
def test_many_epochs_leave_memory_and_threads_as_they_were(
    watched: Watched, small_spec: Any, memory: int | None
) -> None:
    view = replace(graph().view(), node_features={"person": {"x": watched}})
    opened = open_stream(view, all_seeds(graph(), "person"), small_spec, threads=2, memory=memory)
    epochs = 1000 if SOAK else 250

    def run(count: int) -> tuple[int, int, int, int]:
        for _ in range(count):
            for batch in opened:
                batch.e_id[KNOWS].sum()
        gc.collect()
        return resident(), threading.active_count(), watched.alive, buffers.free_bytes()

    before = run(100)
    after = run(epochs - 100)
    assert after[0] <= before[0] + 4_000_000
    assert after[1] == before[1]
    assert after[2] <= before[2] + 2_000_000  # the loop's last batch
    assert after[3] <= max(before[3], memory or 0) + 8_000_000
    assert opened.sampler.backend.name == "numba"
