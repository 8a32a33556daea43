"""Every physical form of an adjacency, over a root and over a root with a patch, gives the same batches."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.kernels.adjacency.selection import STATIC
from snapdb.sampling import numba_sampler, vertex_input
from snapdb.storage.arrays.patches import write_patch
from snapdb.types import FULL, Direction, Fanout, Relation
from tests.support.forms import FORMS, KNOWS, Changing, changing, selected_rows, view_of
from tests.support.graphs import agreed, sample_spec
from tests.support.inside.graph import Adjacency, AdjacencyOpener, EdgeLayout, GraphView, open_incoming, rows_adjacency
from tests.support.inside.kernels import (
    FIELDS,
    count_edges,
    delta_arrays,
    full_bitmap,
    live_before,
    neighbors_of,
    prefix_degrees,
    rank_blocks,
    row_arrays,
    select_edges,
    select_live,
)
from tests.support.inside.storage import AdjacencyRows, Patch
from tests.support.refusals import refused
from tests.support.thoroughness import examples

Ints = npt.NDArray[np.int64]


COUNTS = st.sampled_from([0, 1, 2, 5, 64, 65, 130, 1500, FULL])
GRAPHS = st.builds(
    changing,
    st.integers(0, 2**32),
    st.integers(1, 14),
    st.integers(0, 70),
    st.sampled_from([0, 0, 63, 64, 65, 150, 700, 1400, 2900]),
)


@settings(max_examples=examples(30), deadline=None)
@given(
    GRAPHS,
    st.lists(COUNTS, min_size=1, max_size=3),
    st.sampled_from(["IN", "IN", "OUT", "BOTH"]),
    st.integers(0, 2**40),
)
def test_every_form_gives_the_oracles_batches(
    graph: Changing, counts: list[int], direction: Direction, batch: int
) -> None:
    spec = sample_spec("customer", Fanout(KNOWS, direction, tuple(counts)), seed=batch * 7)
    seeds = list(range(0, graph.nodes, 2))
    times = {int(e): int(t) for e, t in zip(graph.edges.edge_id, graph.edges.time, strict=True)}  # type: ignore[arg-type]
    for form in FORMS:
        for patched in (False, True):
            adjacency = graph.adjacency(form, patched=patched)
            view = view_of(adjacency, graph.nodes)
            found = agreed(view, graph.oracle(form), spec, seeds, batch)
            for relation, edges in found.edges.items():
                rows = view.adjacency(relation)
                assert rows.time is not None
                ids = rows.edge_id.read(edges.position)
                assert rows.time.read(edges.position).tolist() == [times[int(e)] for e in ids]


@settings(max_examples=examples(30), deadline=None)
@given(GRAPHS)
def test_flat_rows_and_parts_are_those_of_the_form_sorted_anew(graph: Changing) -> None:
    for form in FORMS:
        expected = graph.pick(graph.chosen(form)).sort_edges(graph.nodes, graph.nodes)
        for patched in (False, True):
            found = graph.adjacency(form, patched=patched)
            assert found.edges == int(graph.chosen(form).sum())
            assert same(found.flat(), expected)
            whole = graph.stored(patched=patched)
            if form not in ("bitmap", "materialized"):
                continue
            selection = graph.selection(whole, form)
            parts = list(selected_rows(whole.rows, selection, most=10))
            positions = np.concatenate([part.positions for part in parts])
            assert neighbors_of(whole.rows, positions).tolist() == expected.indices.tolist()
            assert np.concatenate([p.indptr[:-1] for p in parts]).tolist() == expected.indptr[:-1].tolist()
            assert selection.degrees.tolist() == np.diff(expected.indptr).tolist()
            bits = np.unpackbits(full_bitmap(whole.rows).view(np.uint8), bitorder="little")
            assert int(bits.sum()) == whole.edges


def same(found: AdjacencyRows, expected: AdjacencyRows) -> bool:
    assert found.time is not None
    assert expected.time is not None
    pairs = (
        (found.indptr, expected.indptr),
        (found.indices, expected.indices),
        (found.edge_id, expected.edge_id),
        (found.time, expected.time),
    )
    return all(np.array_equal(a, b) for a, b in pairs)


@settings(max_examples=examples(30), deadline=None)
@given(
    GRAPHS, st.sampled_from([None, -5, 0, 3]), st.sampled_from([None, 0, 4, 9, 20]), st.booleans(), st.integers(0, 99)
)
def test_what_is_admitted_is_what_each_condition_lets_in(
    graph: Changing, start: int | None, stop: int | None, ends: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    near, far = rng.random(graph.nodes) < 0.8, rng.random(graph.nodes) < 0.8
    for patched in (False, True):
        whole = graph.stored(patched=patched)
        assert whole.time is not None
        until = tuple(rng.integers(-2, 12, part.size) for part in (whole.rows.indices, whole.rows.delta.indices))
        after = stop - 1 if start is None and stop is not None else start
        found = select_edges(
            whole.rows,
            time=whole.time,
            until=until if ends else None,
            start=start,
            stop=stop,
            until_after=after,
            row_node_alive=near,
            neighbor_alive=far,
        )
        everywhere = np.concatenate([p.positions for p in selected_rows(whole.rows, select_edges(whole.rows))])
        owners = np.repeat(np.arange(graph.nodes), whole.degrees())
        time, end = whole.time.read(everywhere), np.concatenate(until)[everywhere]
        inside = np.ones(time.size, np.bool_) if stop is None else time < stop
        if start is not None and not ends:
            inside &= (time >= start) | (time == STATIC)
        if after is not None and ends:
            inside &= end > after
        kept = inside & near[owners] & far[neighbors_of(whole.rows, everywhere)]
        taken = [p.positions for p in selected_rows(whole.rows, found)]
        assert np.concatenate(taken).tolist() == everywhere[kept].tolist()
        degrees = np.bincount(owners[kept], minlength=graph.nodes)
        assert found.degrees.tolist() == degrees.tolist()
        assert found.edges == int(kept.sum())
        first = np.arange(owners.size) - np.searchsorted(owners, owners)
        assert found.prefix == bool(np.array_equal(first < degrees[owners], kept))
        if stop is not None:
            early = np.bincount(owners[time < stop], minlength=graph.nodes)
            assert prefix_degrees(whole.rows, whole.time, stop).tolist() == early.tolist()


@settings(max_examples=examples(80), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 63, 64, 65, 511, 512, 513, 3000, 9000]),
    st.sampled_from([0.02, 0.5, 0.99]),
)
def test_ranks_and_selections_are_those_of_the_listed_bits(seed: int, size: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.random(size) < density
    words = np.packbits(np.pad(bits, (0, -size % 64)), bitorder="little").view(np.uint64)
    before = rank_blocks(words)
    for _ in range(20):
        start, stop = sorted(rng.integers(0, size + 1, 2).tolist())
        places = start + np.flatnonzero(bits[start:stop])
        passed = live_before(words, before, start)
        assert (passed, live_before(words, before, stop)) == (bits[:start].sum(), bits[:stop].sum())
        for rank in rng.integers(0, places.size, 5) if places.size else ():
            guess = int(rng.integers(start, stop))
            assert select_live(words, before, start, stop, passed + int(rank), guess) == places[rank]


def written(graph: Changing, form: str, root: Path) -> tuple[Path, EdgeLayout]:
    """A snapshot's directory of one edge type, and how it lies there."""
    whole = graph.stored(patched=True)
    made = {"topology": whole, "patch": whole}
    for name in made:
        (root / name).mkdir()
    flat = rows_adjacency(AdjacencyRows(*parts_of(whole)), nodes=graph.nodes)
    AdjacencyRows(*parts_of(whole)).write(root / "topology")
    write_patch(patch_of(whole), root / "patch")
    snapshot = root / "snapshot"
    snapshot.mkdir()
    assert flat.nodes == graph.nodes
    if form in ("ends", "bitmap"):
        selection = graph.selection(whole, form)
        name, values = ("ends", selection.degrees) if form == "ends" else ("live", selection.words)
        np.save(snapshot / f"{name}-0.npy", values)
    if form == "materialized":
        graph.adjacency(form, patched=True).flat().write(snapshot, "rows-0-")
    for directory in (root / "topology", root / "patch", snapshot):
        list_files(directory)
    return snapshot, EdgeLayout("knows", form, 0, "topology", None, (), patch="patch")


