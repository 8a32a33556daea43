"""Rows from edges in any order, patches of rows, and rows made whole again, against numpy's sort."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from snapdb.errors import CorruptError
from snapdb.storage.arrays.patches import write_patch
from tests.support.inside.storage import (
    STATIC,
    AdjacencyRows,
    EdgeArrays,
    Patch,
    _merged,
    build_patch,
    build_rows,
    read_patch,
    read_rows,
    write_merged,
)
from tests.support.refusals import refused

FAR = 1000
FOREVER = 2**63 - 1


def edges(seed: int, count: int, nodes: int, *, first_id: int = 0, timed: bool = True, moments: int = 50) -> EdgeArrays:
    """Random edges in no order, many of them parallel, at the same moment, or of one hub."""
    rng = np.random.default_rng(seed)
    destination = rng.integers(0, nodes, count)
    destination[rng.random(count) < 0.2] = nodes // 2
    time = rng.integers(0, moments, count)
    time[rng.random(count) < 0.05] = STATIC
    return EdgeArrays(
        source=rng.integers(0, min(FAR, max(nodes, 1)), count),
        destination=destination,
        edge_id=first_id + rng.permutation(count),
        time=time if timed else None,
        weight=rng.random(count),
        until=np.where(rng.random(count) < 0.5, FOREVER, time + 5) if timed else None,
    )


def chosen(of: EdgeArrays, which: npt.NDArray[Any]) -> EdgeArrays:
    """Those of the edges."""
    values = {field.name: getattr(of, field.name) for field in fields(of)}
    return EdgeArrays(**{name: None if array is None else array[which] for name, array in values.items()})


def joined(*parts: EdgeArrays) -> EdgeArrays:
    """The edges of all of them."""
    values = {field.name: [getattr(part, field.name) for part in parts] for field in fields(EdgeArrays)}
    return EdgeArrays(**{n: None if arrays[0] is None else np.concatenate(arrays) for n, arrays in values.items()})


def batches(of: EdgeArrays, size: int = 10_000) -> list[pa.RecordBatch]:
    """What a query hands over."""
    names = {"source": "source", "destination": "destination", "edge_id": "e_id", "time": "time", "until": "until"}
    named = {column: getattr(of, name) for name, column in (names | {"weight": "weight"}).items()}
    table = pa.table({name: values for name, values in named.items() if values is not None})
    return table.to_batches(max_chunksize=size) or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def sorted_by_numpy(of: EdgeArrays, nodes: int, *, outgoing: bool = False) -> AdjacencyRows:
    """The rows as their definition says."""
    near, far = (of.source, of.destination) if outgoing else (of.destination, of.source)
    order = np.lexsort((of.edge_id, of.edge_id if of.time is None else of.time, near))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(near, minlength=nodes))]).astype(np.int64)
    plain = AdjacencyRows(indptr, far.astype(np.int32), of.edge_id.astype(np.int32), of.time, of.weight, of.until)
    return plain.take(indptr, order)


def assert_same(found: AdjacencyRows, wanted: AdjacencyRows) -> None:
    """Byte for byte, types included."""
    assert found.columns.keys() == wanted.columns.keys()
    for name, values in {"indptr": wanted.indptr, **wanted.columns}.items():
        got = getattr(found, name)
        assert got.dtype == values.dtype, name
        np.testing.assert_array_equal(got, values, name)


def built(of: EdgeArrays, nodes: int, directory: Path, *, far_nodes: int = FAR, **options: Any) -> AdjacencyRows:
    """Rows through the builder's door, read back."""
    directory.mkdir(exist_ok=True)
    last_id = int(of.edge_id.max(initial=-1)) + 1
    build_rows(batches(of), nodes, far_nodes, of.edge_id.size, last_id, directory, **options)
    return read_rows(directory)


