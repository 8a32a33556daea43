"""Caches of rows: no batch depends on them, they keep to their room, and they follow a snapshot that moves."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.compiler_lock import global_compiler_lock

from snapdb.sampling import NeighborSampler, Seeds, numba_sampler, open_sampler, vertex_input
from snapdb.types import Cache, CacheStats, Drawing, EdgeType, Fanout, Refresh, Relation
from tests.support.backends import REFRESHES, refreshed
from tests.support.forms import KNOWS, changing, view_of
from tests.support.graphs import MemoryGraph, sample_spec
from tests.support.inside.graph import Adjacency, rows_adjacency
from tests.support.inside.kernels import (
    RowArrays,
    await_compiling,
    live_arrays,
    logical_parts,
    mark_changed,
    neighbors_of,
    plain_array,
    row_arrays,
)
from tests.support.inside.loading import CacheBudget, CacheMaintainer, CacheSource, _open_maintainer
from tests.support.inside.sampling import RowCache, choose_rows, expected_accesses
from tests.support.inside.storage import (
    CacheReport,
    CacheReports,
    DatabaseDir,
    EdgeArrays,
    build_patch,
    in_order,
    same_values,
    temporary_bytes,
)
from tests.support.refusals import refused
from tests.support.row_caches import (
    FOLLOWS,
    PEOPLE,
    Bytes,
    Stopped,
    assert_equal,
    cache_of,
    everybody,
    followed,
    followers,
    zeros,
)
from tests.support.thoroughness import examples
from tests.support.waiting import PATIENCE, until
from tests.support.worlds import case

INWARD = Relation(FOLLOWS, "IN")
HALF = Fraction(1, 2)


def after(steps: int) -> Callable[[], None]:
    """Ends a fill after so many steps."""
    left = iter(range(steps))

    def check() -> None:
        if next(left, None) is None:
            raise Stopped

    return check


@pytest.mark.parametrize("method", ["uniform", "priority"])
@pytest.mark.parametrize("how", ["every batch", *REFRESHES])
def test_batches_are_the_same_with_a_cache_of_any_size_and_state(how: str, method: str, tmp_path: Path) -> None:
    in_file: Callable[[int], Bytes] = lambda size: temporary_bytes(tmp_path, size, "rows", "")  # noqa: E731
    hits = 0
    for seed, setting in enumerate(["plain", "within", "links both ways"]):
        if how == "every batch":
            found, rounds = case(method, setting, "IN", seed), None
        else:
            found, rounds = refreshed(how, method, setting, "BOTH" if seed % 2 else "IN", seed)
        sampler = open_sampler(found.graph.view(), found.spec)
        assert sampler.backend.name == "numba"
        expected = sampler.sample(found.entry, found.batch, sampler.scratch(), rounds)
        others = None if rounds is None else {table: values + 1 for table, values in rounds.items()}
        for cache in (
            cache_of(sampler, found.batch, rounds),
            cache_of(sampler, found.batch, rounds, allocate=in_file),
            cache_of(sampler, found.batch, rounds, room=1500),
            cache_of(sampler, found.batch, rounds, check=after(2)),
            cache_of(sampler, found.batch + 3, others),
            RowCache(found.spec, sampler.traversals),
        ):
            sampler.cache = cache
            assert_equal(sampler.sample(found.entry, found.batch, sampler.scratch(), rounds), expected)
            hits += cache.stats(found.batch).hits
    assert hits > 0


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from([None, *(refresh for name, refresh in REFRESHES.items() if "visited" not in name)]),
    st.integers(0, 120_000),
    st.integers(0, 3),
)
def test_a_cache_takes_no_more_than_its_room(refresh: Refresh | None, room: int, seed: int) -> None:
    sampler = numba_sampler(followers(seed, 3_000).view(), followed(refresh))
    asked: list[int] = []

    def allocate(size: int) -> Bytes:
        asked.append(size)
        return zeros(size)

    cache = cache_of(sampler, 0, room=room, allocate=allocate)
    stats, every = cache.stats(0), choose_rows(sampler.spec, sampler.traversals, None, dict)
    assert stats.bytes <= asked[0] <= room
    assert stats.filled == stats.rows <= sum(choice.nodes.size for choice in every)
    assert (stats.rows > 0) == (stats.bytes > 0)
    if room >= sum(choice.layout().bytes for choice in every):
        assert stats.rows == sum(choice.nodes.size for choice in every)


def test_without_a_bound_a_cache_holds_all_that_batches_read() -> None:
    degrees = followers().edges[FOLLOWS].rows("IN", PEOPLE, np.int32, None).degrees()
    shared, above = Refresh("FCR", 10, shared=True), Refresh("FCR", 10, shared=True, above=40)
    drawn, aliased = 10 * (degrees > 10).sum() + 6 * (degrees > 6).sum(), degrees[degrees <= 10].sum()
    for refresh, edges in (
        (None, degrees.sum()),
        (shared, np.minimum(degrees, 10).sum()),
        (above, degrees[degrees <= 40].sum() + 10 * (degrees > 40).sum()),
        (Refresh("FCR", 10), drawn + aliased),
    ):
        sampler = numba_sampler(followers().view(), followed(refresh))
        sampler.cache = cache = cache_of(sampler, 13)
        sampler.sample(vertex_input("person", np.arange(PEOPLE)), 13, sampler.scratch())
        stats = cache.stats(13)
        assert stats.edges == edges
        assert (stats.hits > 0, stats.misses, stats.bytes_read) == (True, 0, stats.bytes_filled)
        assert stats.age == (None if refresh is None else 3.0)


def test_where_room_is_short_the_rows_of_most_visits_for_their_bytes_are_held() -> None:
    sampler = numba_sampler(followers().view(), followed(None, 4))
    few = Seeds("person", np.arange(100, 140), None, None)
    visits = expected_accesses(sampler.spec, sampler.traversals, few, {"person": PEOPLE})
    (choice,) = choose_rows(sampler.spec, sampler.traversals, 4_000, lambda: visits)
    assert set(choice.nodes) <= set(range(100, 140)), "no batch comes by the others"
    degrees = sampler.traversals[0].adjacency.degrees()
    worth = visits[INWARD, 0] * np.minimum(degrees, 4) / (32 + 4 * degrees)
    others = np.setdiff1d(np.flatnonzero(worth > 0), choice.nodes)
    assert others.size
    assert worth[choice.nodes].min() >= worth[others].max()


@pytest.mark.parametrize("layout", ["NODES", "BLOCKS"])
def test_expected_visits_are_those_of_many_batches(layout: str) -> None:
    graph, batches = followers(edges=6_000), 300
    spec = replace(followed(None, 2, 2, 2), layout=layout)  # type: ignore[arg-type]
    sampler, seeds = numba_sampler(graph.view(), spec), everybody()
    expected = expected_accesses(spec, sampler.traversals, seeds, {"person": PEOPLE})
    found = {hop: np.zeros(PEOPLE) for hop in range(3)}
    rng = np.random.default_rng(0)
    for batch in range(batches):
        entry = vertex_input("person", rng.choice(PEOPLE, 16, replace=False))
        drawn = sampler.sample(entry, batch, sampler.scratch())
        bounds = np.cumsum([0, *drawn.nodes_per_hop["person"]])
        for hop in range(3):
            first = 0 if layout == "BLOCKS" else bounds[hop]
            found[hop][drawn.nodes["person"][first : bounds[hop + 1]]] += 1 / batches
    for hop in range(3):
        assert expected[INWARD, hop].sum() == pytest.approx(found[hop].sum(), rel=0.15)
    for hop in range(1, 3):  # all seeds are alike
        assert np.corrcoef(expected[INWARD, hop], found[hop])[0, 1] > 0.85


def rows_listed(rows: RowArrays) -> list[tuple[list[int], list[int]]]:
    """The positions of each row, and the neighbours there."""
    found = []
    for part in logical_parts(rows):
        for first, last in zip(part.indptr[:-1] - part.indptr[0], part.indptr[1:] - part.indptr[0], strict=True):
            positions = part.positions[first:last]
            found.append((positions.tolist(), neighbors_of(rows, positions).tolist()))
    return found


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 2**32),
    st.tuples(*[st.sampled_from(["full", "ends", "bitmap"])] * 2),
    st.tuples(*[st.booleans()] * 2),
    st.booleans(),
)
def test_rows_that_are_not_marked_as_changed_are_the_same(
    seed: int, forms: tuple[str, str], patched: tuple[bool, bool], moved: bool
) -> None:
    before = changing(seed, 40, 200, hub=70)
    before = replace(before, gone=before.gone & patched[0], old=np.ones_like(before.old))
    gone = np.random.default_rng(seed).random(before.gone.size) < 0.02
    after = replace(before, gone=before.gone | gone if moved else before.gone)
    one, other = (each.adjacency(form, patched=True).rows for each, form in zip((before, after), forms, strict=True))
    same_patch = np.array_equal(one.delta.indices, other.delta.indices) and not moved
    changed = np.empty(one.nodes, np.bool_)
    assert mark_changed(one, other, same_patch, np.arange(one.nodes), changed)
    equal = np.array([a == b for a, b in zip(rows_listed(one), rows_listed(other), strict=True)])
    assert not (~changed & ~equal).any()
    if not moved and forms[0] == forms[1]:
        assert not changed.any()


MOVED = (4, 7)
"""The nodes whose edges come and go."""


def moved(form: str) -> tuple[Adjacency, Adjacency]:
    """A snapshot and a later one on the same root."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 40, (2, 1100))
    ends[1, 900:] = 7
    edges = EdgeArrays(ends[0], ends[1], np.arange(1100), np.arange(1100), None)
    root = edges.sort_edges(40, 40)
    touched = np.isin(ends[1], MOVED)
    if form == "patch":
        source, destination, names = ends[0][touched], ends[1][touched], np.flatnonzero(touched)
        gone = EdgeArrays(source, destination, names, names, None)
        came = EdgeArrays(destination, destination, names + 2000, names + 2000, None)
        patch = build_patch(root, None, gone, came, 40, 40)
        return rows_adjacency(root), rows_adjacency(root, patch, nodes=40)
    degrees = np.bincount(ends[1], minlength=40)
    if form == "ends":
        counts = degrees, degrees - np.isin(np.arange(40), MOVED)
        forms = [row_arrays(root.indptr, root.indices, degrees=each) for each in counts]
        return replace(rows_adjacency(root), rows=forms[0]), replace(rows_adjacency(root), rows=forms[1])
    live = [np.ones(1100 + -1100 % 64, np.bool_) for _ in range(2)]
    live[1][root.indptr[list(MOVED)]] = False
    both = (live_arrays(np.packbits(each, bitorder="little").view(np.uint64)) for each in live)
    forms = [row_arrays(root.indptr, root.indices, live=bits) for bits in both]
    return replace(rows_adjacency(root), rows=forms[0]), replace(rows_adjacency(root), rows=forms[1])