def list_files(directory: Path) -> None:
    """Write the manifest of a directory."""
    files = {path.name: {"bytes": path.stat().st_size} for path in directory.glob("*.npy")}
    (directory / "manifest.json").write_text(json.dumps({"files": files}))


def parts_of(whole: Adjacency) -> tuple[Any, ...]:
    assert whole.time is not None
    return whole.rows.indptr, whole.rows.indices, whole.edge_id.base, whole.time.base, None


def patch_of(whole: Adjacency) -> Patch:
    """The patch of an adjacency, as its arrays were."""
    assert whole.time is not None
    patch = whole.rows.delta
    bits = np.unpackbits(patch.touched.view(np.uint8), bitorder="little")
    rows = AdjacencyRows(patch.indptr, patch.indices, whole.edge_id.delta, whole.time.delta, None)  # type: ignore[arg-type]
    return Patch(np.flatnonzero(bits), patch.kept, rows)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_on_the_disk_opens_and_travels_to_a_worker(form: str, tmp_path: Path) -> None:
    graph = changing(3, 12, 60, hub=150)
    snapshot, layout = written(graph, form, tmp_path)
    opener = partial(open_incoming, tmp_path, snapshot, 0, layout, graph.nodes)
    shelf = pickle.loads(pickle.dumps(AdjacencyOpener({KNOWS: opener}, {"customer": graph.nodes})))
    view = GraphView({"customer": graph.nodes}, {"customer": None}, (KNOWS,), shelf, {}, {}, {}, {})
    for direction in ("IN", "OUT", "BOTH"):
        spec = sample_spec("customer", Fanout(KNOWS, direction, (9, 9)))
        agreed(view, graph.oracle(form), spec, [0, 3, 5], 4)