def flattened(root: AdjacencyRows, patch: Patch, nodes: int) -> AdjacencyRows:
    """The logical rows of a root and a patch, node after node."""
    at = {int(v): i for i, v in enumerate(patch.nodes)}
    degrees, parts = [], []
    for v in range(nodes):
        start, stop = (int(root.indptr[v]), int(root.indptr[v + 1])) if v < root.indptr.size - 1 else (0, 0)
        tail = range(0)
        if (i := at.get(v)) is not None:
            stop = start + int(patch.kept[i])
            tail = range(int(patch.rows.indptr[i]), int(patch.rows.indptr[i + 1]))
        degrees.append(stop - start + len(tail))
        parts += [np.arange(start, stop), root.indices.size + np.arange(tail.start, tail.stop)]
    positions = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
    both = {name: np.concatenate([values, patch.rows.columns[name]]) for name, values in root.columns.items()}
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    named = {name: both.get(name) for name in ("indices", "edge_id", "time", "weight", "until")}
    return AdjacencyRows(np.empty(0, np.int64), **named).take(indptr, positions)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [0, 1 << 19, 2 << 30], ids=["all in a file", "some in a file", "all in memory"])
@pytest.mark.parametrize("outgoing", [False, True])
def test_rows_are_by_time_and_edge_id_whatever_the_order_of_the_edges(
    tmp_path: Path, memory: int, outgoing: bool
) -> None:
    given = edges(1, 60_000, 40_000)
    if outgoing:
        given = replace(given, source=given.destination, destination=given.source)
    found = built(given, 40_000, tmp_path / "rows", memory=memory, outgoing=outgoing, far_nodes=40_000)
    assert_same(found, sorted_by_numpy(given, 40_000, outgoing=outgoing))


def test_many_chunks_and_buckets_over_the_budget_make_the_same_rows(tmp_path: Path) -> None:
    given = edges(2, 2_300_000, 300_000, moments=1000)
    found = built(given, 300_000, tmp_path / "rows", memory=40 << 20)
    assert_same(found, sorted_by_numpy(given, 300_000))