@pytest.mark.parametrize("form", ["patch", "ends", "bitmap"])
@pytest.mark.parametrize("refresh", [None, Refresh("FCR", 5), Refresh("OTF", 4, HALF, fetch=HALF, shared=True)])
def test_a_cache_follows_a_snapshot_that_moves(refresh: Refresh | None, form: str) -> None:
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (4, 2)), refresh=refresh)
    before, after = (numba_sampler(view_of(adjacency, 40), spec) for adjacency in moved(form))
    entry = vertex_input("customer", np.arange(40))
    expected = after.sample(entry, 9, after.scratch())
    left, taken = cache_of(before, 9), RowCache(spec, after.traversals)
    filled = left.stats(9).filled
    assert taken.inherit(left)
    tables = 1 if refresh is None or refresh.shared else 2
    assert filled - taken.stats(9).filled == len(MOVED) * tables
    for drawn in range(2):
        if drawn:
            taken.fill(lambda: 9, lambda: None, lambda: None)
        after.cache = taken
        assert_equal(after.sample(entry, 9, after.scratch()), expected)
    assert taken.stats(9).hits > 0
    assert taken.stats(9).drawn == (0 if refresh is None else len(MOVED) * tables), "the others are as they were"
    assert refresh is None or taken.stats(9).filled == filled


