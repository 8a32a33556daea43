"""Caches and rows where they are hit hardest: damaged reports, numbers at their ends, readers beside a writer."""

from __future__ import annotations

import itertools
import json
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdb.sampling import numba_sampler, vertex_input
from snapdb.types import CacheStats, Drawing, EdgeType, Fanout, Refresh, Temporal
from tests.support.backends import both_agree
from tests.support.graphs import EdgeList, MemoryGraph, compared, expected, sample_spec
from tests.support.inside.loading import CacheBudget
from tests.support.inside.sampling import begun, row_keys
from tests.support.inside.storage import (
    CacheReport,
    CacheReports,
    DatabaseDir,
    map_array,
    open_db_dir,
    read_manifest,
    temporary_bytes,
    this_process,
)
from tests.support.refusals import refused
from tests.support.row_caches import assert_equal, cache_of, followed, followers
from tests.support.worlds import Case

OF = EdgeType("leaf", "of", "hub")
GOOD = CacheReport(5, this_process(), True, 2, CacheStats(bytes=10, rows=3, age=2.5, batch=7))


@pytest.fixture
def db_dir(tmp_path: Path) -> DatabaseDir:
    return open_db_dir(tmp_path / "db", read_only=False)


WRONG: dict[str, Any] = {
    "bytes": [10**30, -1, "7", None, [1], 1.5],
    "hits": [float("nan"), float("inf")],
    "age": ["old", [1], {"a": 1}, 10**400, -1.0, float("nan")],
    "seconds": [None, -1],
    "batch": ["x", 10**30],
    "error": [5, ["x"]],
    "cache": ["5", None],
    "generation": [-1, 10**30],
    "open": [1, "yes"],
    "process": ["../../etc.1", "-1.1", "self.1", "9" * 4000 + ".1", "", None, 7],
    "stats": [None, [1]],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_report_whose_values_are_of_another_kind_is_none(name: str, db_dir: DatabaseDir) -> None:
    CacheReports(db_dir).write("5-1-0", GOOD)
    for number, value in enumerate(WRONG[name]):
        wrong = asdict(GOOD)
        (wrong if name in wrong else wrong["stats"])[name] = value
        (db_dir.path / "caches" / f"5-1-{number + 1}.json").write_text(json.dumps(wrong))
    assert CacheReports(db_dir).read() == (GOOD,)
    assert CacheReports(db_dir).clear() == len(WRONG[name])
    assert CacheReports(db_dir).read() == (GOOD,)


def test_files_that_are_no_reports_are_cleared_and_never_read_whole(db_dir: DatabaseDir) -> None:
    CacheReports(db_dir).write("5-1-0", GOOD)
    folder = db_dir.path / "caches"
    for name, text in (("deep", "[" * 100_000), ("deeper", '{"a":' * 9_000), ("digits", '{"cache": ' + "9" * 5000)):
        (folder / f"{name}.json").write_text(text)
    (folder / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    for name in ("begun", "left"):
        (folder / f"{name}.new").write_text("{")
    os.utime(folder / "left.new", (0, 0))
    assert CacheReports(db_dir).read() == (GOOD,)
    assert CacheReports(db_dir).clear(6) == 5
    assert sorted(path.name for path in folder.iterdir()) == ["5-1-0.json", "begun.new", "folder.json", "pipe.json"]


@contextmanager
def no_more_files() -> Iterator[None]:
    """No file can be opened meanwhile, as where too many are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_reports_that_cannot_be_listed_are_none(db_dir: DatabaseDir) -> None:
    CacheReports(db_dir).write("5-1-0", GOOD)
    with no_more_files():
        assert (CacheReports(db_dir).read(), CacheReports(db_dir).clear()) == ((), 0)
    assert CacheReports(db_dir).read() == (GOOD,)


def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.arange(3))
    (tmp_path / "manifest.json").write_text("{}")
    for read, path in ((map_array, tmp_path / "whole.npy"), (read_manifest, tmp_path)):
        with no_more_files(), refused("cannot-read", str(path)):
            read(path)
    with refused("damaged-file"):
        map_array(tmp_path / "gone.npy")


def test_where_no_file_can_be_made_for_rows_one_error_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with no_more_files(), refused("cannot-write", f"9 bytes for rows in {folder}"):
            temporary_bytes(folder, 9, "rows", "")


def test_streams_of_a_database_that_is_open_twice_tell_of_themselves_apart() -> None:
    assert len({shelf.stream() for shelf in (CacheBudget(), CacheBudget()) for _ in range(2)}) == 4


def test_a_share_that_turns_no_row_in_any_batch_leaves_them_as_they_are() -> None:
    refresh = Refresh("OTF", 5, share=Fraction(1, 10**24))
    sampler = numba_sampler(followers().view(), followed(refresh))
    cache = cache_of(sampler, 0)
    (relation,) = sampler.relations
    assert row_keys(sampler.spec, relation, 0, 0)[:5] == row_keys(sampler.spec, relation, 0, 2**40)[:5]
    assert begun(refresh, np.zeros(2, np.int64), np.array([0, 2**31], np.uint64)).tolist() == [0.0, 0.0]
    assert cache.stats(2**40).age == 2.0**40


def test_where_few_of_the_eligible_edges_weigh_something_all_of_these_are_delivered() -> None:
    weights = np.array([1.0, 0.0, 0.0, 2.0, *[1.0] * 16])
    leaves = np.arange(weights.size)
    graph = MemoryGraph({"leaf": 20, "hub": 1}, {OF: EdgeList(leaves, np.zeros_like(leaves), leaves, weights)})
    for amplify in (Fraction(1), Fraction(2)):
        spec = sample_spec(
            "hub",
            Fanout(OF, "IN", (2,)),
            drawing=Drawing("PRIORITY", weights=(("of", "w"),), weighted=True),
            temporal=Temporal(False, None),
            refresh=Refresh("FCR", 3, amplify=amplify),
            allow_duplicates=True,
        )
        for batch in range(0, 12, 3):  # rows that hold some of these edges, all, or none
            both_agree(
                Case(graph, spec, vertex_input("hub", np.zeros(4, np.int64), times=np.array([3, 4, 5, 9])), batch)
            )


def test_what_lay_in_memory_before_decides_over_no_edge() -> None:
    times = np.arange(40) % 10
    graph = MemoryGraph({"leaf": 40, "hub": 1}, {OF: EdgeList(np.arange(40), np.zeros(40, np.int64), times)})
    for refresh in (None, Refresh("FCR", 3), Refresh("OTF", 3, fetch=Fraction(1, 2))):
        fanout = Fanout(OF, "IN", (4,))
        spec = sample_spec("hub", fanout, temporal=Temporal(False, None), refresh=refresh, allow_duplicates=True)
        sampler, entry = (
            numba_sampler(graph.view(), spec),
            vertex_input("hub", np.zeros(3, np.int64), times=np.array([2, 5, 9])),
        )
        wanted = expected(graph.oracle(), spec, entry, 1)
        for left in (-(2**63), -(2**62), -1, 2**63 - 1):  # static times, for one, of a batch whose memory this was
            scratch = sampler.scratch()
            scratch.draft.reserve(1 << 10, 1 << 10)
            draft = scratch.draft.arrays
            for array in (*draft[:4], *draft.candidates, draft.spans, draft.windows):
                if array.dtype == np.int64:
                    array[:] = left
            compared(sampler, sampler.sample(entry, 1, scratch), wanted)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_read_while_they_are_written_are_never_mixed(weighted: bool) -> None:
    size = 300
    listed = EdgeList(np.arange(4 * size), np.zeros(4 * size, np.int64), None, 1.0 + np.arange(4 * size) % 5)
    graph = MemoryGraph({"leaf": 4 * size, "hub": 1}, {OF: listed})
    drawing = Drawing("PRIORITY", weights=(("of", "w"),), weighted=True) if weighted else Drawing()
    spec = sample_spec(
        "hub", Fanout(OF, "IN", (size,)), drawing=drawing, refresh=Refresh("FCR", 1, amplify=Fraction(1))
    )
    sampler, entry = numba_sampler(graph.view(), spec), vertex_input("hub", np.zeros(1, np.int64))
    expected = [sampler.sample(entry, batch, sampler.scratch()) for batch in range(2)]
    cache = sampler.cache = cache_of(sampler, 0)
    ended = threading.Event()

    def write() -> None:
        batches = itertools.cycle((1, 0))
        while not ended.is_set():
            cache.fill(partial(next, batches), lambda: None, lambda: None)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        scratch = sampler.scratch()
        for turn in range(400):
            assert_equal(sampler.sample(entry, turn % 2, scratch), expected[turn % 2])
    finally:
        ended.set()
        writer.join()
    assert cache.stats(0).hits > 0