def test_a_builder_leaves_its_arrays_and_nothing_else_byte_for_byte_as_numpy_writes_them(tmp_path: Path) -> None:
    given = edges(3, 5_000, 300)
    built(given, 300, tmp_path / "built", memory=0)
    (tmp_path / "saved").mkdir()
    sorted_by_numpy(given, 300).write(tmp_path / "saved")
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {path.name for path in (tmp_path / "built").iterdir()} == names
    for name in names:
        assert (tmp_path / "built" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()


def test_one_hub_with_every_edge_is_sorted(tmp_path: Path) -> None:
    given = edges(4, 100_000, 50_000, moments=30_000)
    given = replace(given, destination=np.full(100_000, 49_999))
    assert_same(built(given, 50_000, tmp_path / "rows"), sorted_by_numpy(given, 50_000))


def test_few_nodes_with_many_edges_are_spread_over_buckets(tmp_path: Path) -> None:
    given = edges(5, 600_000, 7)
    assert_same(built(given, 7, tmp_path / "rows"), sorted_by_numpy(given, 7))


@pytest.mark.parametrize(("count", "nodes"), [(0, 0), (0, 5), (1, 1)])
def test_the_smallest_graphs_have_rows(tmp_path: Path, count: int, nodes: int) -> None:
    given = edges(6, count, max(nodes, 1))
    assert_same(built(given, nodes, tmp_path / "rows"), sorted_by_numpy(given, nodes))


def test_facts_leave_static_edges_out_of_the_span_of_time(tmp_path: Path) -> None:
    given = replace(chosen(edges(7, 4, 3), np.arange(4)), time=np.array([STATIC, 9, 4, STATIC]))
    facts = build_rows(batches(given), 3, FAR, 4, 4, tmp_path)
    assert facts == {"edges": 4, "nodes": 3, "first_time": 4, "last_time": 9}
    assert read_rows(tmp_path).write(tmp_path, "again-") == facts


def test_facts_of_static_edges_alone_name_no_time(tmp_path: Path) -> None:
    given = replace(edges(7, 4, 3), time=np.full(4, STATIC))
    assert build_rows(batches(given), 3, FAR, 4, 4, tmp_path) == {"edges": 4, "nodes": 3}


def test_edges_without_time_are_by_edge_id_and_have_no_time(tmp_path: Path) -> None:
    given = edges(8, 20_000, 500, timed=False)
    found = built(given, 500, tmp_path / "rows")
    assert found.time is None
    assert found.until is None
    assert_same(found, sorted_by_numpy(given, 500))


def test_large_edge_ids_and_many_far_nodes_make_wide_arrays(tmp_path: Path) -> None:
    given = edges(9, 1_000, 50)
    build_rows(batches(given), 50, 2**31, 1_000, 2**31, tmp_path)
    found = read_rows(tmp_path)
    assert (found.indices.dtype, found.edge_id.dtype) == (np.int64, np.int64)
    np.testing.assert_array_equal(found.edge_id, sorted_by_numpy(given, 50).edge_id)


def test_progress_rises_to_the_end(tmp_path: Path) -> None:
    told: list[float] = []
    given = edges(10, 50_000, 40_000)
    build_rows(batches(given), 40_000, FAR, 30_000, 50_000, tmp_path, report=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize(("column", "wrong"), [("destination", 300), ("source", -1), ("edge_id", 5_000)])
def test_an_id_out_of_range_is_named(tmp_path: Path, column: str, wrong: int) -> None:
    given = edges(11, 5_000, 300)
    getattr(given, column)[77] = wrong
    with refused("damaged-snapshot", str(wrong)):
        build_rows(batches(given), 300, FAR, 5_000, 5_000, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_value_is_named(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"source": [1, 2], "destination": [0, 1], "e_id": [0, 1], "time": [3, None]})
    with refused("damaged-snapshot"):
        build_rows([batch], 2, FAR, 2, 2, tmp_path)


@pytest.mark.parametrize("outgoing", [False, True])
def test_sorting_in_memory_gives_the_same_rows(outgoing: bool) -> None:
    given = edges(12, 30_000, FAR)
    given = replace(given, edge_id=given.edge_id.astype(np.int32))
    found = given.sort_edges(FAR, FAR, outgoing=outgoing)
    assert_same(found, sorted_by_numpy(given, FAR, outgoing=outgoing))


def a_patch(tmp_path: Path, seed: int, *, timed: bool, removed: int, added: int, grown: int) -> None:
    """A root, some changes, and all the ways to their rows."""
    nodes, rng = 200, np.random.default_rng(seed)
    old = edges(seed, 3_000, nodes, timed=timed)
    new = edges(seed + 1000, added, nodes + grown, first_id=3_000, timed=timed)
    order = rng.permutation(3_000)
    gone, left = order[:removed], order[removed:]
    wanted = built(joined(chosen(old, left), new), nodes + grown, tmp_path / "wanted")
    root = built(old, nodes, tmp_path / "root")
    patch = build_patch(root, None, chosen(old, gone), new, nodes + grown, FAR)
    (tmp_path / "patch").mkdir()
    write_patch(patch, tmp_path / "patch")
    patch = read_patch(tmp_path / "patch", root)
    assert_same(flattened(root, patch, nodes + grown), wanted)
    assert_same(_merged(root, patch, nodes + grown), wanted)
    (tmp_path / "merged").mkdir()
    facts = write_merged(root, patch, nodes + grown, tmp_path / "merged", block=400)
    for path in (tmp_path / "wanted").iterdir():
        assert (tmp_path / "merged" / path.name).read_bytes() == path.read_bytes()
    assert facts == wanted.write(tmp_path / "patch")


@pytest.mark.parametrize(
    ("removed", "added", "grown"), [(0, 0, 0), (0, 40, 0), (40, 0, 0), (300, 700, 25), (3000, 0, 3)]
)
@pytest.mark.parametrize("timed", [True, False], ids=["timed", "untimed"])
def test_a_root_with_its_patch_and_the_two_merged_are_what_building_anew_gives(
    tmp_path: Path, timed: bool, removed: int, added: int, grown: int
) -> None:
    a_patch(tmp_path, removed + added, timed=timed, removed=removed, added=added, grown=grown)


def test_a_patch_upon_a_patch_is_one_patch_of_the_root(tmp_path: Path) -> None:
    old, rng = edges(20, 3_000, 200), np.random.default_rng(20)
    root = built(old, 200, tmp_path / "root")
    now, patch, last = old, None, 3_000
    for step in range(6):
        new = edges(21 + step, 150, 200 + 4 * step, first_id=last)
        order = rng.permutation(now.edge_id.size)
        patch = build_patch(root, patch, chosen(now, order[:120]), new, 200 + 4 * step, FAR)
        now, last = joined(chosen(now, order[120:]), new), last + 150
        assert_same(flattened(root, patch, 200 + 4 * step), sorted_by_numpy(now, 200 + 4 * step))
    assert patch is not None
    assert_same(_merged(root, patch, 220), sorted_by_numpy(now, 220))


def test_appended_edges_keep_the_whole_root_row_and_a_late_one_lands_where_its_time_says(tmp_path: Path) -> None:
    old = EdgeArrays(np.arange(4), np.zeros(4, np.int64), np.arange(4), np.array([10, 20, 30, 40]), None)
    root = built(old, 2, tmp_path / "root")
    nobody = chosen(old, np.arange(0))

    def arriving(time: int) -> Patch:
        one = EdgeArrays(np.array([7]), np.array([0]), np.array([4]), np.array([time]), None)
        return build_patch(root, None, nobody, one, 2, FAR)

    assert (arriving(40).kept.tolist(), arriving(40).rows.edge_id.tolist()) == ([4], [4])
    assert (arriving(25).kept.tolist(), arriving(25).rows.edge_id.tolist()) == ([2], [4, 2, 3])


@pytest.mark.parametrize("later", [False, True], ids=["late and new", "all new"])
def test_a_patch_is_the_same_whether_or_not_the_last_time_of_its_root_is_told(tmp_path: Path, later: bool) -> None:
    old, rng = edges(80, 3_000, 200), np.random.default_rng(80)
    assert old.time is not None
    root = built(old, 200, tmp_path / "root")
    now = old
    patches: tuple[Patch | None, Patch | None] = (None, None)
    for step in range(3):
        new = edges(81 + step, 300, 210, first_id=3_000 + 300 * step, moments=50 if later else 100)
        assert new.time is not None
        new = replace(new, time=new.time % 50 + 50 * (step + 1)) if later else new
        order = rng.permutation(now.edge_id.size)
        gone = chosen(now, order[: 10 * step])
        told = build_patch(root, patches[0], gone, new, 210, FAR, last_time=int(old.time.max()))
        untold = build_patch(root, patches[1], gone, new, 210, FAR)
        for name in ("nodes", "kept"):
            np.testing.assert_array_equal(getattr(told, name), getattr(untold, name))
        assert_same(told.rows, untold.rows)
        now, patches = joined(chosen(now, order[10 * step :]), new), (told, untold)
        assert_same(flattened(root, told, 210), sorted_by_numpy(now, 210))


def test_an_edge_id_too_large_for_the_root_widens_the_patch_alone(tmp_path: Path) -> None:
    old, new = edges(85, 300, 20), edges(86, 30, 20, first_id=2**31)
    root = built(old, 20, tmp_path / "root")
    first = build_patch(root, None, chosen(old, np.arange(5)), edges(87, 10, 20, first_id=300), 20, FAR)
    patch = build_patch(root, first, chosen(old, np.arange(5, 9)), new, 20, FAR)
    assert [rows.edge_id.dtype.name for rows in (root, first.rows, patch.rows)] == ["int32", "int32", "int64"]
    left = joined(chosen(old, np.arange(9, 300)), edges(87, 10, 20, first_id=300), new)
    assert _merged(root, patch, 20).edge_id.tolist() == built(left, 20, tmp_path / "wanted").edge_id.tolist()


@pytest.mark.parametrize("wrong", [-1, 200])
def test_an_edge_to_a_node_that_there_is_not_is_named(tmp_path: Path, wrong: int) -> None:
    root = built(edges(90, 300, 200), 200, tmp_path / "root")
    new = replace(edges(91, 1, 1, first_id=300), destination=np.array([wrong]))
    with refused("damaged-snapshot", f"node {wrong}", "200"):
        build_patch(root, None, edges(92, 0, 1), new, 200, FAR)


def test_only_touched_rows_are_in_a_patch(tmp_path: Path) -> None:
    old = edges(30, 3_000, 200)
    root = built(old, 200, tmp_path / "root")
    gone = chosen(old, np.flatnonzero(old.destination == 3)[:2])
    patch = build_patch(root, None, gone, edges(31, 1, 1, first_id=3_000), 200, FAR)
    assert patch.nodes.tolist() == [0, 3]


@pytest.mark.parametrize("twice", [False, True])
def test_an_edge_that_is_not_there_cannot_leave(tmp_path: Path, twice: bool) -> None:
    old = edges(40, 3_000, 200)
    root = built(old, 200, tmp_path / "root")
    wrong = chosen(old, np.array([5, 5])) if twice else replace(chosen(old, np.array([5])), time=np.array([10**6]))
    with refused("damaged-snapshot", f"edge {old.edge_id[5]} of node {old.destination[5]}"):
        build_patch(root, None, wrong, chosen(old, np.arange(0)), 200, FAR)


@pytest.mark.parametrize("name", ["nodes", "kept", "indptr", "indices", "edge_id"])
@pytest.mark.parametrize("value", [-1, 2**31 - 1])
def test_a_damaged_patch_is_found_or_stays_within_its_arrays(tmp_path: Path, name: str, value: int) -> None:
    root = built(edges(50, 3_000, 200), 200, tmp_path / "root")
    (tmp_path / "patch").mkdir()
    patch = build_patch(root, None, edges(51, 0, 1), edges(52, 50, 200, first_id=3_000), 200, FAR)
    write_patch(patch, tmp_path / "patch")
    array = np.load(tmp_path / "patch" / f"{name}.npy")
    array[3] = value
    np.save(tmp_path / "patch" / f"{name}.npy", array)
    if name in ("indices", "edge_id"):  # values of edges: whoever follows them looks at them
        assert _merged(root, read_patch(tmp_path / "patch", root), 200).indices.size == 3_050
    else:
        with pytest.raises(CorruptError):
            read_patch(tmp_path / "patch", root)


@pytest.mark.parametrize("position", [0, 90, 200])
def test_a_damaged_root_is_not_patched_or_merged(tmp_path: Path, position: int) -> None:
    root = built(edges(60, 3_000, 200), 200, tmp_path / "root")
    gone, new = edges(61, 0, 1), edges(62, 200, 200, first_id=3_000)
    new = replace(new, destination=np.arange(200))
    patch = build_patch(root, None, gone, new, 200, FAR)
    indptr = root.indptr.copy()
    indptr[position] = 10**9
    with pytest.raises(CorruptError):
        build_patch(replace(root, indptr=indptr), None, gone, new, 200, FAR)
    with pytest.raises(CorruptError):
        _merged(replace(root, indptr=indptr), patch, 200)


def test_rows_of_another_type_or_length_are_refused(tmp_path: Path) -> None:
    built(edges(70, 100, 20), 20, tmp_path / "rows")
    np.save(tmp_path / "rows" / "until.npy", np.zeros(100, np.float64))
    with refused("damaged-snapshot"):
        read_rows(tmp_path / "rows")