def test_a_cache_takes_nothing_from_another_sampler_or_topology() -> None:
    graph, spec = followers(), followed(Refresh("FCR", 5))
    sampler, edges = numba_sampler(graph.view(), spec), graph.edges[FOLLOWS]
    same = RowCache(spec, numba_sampler(graph.view(), spec).traversals)
    assert same.inherit(cache_of(sampler, 0)), "equal arrays are the same topology"
    others = [
        numba_sampler(graph.view(), replace(spec, generation=1)),
        numba_sampler(graph.view(), replace(spec, seed=7)),
        numba_sampler(graph.view(), replace(spec, refresh=Refresh("FCR", 6))),
        numba_sampler(graph.view(), replace(spec, fanouts=(Fanout(FOLLOWS, "OUT", (5, 3)),))),
        numba_sampler(
            MemoryGraph(graph.nodes, {FOLLOWS: replace(edges, source=(edges.source + 1) % PEOPLE)}).view(), spec
        ),
    ]
    for other in others:
        assert not RowCache(other.spec, other.traversals).inherit(cache_of(sampler, 0))


def test_rows_whose_places_grow_past_what_records_can_name_are_left() -> None:
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (4, 2)), refresh=Refresh("FCR", 5))
    before, after = (numba_sampler(view_of(adjacency, 40), spec) for adjacency in moved("patch"))
    (traversal,) = after.traversals
    delta = traversal.arrays.rows.delta._replace(indices=np.broadcast_to(np.int32(0), 2**31))
    grown = replace(traversal, arrays=traversal.arrays._replace(rows=traversal.arrays.rows._replace(delta=delta)))
    assert not RowCache(spec, (grown,)).inherit(cache_of(before, 9))


