"""A stream gives the same batches with a cache and without, whoever reads it, and says which rows they are of."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest
from torch.utils.data import DataLoader

from snapdb.loading import BatchStream
from snapdb.types import Cache, CacheStats, Fanout, Refresh, SampleSpec
from tests.support.graphs import all_seeds, sample_spec, ties
from tests.support.inside.loading import CacheBudget, CacheSource, MeteredStream, StreamOptions, StreamSource
from tests.support.inside.storage import DatabaseDir, open_db_dir
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.streams import BATCHES, BOUGHT, KNOWS, Shelf, after, epochs, open_stream, prints, settles
from tests.support.waiting import PATIENCE

PLAIN = sample_spec("customer", Fanout(BOUGHT, "BOTH", (2, 1)), Fanout(KNOWS, "IN", (1, 1)))
SPECS = {
    "afresh": PLAIN,
    "all at once": replace(PLAIN, refresh=Refresh("FCR", 3, shared=True)),
    "in turns": replace(PLAIN, refresh=Refresh("OTF", 2, share=Fraction(1, 4), fetch=Fraction(1, 2))),
    "visited": replace(PLAIN, refresh=Refresh("OTF", 3, visited=True)),
}


@pytest.fixture
def db_dir(tmp_path: Path) -> DatabaseDir:
    return open_db_dir(tmp_path / "caches", read_only=False)


def source(db_dir: DatabaseDir, room: int | None = None, place: Literal["MEMORY", "FILE"] = "MEMORY") -> CacheSource:
    return CacheSource((Cache(1, "kept", "train", place, room, 0, "me"),), db_dir, CacheBudget())


def stream(spec: SampleSpec, kept: CacheSource | None = None, **options: Any) -> BatchStream:
    graph = ties()
    return open_stream(graph.view(), all_seeds(graph, "customer"), spec, cache=kept, **{"threads": 0, **options})


def filled(opened: BatchStream) -> dict[str, Any]:
    """What the cache says of itself once its first pass is over."""
    assert settles(lambda: (opened.cache_stats() or {"refills": 0})["refills"] > 0)
    return dict(opened.cache_stats() or {})


def test_a_stream_may_end_where_another_one_is_lent_room(db_dir: DatabaseDir) -> None:
    def ends() -> None:
        kept = source(db_dir, room=600)
        with kept.budget._here():  # garbage is collected anywhere
            opened = stream(SPECS["all at once"], kept)
            next(iter(opened))
            assert settles(lambda: (opened.cache_stats() or {"bytes": 0})["bytes"] > 0)
            time.sleep(0.05)  # until its thread says what it takes of the room, and waits
            opened.close()

    ending = threading.Thread(target=ends, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_the_page_tells_all_that_a_stream_tells_of_its_cache() -> None:
    page = (ROOT / "docs" / "language" / "caches.md").read_text(encoding="utf-8")
    table = page.partition("| key | meaning |")[2]
    assert [name for name in CacheStats.__slots__ if f"`{name}`" not in table] == []


def keepers() -> int:
    return sum(thread.name == "snapdb-cache" for thread in threading.enumerate())


@pytest.mark.parametrize("how", SPECS)
@pytest.mark.parametrize(("room", "place"), [(None, "MEMORY"), (600, "MEMORY"), (None, "FILE")])
def test_batches_are_the_same_with_a_cache(
    how: str, room: int | None, place: Literal["MEMORY", "FILE"], db_dir: DatabaseDir
) -> None:
    plain = epochs(stream(SPECS[how]), 3)
    with stream(SPECS[how], source(db_dir, room, place), threads=2) as opened:
        assert opened.cache_stats() is None
        found = epochs(opened, 1)
        assert filled(opened)["bytes"] <= (room or 10**9)
        found += epochs(opened)
        assert found == plain
        stats = opened.cache_stats() or {}
        assert (stats["batch"], stats["error"]) == (3 * BATCHES - 1, None)
        assert room or stats["hits"] > 0
    assert opened.cache_stats() is None
    assert keepers() == 0


SHARED = SPECS["all at once"]
ALONE = replace(PLAIN, fanouts=PLAIN.fanouts[:1])


@pytest.mark.parametrize(
    ("first", "second"),
    [(SHARED, replace(SHARED, fanouts=(Fanout(BOUGHT, "BOTH", (3, 1)), *SHARED.fanouts[1:]))), (ALONE, PLAIN)],
    ids=["other fanouts", "more edge types"],
)
def test_a_stream_that_reads_other_rows_is_left_none(
    first: SampleSpec, second: SampleSpec, db_dir: DatabaseDir
) -> None:
    told = []
    for before in (second, first):
        kept = source(db_dir)
        for spec in (before, second):
            with stream(spec, kept) as opened:
                epochs(opened, 1)
                filled(opened)
                found = {name: filled(opened)[name] for name in ("rows", "filled", "edges", "bytes")}
        told.append(found)
    assert told[0] == told[1]


def test_without_a_thread_to_fill_it_batches_do_without_a_cache(
    db_dir: DatabaseDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, kept = threading.Thread.start, source(db_dir, 600)

    def start(thread: threading.Thread) -> None:
        if thread.name == "snapdb-cache":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with stream(SHARED, kept) as opened:
            with pytest.warns(RuntimeWarning, match="cache kept is disabled, and batches are built without"):
                assert epochs(opened, 1) == epochs(stream(SHARED), 1)
            assert (opened.cache_stats() or {})["error"] == "can't start new thread"
    with stream(SHARED, kept) as opened:  # which has all of the room again
        epochs(opened, 1)
        assert filled(opened)["bytes"] > 0


def test_a_fork_opens_the_cache_though_a_thread_that_stayed_behind_was_at_it(db_dir: DatabaseDir) -> None:
    keeping = stream(SHARED, source(db_dir))._workers.builder.cache
    with keeping._guard():
        child = os.fork()
        if not child:
            os._exit(0 if keeping._guard().acquire(timeout=PATIENCE) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("how", ["all at once", "visited"])
def test_dataloader_workers_share_the_room_and_give_the_same_batches(how: str, db_dir: DatabaseDir) -> None:
    opened = stream(SPECS[how], source(db_dir))
    expected = epochs(stream(SPECS[how]))
    first = next(iter(opened))  # the parent's keeper stays with the parent
    assert prints([first]) == expected[:1]
    opened.set_epoch(0)
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True}
    loader = DataLoader(opened, batch_size=None, **options)
    assert prints(loader) + prints(loader) == expected
    opened.close()


def test_a_stream_with_a_cache_can_be_sent_to_another_process(db_dir: DatabaseDir) -> None:
    graph = ties()
    view = replace(graph.view(), adjacency=Shelf(graph))
    opened = open_stream(view, all_seeds(graph, "customer"), SPECS["in turns"], threads=1, cache=source(db_dir))
    first = prints(opened)
    received: BatchStream = pickle.loads(pickle.dumps(opened))
    received.set_epoch(0)
    assert prints(received) == first
    assert received.cache_stats() is not None
    for one in (opened, received):
        one.close()


@pytest.mark.parametrize("how", SPECS)
def test_a_stream_is_resumed_with_a_cache_or_without(how: str, db_dir: DatabaseDir) -> None:
    expected = epochs(stream(SPECS[how]), 1)
    with stream(SPECS[how], source(db_dir), threads=2) as opened:
        state = after(opened, 5)
    assert state == after(stream(SPECS[how]), 5)
    with stream(SPECS[how], source(db_dir, 900), threads=1) as resumed:
        resumed.load_state_dict(state)
        assert prints(resumed) == expected[5:]


def test_the_next_stream_finds_the_rows_of_the_one_that_was_closed(db_dir: DatabaseDir) -> None:
    kept = source(db_dir)
    with stream(SPECS["all at once"], kept) as opened:
        prints(opened)
        rows = filled(opened)["filled"]
    with stream(SPECS["all at once"], kept) as again:
        again[0]
        assert settles(lambda: (again.cache_stats() or {"filled": 0})["filled"] == rows)


def test_a_stream_that_nobody_holds_keeps_no_thread(db_dir: DatabaseDir) -> None:
    opened = stream(SPECS["all at once"], source(db_dir), threads=2)
    next(iter(opened))
    assert keepers() == 1
    del opened
    assert settles(lambda: keepers() == 0)


def test_torch_draws_without_a_cache(db_dir: DatabaseDir) -> None:
    spec = replace(SPECS["all at once"], backend="torch")
    with stream(spec, source(db_dir)) as opened:
        assert prints(opened) == epochs(stream(SPECS["all at once"]), 1)
        assert opened.cache_stats() is None


def test_a_metered_stream_reads_its_cache(db_dir: DatabaseDir) -> None:
    graph, spec = ties(), SPECS["visited"]
    seeds = all_seeds(graph, "customer")
    read = StreamSource(graph.view(), seeds, spec, cache=source(db_dir))
    with MeteredStream(read, StreamOptions(threads=1)) as opened:
        assert prints(opened) == epochs(stream(spec), 1)
        filled(opened)
        assert prints(opened) == epochs(stream(spec))[BATCHES:]
        assert (opened.cache_stats() or {})["hits"] > 0


def test_a_generation_has_rows_of_its_own_and_says_so() -> None:
    spec = SPECS["all at once"]
    second = replace(spec, generation=1)
    assert prints(stream(second)) != prints(stream(spec))
    assert stream(second)[0].lineage["generation"] == 1
    state = json.loads(json.dumps(stream(spec).state_dict()))
    with refused("stream-state"):
        stream(second).load_state_dict(state)
    with refused("stream-state"):
        stream(SPECS["in turns"]).load_state_dict(state)
    afresh = replace(PLAIN, generation=1)  # no rows, and so no difference
    assert prints(stream(afresh)) == prints(stream(PLAIN))
    stream(afresh).load_state_dict(stream(PLAIN).state_dict())