def test_the_row_ends_of_older_databases_are_degrees(tmp_path: Path) -> None:
    graph = changing(5, 9, 80)
    whole = graph.stored(patched=False)
    (tmp_path / "topology").mkdir()
    whole.flat().write(tmp_path / "topology")
    ends = whole.rows.indptr[:-1] + graph.selection(whole, "ends").degrees
    np.save(tmp_path / "ends-0.npy", ends.astype(np.int64))
    layout = EdgeLayout("knows", "ends", 0, "topology", None, ())
    list_files(tmp_path)
    list_files(tmp_path / "topology")
    view = view_of(open_incoming(tmp_path, tmp_path, 0, layout, graph.nodes), graph.nodes)
    agreed(view, graph.oracle("ends"), sample_spec("customer", Fanout(KNOWS, "IN", (3, 3))), [0, 1, 2], 0)


@pytest.mark.parametrize(
    ("form", "file", "values"),
    [
        ("ends", "ends-0", np.zeros(11, np.uint32)),
        ("ends", "ends-0", np.zeros(12, np.float64)),
        ("bitmap", "live-0", np.zeros(1, np.uint64)),
        ("bitmap", "live-0", np.zeros(4, np.int64)),
    ],
)
def test_a_file_of_another_kind_or_length_is_found_when_it_is_opened(
    form: str, file: str, values: npt.NDArray[Any], tmp_path: Path
) -> None:
    graph = changing(3, 12, 60, hub=150)
    snapshot, layout = written(graph, form, tmp_path)
    np.save(snapshot / f"{file}.npy", values)
    list_files(snapshot)
    with refused("damaged-snapshot", f"{file}.npy"):
        open_incoming(tmp_path, snapshot, 0, layout, graph.nodes)


def test_rows_that_lead_out_of_their_arrays_are_found_when_they_are_met() -> None:
    indptr, indices = np.array([0, 2, 3]), np.array([0, 1, 1], np.int32)
    tail = {"indptr": np.array([0, 1]), "indices": np.array([1], np.int32)}

    def patched(nodes: int, kept: int, indptr: Ints) -> Any:
        patch = delta_arrays(np.array([nodes]), np.array([kept]), indptr, tail["indices"], 2, np.int32)
        return row_arrays(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), delta=patch)

    sound = patched(1, 1, np.array([0, 1]))
    spans = np.empty((2, FIELDS), np.int64)
    assert count_edges(sound, 9, np.array([0, 1]), 0, 2, spans) == 4
    wrong = [
        row_arrays(np.array([0, 2, 4]), indices),
        row_arrays(np.array([0, 2, -(2**63)]), indices),
        row_arrays(indptr, indices, degrees=np.array([2, 2])),
        sound._replace(degrees=np.array([2, 3], np.uint32)),
        patched(1, 2, np.array([0, 1])),
        patched(1, -1, np.array([0, 1])),
        patched(1, 1, np.array([0, 2])),
        patched(1, 1, np.array([-1, 1])),
        patched(1, 1, np.array([2**63 - 1, -(2**63)])),
    ]
    for bad in wrong:
        degrees = bad.degrees if bad.degrees.size else None
        rows = row_arrays(bad.indptr, bad.indices, degrees=degrees, delta=bad.delta)
        assert count_edges(rows, 9, np.array([0, 1]), 0, 2, spans) == -1
        with refused("corrupt"):
            select_edges(rows)
    with refused("corrupt"):
        patched(2, 0, np.array([0, 1]))


def test_a_sampler_says_whose_rows_are_damaged() -> None:
    broken = rows_adjacency(AdjacencyRows(np.array([0, 3]), np.zeros(2, np.int32), np.arange(2), None, None))
    sampler = numba_sampler(view_of(broken, 1), sample_spec("customer", Fanout(KNOWS, "IN", (2,))))
    with refused("damaged-snapshot"):
        sampler.sample(vertex_input(sampler.spec.seed_type, np.array([0])), 0, sampler.scratch())
    with refused("corrupt", "CHECK DATABASE"):
        view_of(broken, 1).adjacency(Relation(KNOWS, "OUT"))