@pytest.mark.parametrize("drawing", [Drawing(), Drawing("BOTTOMK")], ids=["direct", "listed"])
def test_rows_of_a_relation_of_which_a_cache_has_none_are_missed(drawing: Drawing) -> None:
    rated = EdgeType("person", "rated", "person")
    edges = followers().edges[FOLLOWS]
    graph = MemoryGraph({"person": PEOPLE}, {FOLLOWS: edges, rated: replace(edges, source=(edges.source + 1) % PEOPLE)})
    fanouts = (Fanout(FOLLOWS, "IN", (5, 3)), Fanout(rated, "IN", (5, 3)))
    sampler = numba_sampler(graph.view(), replace(followed(), fanouts=fanouts, drawing=drawing))
    entry, looked = vertex_input("person", np.arange(0, PEOPLE, 9)), []
    for known in (2, 1, 0):
        cache = sampler.cache = RowCache(sampler.spec, sampler.traversals)
        cache.build(choose_rows(sampler.spec, sampler.traversals, None, dict)[:known], zeros)
        cache.fill(lambda: 0, lambda: None, lambda: None)
        sampler.sample(entry, 0, sampler.scratch())
        stats = cache.stats(0)
        looked.append((stats.hits + stats.misses, stats.bytes_read - stats.bytes_filled + stats.bytes_saved))
        assert (stats.hits > 0, stats.misses > 0) == (known > 0, known < 2)
    assert len(set(looked)) == 1


def test_a_new_generation_has_other_rows_in_the_same_room() -> None:
    spec = followed(Refresh("FCR", 5))
    sampler = numba_sampler(followers().view(), spec)
    old = cache_of(sampler, 0)
    room = old.bytes
    new = old.of_generation(1)
    assert (old.bytes, new.bytes, new.stats(0).hits) == (0, room, 0)
    later = numba_sampler(followers().view(), new.spec)
    entry = vertex_input("person", np.arange(PEOPLE))
    expected = later.sample(entry, 0, later.scratch())
    for fill in (False, True):
        if fill:
            new.fill(lambda: 0, lambda: None, lambda: None)
        later.cache = new
        assert_equal(later.sample(entry, 0, later.scratch()), expected)
    assert new.stats(0).misses == old.stats(0).misses + new.stats(0).misses


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_of_which_a_part_is_copied_and_a_part_is_drawn_counts_once(weighted: bool) -> None:
    refresh = Refresh("OTF", 6, HALF, fetch=Fraction(2, 5))
    spec = followed(refresh, 12, 3)  # whole rows of up to 24 edges for the first hop, drawn ones of 6 for the second
    if weighted:
        spec = replace(spec, drawing=Drawing(method="PRIORITY"))
    sampler = numba_sampler(followers().view(), spec)
    sampler.cache = cache = cache_of(sampler, 0)
    found = sampler.sample(vertex_input("person", np.arange(0, PEOPLE, 9)), 0, sampler.scratch())
    rows = {int(side) for edges in found.edges.values() for side in edges.index[1]}
    assert (cache.stats(0).hits, cache.stats(0).misses) == (len(rows), 0)


def db_dir_of(tmp_path: Path) -> DatabaseDir:
    return DatabaseDir(tmp_path, read_only=False)


def source_of(db_dir: DatabaseDir, room: int | None = None, place: str = "MEMORY") -> CacheSource:
    cache = Cache(5, "c", "s", place, room, 0, "me")  # type: ignore[arg-type]
    return CacheSource((cache,), db_dir, CacheBudget())


def keep(source: CacheSource, sampler: NeighborSampler, sharers: int = 1) -> CacheMaintainer:
    maintainer = _open_maintainer(source, sampler, {"person": PEOPLE}, everybody(), sharers)
    assert maintainer is not None
    sampler.cache = maintainer.reader
    return maintainer


def filling() -> bool:
    """Whether a thread of a cache runs."""
    return "snapdb-cache" in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("place", ["MEMORY", "FILE"])
def test_a_thread_draws_ahead_what_batches_ask_for(place: str, tmp_path: Path) -> None:
    refresh = Refresh("OTF", 6, HALF)
    plain, sampler = (numba_sampler(followers().view(), followed(refresh)) for _ in range(2))
    maintainer = keep(source_of(db_dir_of(tmp_path), place=place), sampler)
    scratch, entry = sampler.scratch(), vertex_input("person", np.arange(0, PEOPLE, 3))
    for batch in range(60):
        maintainer.begin(batch)
        assert_equal(sampler.sample(entry, batch, scratch), plain.sample(entry, batch, plain.scratch()))
    until(lambda: maintainer.stats().filled == maintainer.stats().rows > 0)
    for batch in (63, 66):  # passes are 3 batches apart; one that was under way may have begun with earlier ones
        passes = maintainer.stats().refills
        maintainer.begin(batch)
        until(lambda seen=passes: maintainer.stats().refills > seen)  # type: ignore[misc]
    before = maintainer.stats()
    assert_equal(sampler.sample(entry, 66, scratch), plain.sample(entry, 66, plain.scratch()))
    after = maintainer.stats()
    assert after.hits - before.hits > 5 * (after.misses - before.misses)
    assert 0 < (after.age or 0) < 12
    assert not [path for path in tmp_path.iterdir() if path.name != "caches"], "the file has no name"
    maintainer.close()
    maintainer.close()
    assert not filling()
    assert_equal(sampler.sample(entry, 62, scratch), plain.sample(entry, 62, plain.scratch()))


def test_batches_of_an_earlier_epoch_are_drawn_for_again(tmp_path: Path) -> None:
    sampler = numba_sampler(followers().view(), followed(Refresh("FCR", 10)))
    maintainer = keep(source_of(db_dir_of(tmp_path)), sampler)
    for batch, rounds in ((1000, 1), (995, 1), (3, 2), (4, 2)):
        maintainer.begin(batch)
        until(lambda rounds=rounds: maintainer.stats().refills >= rounds)  # type: ignore[misc]
    assert maintainer.stats().batch == 4
    assert maintainer.stats().age == 4.0
    maintainer.close()


def test_what_a_stream_leaves_serves_the_next_and_streams_share_the_room(tmp_path: Path) -> None:
    db_dir = db_dir_of(tmp_path)
    source = source_of(db_dir, 20_000)
    spec = followed(Refresh("FCR", 10))
    first, second = (numba_sampler(followers().view(), spec) for _ in range(2))
    third = numba_sampler(followers().view(), replace(spec, generation=1))
    one = keep(source, first)
    two = keep(source, second)
    for maintainer in (one, two):
        maintainer.begin(0)
        until(lambda maintainer=maintainer: maintainer.stats().refills > 0)  # type: ignore[misc]
    assert 0 < one.stats().bytes <= 20_000 - two.stats().bytes
    assert len([report for report in CacheReports(db_dir).read() if report.lives]) == 2
    held = one.stats().filled
    one.close()
    two.close()
    assert 0 < source.budget.refill(source.first, 1) <= held
    three = keep(source, third)
    three.begin(0)
    until(lambda: three.stats().refills > 0)
    assert (three.stats().filled, three.stats().drawn) == (held, 0)
    three.close()
    reports = CacheReports(db_dir).read(5)
    assert [report.lives for report in reports] == [False] * len(reports)
    source.budget.drop(source.first)
    assert source.budget.reserve(source.first).room == 20_000, "nobody holds any of it"


@pytest.mark.parametrize("where", ["of_generation", "fill"])
def test_a_refresh_that_is_stopped_keeps_the_room(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    source = source_of(db_dir_of(tmp_path), 20_000)
    maintainer = keep(source, numba_sampler(followers().view(), followed(Refresh("FCR", 10))))
    maintainer.begin(0)
    until(lambda: maintainer.stats().refills > 0)
    held = maintainer.stats().filled
    maintainer.close()
    with monkeypatch.context() as patched:
        patched.setattr(f"snapdb.sampling.neighbor_pool_cache.RowCache.{where}", stopped)
        with pytest.raises(KeyboardInterrupt):
            source.budget.refill(source.first, 1)
    assert 0 < source.budget.refill(source.first, 1) <= held
    source.budget.drop(source.first)
    assert source.budget.reserve(source.first).room == 20_000, "nobody holds any of it"


def test_a_long_pass_is_told_of_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db_dir, fill, told = db_dir_of(tmp_path), RowCache.fill, threading.Event()

    def lasting(rows: RowCache, *given: Any) -> None:
        fill(rows, *given)
        check = given[-1]
        until(lambda: check() or any(report.stats.filled for report in CacheReports(db_dir).read()))
        told.set()

    monkeypatch.setattr("snapdb.loading.cache_maintainer._SECONDS", 0.01)
    monkeypatch.setattr(RowCache, "fill", lasting)
    maintainer = keep(source_of(db_dir), numba_sampler(followers().view(), followed(Refresh("FCR", 10))))
    maintainer.begin(0)
    assert told.wait(PATIENCE)
    maintainer.close()


def test_what_one_stream_does_not_need_is_left_to_others(tmp_path: Path) -> None:
    source = source_of(db_dir_of(tmp_path), 150_000)
    found = []
    for counts in ((3,), (3,), (3, 2)):
        maintainer = keep(source, numba_sampler(followers().view(), followed(None, *counts)))
        maintainer.begin(0)
        until(lambda maintainer=maintainer: maintainer.stats().refills > 0)  # type: ignore[misc]
        found.append(maintainer)
    sizes = [maintainer.stats().bytes for maintainer in found]
    assert sizes[0] == sizes[1] > 0
    assert sum(sizes) <= 150_000
    for maintainer in found:
        maintainer.close()
    again = keep(source, numba_sampler(followers().view(), followed(Refresh("FCR", 10), 9)))
    again.begin(0)
    until(lambda: again.stats().refills > 0)
    assert again.stats().bytes > 0, "what the last stream left is of no use, but its bytes are"
    again.close()


def test_processes_share_the_room_evenly(tmp_path: Path) -> None:
    source = source_of(db_dir_of(tmp_path), 60_000)
    maintainer = keep(source, numba_sampler(followers().view(), followed()), sharers=3)
    maintainer.begin(0)
    until(lambda: maintainer.stats().refills > 0)
    assert 0 < maintainer.stats().bytes <= 20_000
    maintainer.close()


def keep_until_it_fails(source: CacheSource, sampler: NeighborSampler) -> CacheMaintainer:
    maintainer = keep(source, sampler)
    until(lambda: maintainer.stats().error is not None)
    return maintainer


def test_what_goes_wrong_in_the_thread_is_told_and_breaks_no_batch(tmp_path: Path) -> None:
    whole = followers().edges[FOLLOWS].rows("IN", PEOPLE, np.int32, None)
    indptr = whole.rows.indptr.copy()
    indptr[-1] += 1
    damaged = replace(whole, rows=whole.rows._replace(indptr=plain_array(indptr, np.int64)))
    view = replace(followers().view(), adjacency=lambda relation: damaged)
    sampler, entry = numba_sampler(view, followed(None, 3)), vertex_input("person", np.arange(50))
    expected = sampler.sample(entry, 0, sampler.scratch())
    with pytest.warns(RuntimeWarning, match="cache c is disabled, and batches are built without it: .*damaged"):
        maintainer = keep_until_it_fails(source_of(db_dir_of(tmp_path)), sampler)
    maintainer.begin(0)
    assert_equal(sampler.sample(entry, 0, sampler.scratch()), expected)
    until(lambda: any("damaged" in str(report.stats.error) for report in CacheReports(db_dir_of(tmp_path)).read()))
    maintainer.close()
    (report,) = CacheReports(db_dir_of(tmp_path)).read()
    assert (report.open, "damaged" in str(report.stats.error)) == (False, True)


def in_child(
    maintainer: CacheMaintainer, source: CacheSource, sampler: NeighborSampler, queue: multiprocessing.Queue[bool]
) -> None:
    here = maintainer.here
    maintainer.close()  # not this process's to close
    own = keep(source, sampler)
    own.begin(0)
    until(lambda: own.stats().refills > 0)
    queue.put(not here and own.here and own.stats().filled > 0)
    own.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_keeps_a_cache_of_its_own(tmp_path: Path) -> None:
    source = source_of(db_dir_of(tmp_path), 60_000)
    sampler = numba_sampler(followers().view(), followed(Refresh("FCR", 10)))
    maintainer = keep(source, sampler)
    maintainer.begin(0)
    until(lambda: maintainer.stats().refills > 0)
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[bool] = context.Queue()
    child = context.Process(target=in_child, args=(maintainer, source, sampler, queue))
    child.start()
    assert queue.get(timeout=PATIENCE)
    child.join(PATIENCE)
    assert (child.exitcode, maintainer.here) == (0, True)
    maintainer.begin(10)
    until(lambda: maintainer.stats().refills > 1)
    maintainer.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_a_thread_that_compiles() -> None:
    await_compiling()
    compiling = threading.Event()

    def compile_() -> None:
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.2)

    thread = threading.Thread(target=compile_)
    thread.start()
    assert compiling.wait(PATIENCE)
    child = os.fork()
    if not child:
        free: list[bool] = []
        other = threading.Thread(target=lambda: free.append(global_compiler_lock._lock.acquire(timeout=PATIENCE)))
        other.start()
        other.join()
        os._exit(0 if free == [True] else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_reports_of_streams_that_are_gone_stay_until_they_are_cleared(tmp_path: Path) -> None:
    db_dir = db_dir_of(tmp_path)
    stats = CacheStats(bytes=10, rows=3, hits=3, misses=1, age=2.5)
    for number, process in enumerate((f"{os.getpid()}.0", "999999999.12")):
        CacheReports(db_dir).write(f"5-{number}", CacheReport(5, process, True, 2, stats))
    (tmp_path / "caches" / "damaged.json").write_text('{"cache": 5')
    assert [report.lives for report in CacheReports(db_dir).read(5)] == [False, False]
    assert CacheReports(db_dir).read(5)[0].stats == stats
    assert CacheReports(db_dir).read(6) == ()
    assert stats.hit_rate == 0.75
    assert CacheReports(db_dir).clear(6) == 1
    assert CacheReports(db_dir).clear() == 2
    assert not json.loads(json.dumps([path.name for path in (tmp_path / "caches").iterdir()]))


def test_a_file_that_the_disk_has_no_room_for_is_one_clear_error(tmp_path: Path) -> None:
    with refused("disk-full", str(tmp_path), "cache c", f"{1 << 58:,} bytes"):
        temporary_bytes(tmp_path, 1 << 58, "cache c", "make it smaller")
    assert list(tmp_path.iterdir()) == []
    values = temporary_bytes(tmp_path, 4097, "rows", "")
    values[-1] = 7
    assert (values.size, int(values.sum())) == (4097, 7)


def test_one_pass_over_a_large_file_has_a_map_of_its_own(tmp_path: Path) -> None:
    values = np.arange(1 << 19)
    for name in ("one", "other"):
        np.save(tmp_path / f"{name}.npy", values)
    one, again, other = (
        plain_array(np.load(tmp_path / f"{name}.npy", mmap_mode="r"), np.int64)[5:] for name in ("one", "one", "other")
    )
    assert same_values(one, again)
    assert not same_values(one, other), "files are told by their names"
    assert not same_values(one, again[:-1])
    assert same_values(values, values.copy())
    assert not same_values(values, one)
    apart = in_order(one)
    assert (apart.ctypes.data != one.ctypes.data, apart.flags.writeable) == (True, False)
    assert np.array_equal(apart, values[5:])
    assert np.array_equal(in_order(one[:9]), values[5:14])
    (tmp_path / "one.npy").unlink()
    assert in_order(again) is again
