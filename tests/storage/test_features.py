"""Features in every type and form: written, patched, merged, read by id, and read as of a moment."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
from snapdb.loading import Batch
from snapdb.sql_engine import ROW_ID, SqlEngine, SqlSession, quote
from snapdb.storage.array_files import PAGE, new_row_file
from snapdb.storage.arrays.feature_files import write_feature_patch
from snapdb.types import EdgeType, Fanout, FeatureHistory, FeatureSpec
from tests.support.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec
from tests.support.inside.graph import (
    ArrayFeature,
    HistoryFeature,
    _PatchedFeature,
    _SparseFeature,
    open_features,
    open_history,
    open_target,
)
from tests.support.inside.kernels import Csr, empty_csr
from tests.support.inside.loading import rows_of
from tests.support.inside.storage import (
    DTYPES,
    Disk,
    FeatureColumn,
    FeatureGrowth,
    FeatureSource,
    _WidthStep,
    check_features,
    check_history,
    merge_features,
    publishing,
    read_manifest,
    write_features,
    write_history,
    write_target,
)
from tests.support.refusals import hold_wording, refused
from tests.support.streams import open_stream

KNOWS = EdgeType("person", "knows", "person")
CALLED = EdgeType("customer", "called", "customer")
ID = quote(ROW_ID)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SqlSession]:
    sql_engine = SqlEngine(tmp_path)
    with sql_engine.session() as session:
        yield session
    sql_engine.close()


def source_of(session: SqlSession, rows: str, count: int) -> FeatureSource:
    """Rows whose dense id is `id`."""
    described = tuple(session.describe(rows))
    return FeatureSource("person", f"SELECT *, CAST(id AS BIGINT) AS {ID} FROM ({rows})", described, count, ("id",))


def publish(directory: Path, write: Callable[[Path], dict[str, Any] | None]) -> dict[str, Any]:
    """What `write` wrote, published with the facts that it returned."""
    facts: dict[str, Any] = {"kind": "features"}
    with publishing(Disk(), directory, facts) as staging:
        facts |= write(staging) or {}
    return facts


def growth_of(session: SqlSession, rows: str, specs: list[FeatureSpec], target: str | None = None) -> FeatureGrowth:
    """The classes and widths of some rows alone, all of one version."""
    steps = {}
    for spec in specs:
        if spec.sparse and spec.width is None:
            (greatest,) = session.rows(f"SELECT max(list_max({spec.columns[0]})) FROM ({rows})")[0]
            steps[spec.name] = (_WidthStep(1, int(greatest) + 1),)
    kinds = {column.name: column.type for column in session.describe(rows)}
    if target is None or kinds[target] != "VARCHAR":
        return FeatureGrowth(steps=steps)
    found = session.rows(f"SELECT DISTINCT {target} FROM ({rows}) WHERE {target} IS NOT NULL ORDER BY 1")
    return FeatureGrowth(tuple(value for (value,) in found), (1,) * len(found), steps)


def written(
    session: SqlSession,
    rows: str,
    count: int,
    specs: list[FeatureSpec],
    directory: Path,
    target: str | None = None,
    growth: FeatureGrowth | None = None,
) -> dict[str, Any]:
    """The facts of a published base; without `growth` its classes and widths are those of these rows."""
    source = source_of(session, rows, count)
    check_features(session, source, specs)

    def write(staging: Path) -> dict[str, Any]:
        held = growth or growth_of(session, rows, specs, target)
        facts = write_features(session, source, specs, staging, held)
        return facts if target is None else facts | write_target(session, source, target, staging, held)

    return publish(directory, write)


def one(session: SqlSession, rows: str, spec: FeatureSpec, directory: Path, count: int = 3) -> np.ndarray[Any, Any]:
    """All rows of one feature."""
    written(session, rows, count, [spec], directory)
    return open_features(directory, None, [spec.name])[spec.name].read(np.arange(count))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("type_", ["TINYINT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "BOOLEAN"])
def test_a_column_of_any_type_is_kept_and_delivered_in_the_type_that_was_said(
    session: SqlSession, tmp_path: Path, dtype: str, type_: str
) -> None:
    rows = f"SELECT * FROM (VALUES (2, 0::{type_}), (0, 1::{type_})) t(id, a)"
    spec = FeatureSpec("x", ("a",), dtype=dtype)
    found = one(session, rows, spec, tmp_path / "f")
    assert (found.dtype, found.tolist()) == (np.dtype(dtype), [[1], [0], [0]])
    assert rows_of(ArrayFeature(found), np.array([0])).dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", "300"),
        ("int8", "-129::BIGINT"),
        ("uint8", "-1"),
        ("int64", "1.5::DOUBLE"),
        ("int64", "1e19::DOUBLE"),
        ("int32", "'inf'::DOUBLE"),
        ("int16", "0.5::DECIMAL(3,1)"),
        ("float16", "1e6::DOUBLE"),
        ("float16", "65520"),
        ("float32", "1e300::DOUBLE"),
        ("bool", "2"),
    ],
)
@pytest.mark.parametrize("shape", ["scalar", "list"])
def test_a_value_that_does_not_fit_is_told_with_its_ids(
    session: SqlSession, dtype: str, value: str, shape: str
) -> None:
    said = value if shape == "scalar" else f"[0, {value}, 1]"
    good = "0" if shape == "scalar" else "[0, 0, 1]"
    rows = f"SELECT range AS id, CASE WHEN range < 4 THEN {said} ELSE {good} END AS a FROM range(9)"
    with refused("bad-feature", "4 rows of person", '"a"', dtype, "(ids 0, 1, 2)", "TYPE"):
        check_features(session, source_of(session, rows, 9), [FeatureSpec("x", ("a",), dtype=dtype)])


def test_what_just_fits_is_kept_exactly(session: SqlSession, tmp_path: Path) -> None:
    most = one(
        session, "SELECT 0 AS id, 9223372036854775807 AS a", FeatureSpec("x", ("a",), dtype="int64"), tmp_path / "a"
    )
    assert most[0, 0] == 2**63 - 1
    half = one(session, "SELECT 0 AS id, 65519.99 AS a", FeatureSpec("x", ("a",), dtype="float16"), tmp_path / "b")
    assert half[0, 0] == np.float16(65504)
    rounded = np.float16(1.00048828125000000001)
    once = one(session, "SELECT 0 AS id, 1.00048828125 AS a", FeatureSpec("x", ("a",), dtype="float16"), tmp_path / "c")
    assert once[0, 0] == rounded


def test_nan_is_missing_in_every_type(session: SqlSession, tmp_path: Path) -> None:
    rows = "SELECT * FROM (VALUES (0, 'nan'::DOUBLE), (1, 2), (2, NULL)) t(id, a)"
    for dtype in ("float32", "int64"):
        spec = FeatureSpec("x", ("a",), dtype=dtype)
        with refused("bad-feature"):
            check_features(session, source_of(session, rows, 3), [spec])
        filled = FeatureSpec("x", ("a",), default=7, dtype=dtype)
        assert one(session, rows, filled, tmp_path / dtype).ravel().tolist() == [7, 2, 7]


def test_lists_arrays_and_numbers_lie_side_by_side_and_default_fills_rows_and_holes(
    session: SqlSession, tmp_path: Path
) -> None:
    rows = """SELECT * FROM (VALUES (3, [1.5, NULL], array_value(1, 2, 3)::INTEGER[3], 9),
                                    (1, NULL, array_value(4, 5, 6)::INTEGER[3], NULL)) t(id, a, b, c)"""
    spec = FeatureSpec("x", ("a", "b", "c"), default=-1, dtype="float64")
    expected = [[-1] * 6, [-1, -1, 4, 5, 6, -1], [-1] * 6, [1.5, -1, 1, 2, 3, 9]]
    assert one(session, rows, spec, tmp_path / "f", 4).tolist() == expected
    whole = "SELECT * FROM (VALUES (0, [1::DOUBLE, NULL]), (2, ['nan'::DOUBLE, 4])) t(id, a)"
    lists = one(session, whole, FeatureSpec("x", ("a",), default=3, dtype="uint8"), tmp_path / "g")
    assert (lists.dtype, lists.tolist()) == (np.dtype("uint8"), [[1, 3], [3, 3], [3, 4]])


def test_a_feature_of_no_rows_has_the_width_of_its_type(session: SqlSession, tmp_path: Path) -> None:
    rows = "SELECT 0 AS id, array_value(1, 2)::FLOAT[2] AS a, [1] AS b, 1 AS c WHERE false"
    specs = [FeatureSpec(name, (name,)) for name in "abc"]
    facts = written(session, rows, 0, specs, tmp_path / "f")
    assert facts["widths"] == {"a": 2, "b": 0, "c": 1}
    assert {name: f.shape for name, f in open_features(tmp_path / "f", None, ["a", "b"]).items()} == {
        "a": (0, 2),
        "b": (0, 0),
    }


SPARSE = FeatureSpec("x", ("idx", "val"), sparse=True)
SPARSE_ROWS = "SELECT * FROM (VALUES (2, [5, 0], [1.5, 2]), (0, [3], [1]), (3, [], [])) t(id, idx, val)"


def test_sparse_rows_come_as_a_csr_tensor_with_ascending_indices(session: SqlSession, tmp_path: Path) -> None:
    facts = written(session, SPARSE_ROWS, 5, [SPARSE], tmp_path / "f")
    feature = open_features(tmp_path / "f", None, ["x"])["x"]
    tensor = rows_of(feature, np.array([2, 1, 2, 0]))
    assert (facts["widths"], feature.shape, tensor.layout, tensor.shape) == ({"x": 6}, (5, 6), torch.sparse_csr, (4, 6))
    assert tensor.col_indices().tolist() == [0, 5, 0, 5, 3]
    assert (tensor.dtype, tensor.to_dense().tolist()) == (torch.float32, feature.read(np.array([2, 1, 2, 0])).tolist())
    assert tensor.to_dense()[0].tolist() == [2, 0, 0, 0, 0, 1.5]
    torch.sparse_csr_tensor(
        *(getattr(tensor, part)() for part in ("crow_indices", "col_indices", "values")),
        size=(4, 6),
        check_invariants=True,
    )


def test_the_width_that_was_said_is_that_of_every_batch(session: SqlSession, tmp_path: Path) -> None:
    spec = FeatureSpec("x", ("idx", "val"), sparse=True, width=100, dtype="float16")
    written(session, SPARSE_ROWS, 5, [spec], tmp_path / "f")
    tensor = rows_of(open_features(tmp_path / "f", None, ["x"])["x"], np.array([0]))
    assert (tensor.shape, tensor.dtype) == ((1, 100), torch.float16)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_indices_without_values_mean_ones(session: SqlSession, tmp_path: Path, dtype: str) -> None:
    spec = FeatureSpec("x", ("idx",), sparse=True, dtype=dtype)
    written(session, "SELECT * FROM (VALUES (2, [5, 0]), (0, [3]), (3, [])) t(id, idx)", 5, [spec], tmp_path / "f")
    tensor = rows_of(open_features(tmp_path / "f", None, ["x"])["x"], np.array([2, 1, 3, 0]))
    assert tensor.dtype == getattr(torch, dtype)
    assert (tensor.col_indices().tolist(), tensor.values().tolist()) == ([0, 5, 3], [1, 1, 1])


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("NULL", ("1 row of person", '"idx"', "coalesce(idx, [])")),
        ("[1, NULL]", ("NULL or NaN", '"idx"')),
        ("[-1]", ("0 or more",)),
        ("[3, 3]", ("duplicate", '"idx"')),
    ],
)
def test_indices_that_are_none_are_refused(session: SqlSession, row: str, named: tuple[str, ...]) -> None:
    source = source_of(session, f"SELECT id, idx FROM (VALUES (0, {row}), (1, [0])) t(id, idx)", 2)
    with refused("bad-feature", *named):
        check_features(session, source, [FeatureSpec("x", ("idx",), sparse=True)])


@pytest.mark.parametrize(
    ("row", "width", "named"),
    [
        ("(0, [1], NULL)", None, ("1 row of person", "coalesce(idx, [])")),
        ("(0, [1, 2], [1])", None, ("lengths",)),
        ("(0, [1, NULL], [1, 2])", None, ("NULL or NaN",)),
        ("(0, [1], ['nan'::DOUBLE])", None, ("NULL or NaN",)),
        ("(0, [-1], [1])", None, ("0 or more",)),
        ("(0, [7], [1])", 7, ("less than 7",)),
        ("(0, [3, 3], [1, 2])", 7, ("duplicate", '"idx"')),
        ("(0, [3], [1e300])", 7, ('"val"', "DOUBLE", "float32")),
    ],
)
def test_sparse_rows_that_are_none_are_refused(
    session: SqlSession, row: str, width: int | None, named: tuple[str, ...]
) -> None:
    rows = f"SELECT id, idx, val::DOUBLE[] AS val FROM (VALUES {row}, (1, [0], [1])) t(id, idx, val)"
    spec = FeatureSpec("x", ("idx", "val"), sparse=True, width=width)
    with refused("bad-feature", *named):
        check_features(session, source_of(session, rows, 2), [spec])


PATCHED = [
    FeatureSpec("x", ("a", "emb"), default=-1),
    FeatureSpec("h", ("a",), default=2, dtype="float16"),
    FeatureSpec("n", ("n",), dtype="int64"),
    FeatureSpec("s", ("idx", "val"), sparse=True, width=50),
]


def people(ids: list[int], salt: int) -> str:
    """Rows of a few people, whose values depend on their id and the salt."""
    value = f"(hash(id * 1000 + {salt}) % 50)::INTEGER"
    listed = ", ".join(f"({id_})" for id_ in ids) or "(0)"
    return f"""
        SELECT id, CASE WHEN n > 5 THEN n END AS a, [n / 2, id]::FLOAT[] AS emb, n, idx,
               list_transform(idx, lambda v: v + 0.5)::FLOAT[] AS val,
               CASE WHEN id % 5 > 0 THEN 'class ' || id % 3 END AS team, n::FLOAT AS y
        FROM (SELECT id, {value} AS n, list_distinct([id % 50, {value}]) AS idx FROM (VALUES {listed}) t(id))
        WHERE {len(ids)} > 0"""


def differing(seed: int) -> tuple[str, str, str, int, int]:
    """Rows before, rows after, the changed ones, and how many ids there were and are."""
    rng = np.random.default_rng(seed)
    old, count = 150, 150 + int(rng.integers(0, 80))
    before = rng.permutation(old)[:120]
    gone, updated = before[:10], before[10:40]
    new = rng.permutation(np.arange(old, count))[: (count - old) * 2 // 3]
    changed = people(sorted([*updated.tolist(), *new.tolist()]), 2)
    kept = people(sorted(set(before.tolist()) - set(gone.tolist()) - set(updated.tolist())), 1)
    return people(before.tolist(), 1), f"{kept} UNION ALL {changed}", changed, old, count


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", ["team", "y", "n"])
def test_a_base_with_a_patch_reads_as_if_all_was_written_anew(
    session: SqlSession, tmp_path: Path, seed: int, target: str
) -> None:
    before, after, changed, old, count = differing(seed)
    facts = written(session, before, old, PATCHED, tmp_path / "base", target)
    patch = source_of(session, changed, count)
    check_features(session, patch, PATCHED)
    publish(
        tmp_path / "patch",
        lambda d: write_feature_patch(
            session, patch, PATCHED, target, tmp_path / "base", facts, d, FeatureGrowth.of(facts)
        ),
    )
    written(session, after, count, PATCHED, tmp_path / "anew", target)
    publish(tmp_path / "merged", lambda d: merge_features(tmp_path / "base", tmp_path / "patch", d))

    alive = np.array(session.rows(f"SELECT id FROM ({after})"), np.int64).ravel()
    ids = np.random.default_rng(seed).choice(alive, 500)
    names = [spec.name for spec in PATCHED]
    patched = open_features(tmp_path / "base", tmp_path / "patch", names) | {
        "y": open_target(tmp_path / "base", tmp_path / "patch")
    }
    for other in ("anew", "merged"):
        expected = open_features(tmp_path / other, None, names) | {"y": open_target(tmp_path / other, None)}
        for name, feature in expected.items():
            assert (patched[name].shape, patched[name].dtype) == (feature.shape, feature.dtype)
            np.testing.assert_array_equal(patched[name].read(ids), feature.read(ids))
    assert isinstance(patched["x"], _PatchedFeature)
    assert isinstance(patched["s"], _SparseFeature)


def test_ids_that_neither_base_nor_patch_has_read_as_default_and_no_target(session: SqlSession, tmp_path: Path) -> None:
    specs = [FeatureSpec("x", ("a",), default=7), FeatureSpec("z", ("a",)), FeatureSpec("s", ("i", "v"), sparse=True)]
    rows = "SELECT 0 AS id, 1 AS a, [3] AS i, [1] AS v, 'red' AS y"
    facts = written(session, rows, 1, specs, tmp_path / "base", "y")
    late = source_of(session, "SELECT 4 AS id, 2 AS a, [0] AS i, [9] AS v, 'red' AS y", 5)
    publish(
        tmp_path / "patch",
        lambda d: write_feature_patch(session, late, specs, "y", tmp_path / "base", facts, d, FeatureGrowth.of(facts)),
    )
    found = open_features(tmp_path / "base", tmp_path / "patch", ["x", "z", "s"])
    ids = np.arange(5)
    assert found["x"].read(ids).ravel().tolist() == [1, 7, 7, 7, 2]
    assert found["z"].read(ids).ravel().tolist() == [1, 0, 0, 0, 2]
    assert found["s"].read(ids).sum(axis=1).tolist() == [1, 0, 0, 0, 9]
    assert open_target(tmp_path / "base", tmp_path / "patch").read(ids).tolist() == [0, -1, -1, -1, 0]
    for feature in found.values():
        for bad in (5, -1):
            with pytest.raises(IndexError, match=f"row {bad} does not exist: there are 5 rows"):
                feature.read(np.array([0, bad]))


def test_a_patch_of_no_rows_changes_nothing(session: SqlSession, tmp_path: Path) -> None:
    before, *_, old, _ = differing(0)
    facts = written(session, before, old, PATCHED, tmp_path / "base", "team")
    nothing = source_of(session, people([], 1), old + 1)
    publish(
        tmp_path / "patch",
        lambda d: write_feature_patch(
            session, nothing, PATCHED, "team", tmp_path / "base", facts, d, FeatureGrowth.of(facts)
        ),
    )
    names = [spec.name for spec in PATCHED]
    plain, patched = (open_features(tmp_path / "base", p, names) for p in (None, tmp_path / "patch"))
    for name in names:
        np.testing.assert_array_equal(plain[name].read(np.arange(old)), patched[name].read(np.arange(old)))


@pytest.mark.parametrize(
    ("column", "spec"), [("[1, 2, 3] AS a", FeatureSpec("x", ("a",))), ("[1] AS a", FeatureSpec("x", ("a",)))]
)
def test_a_patch_that_does_not_fit_its_base_is_refused(
    session: SqlSession, tmp_path: Path, column: str, spec: FeatureSpec
) -> None:
    base = "SELECT 0 AS id, [1, 2] AS a, [5, 1] AS idx, [1, 1] AS val"
    facts = written(session, base, 1, [spec], tmp_path / "base")
    (tmp_path / "patch").mkdir()
    late = source_of(session, f"SELECT 1 AS id, {column}", 2)
    assert write_feature_patch(session, late, [spec], None, tmp_path / "base", facts, tmp_path / "patch") is None


def test_a_patch_gives_new_classes_the_next_codes_and_may_have_wider_sparse_rows(
    session: SqlSession, tmp_path: Path
) -> None:
    base = "SELECT *, [2, 0] AS idx, [1, 1] AS val FROM (VALUES (0, 'red'), (1, 'blue'), (2, 'green')) t(id, y)"
    facts = written(session, base, 3, [SPARSE], tmp_path / "base", "y")
    assert facts["target"]["classes"] == ["blue", "green", "red"]
    late = source_of(
        session, "SELECT * FROM (VALUES (1, 'red', [0], [7]), (3, 'azure', [8], [9])) t(id, y, idx, val)", 4
    )
    grown = FeatureGrowth(
        ("blue", "green", "red", "azure"), (1, 1, 1, 2), {SPARSE.name: (_WidthStep(1, 3), _WidthStep(2, 9))}
    )
    publish(
        tmp_path / "patch",
        lambda d: write_feature_patch(session, late, [SPARSE], "y", tmp_path / "base", facts, d, grown),
    )
    publish(tmp_path / "merged", lambda d: merge_features(tmp_path / "base", tmp_path / "patch", d))
    for place in ((tmp_path / "base", tmp_path / "patch"), (tmp_path / "merged", None)):
        assert open_target(*place).read(np.arange(4)).tolist() == [2, 2, 1, 3]
        bag = open_features(*place, [SPARSE.name])[SPARSE.name].read(np.arange(4))
        assert (bag.shape, bag[3].nonzero()[0].tolist()) == ((4, 9), [8])
    assert FeatureGrowth.of(read_manifest(tmp_path / "merged")) == grown


@pytest.mark.parametrize(
    "growth",
    [
        FeatureGrowth(("blue", "green"), (1, 1), {"s": (_WidthStep(1, 3),)}),
        FeatureGrowth(("blue", "green", "red"), (1, 1, 1), {"s": ()}),
    ],
    ids=["classes", "widths"],
)
def test_a_base_of_a_later_version_is_no_base_of_an_earlier_one(
    session: SqlSession, tmp_path: Path, growth: FeatureGrowth
) -> None:
    base = "SELECT *, [2, 0] AS idx, [1, 1] AS val FROM (VALUES (0, 'red'), (1, 'blue'), (2, 'green')) t(id, y)"
    spec = FeatureSpec("s", ("idx", "val"), sparse=True)
    facts = written(session, base, 3, [spec], tmp_path / "base", "y")
    (tmp_path / "patch").mkdir()
    early = source_of(session, "SELECT 1 AS id, 'blue' AS y, []::INTEGER[] AS idx, []::INTEGER[] AS val", 3)
    assert (
        write_feature_patch(session, early, [spec], "y", tmp_path / "base", facts, tmp_path / "patch", growth) is None
    )


def test_growth_at_an_earlier_version_is_what_it_was_then() -> None:
    growth = FeatureGrowth(("b", "c", "a"), (2, 2, 5), {"s": (_WidthStep(2, 4), _WidthStep(7, 9))})
    assert [growth.until(version).classes for version in (1, 2, 4, 5, 9)] == [
        (),
        ("b", "c"),
        ("b", "c"),
        *2 * [("b", "c", "a")],
    ]
    assert [growth.until(version).widths["s"] for version in (1, 2, 6, 7)] == [0, 4, 4, 9]
    assert [growth.continues(growth.until(version)) for version in (1, 5)] == [True, True]
    assert not growth.until(2).continues(growth)


def rewrite(path: Path, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
    """Change the array in a file, keeping the file's size."""
    size = path.stat().st_size
    changed = change(np.load(path))
    if np.load(path, mmap_mode="r").offset == PAGE:
        new_row_file(path, changed.dtype, changed.shape)[...] = changed
    else:
        np.save(path, changed)
    assert path.stat().st_size == size


DAMAGE: dict[str, tuple[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]] = {
    "ids beyond the count": ("patch/ids.npy", lambda ids: ids + 10_000),
    "ids below zero": ("patch/ids.npy", lambda ids: ids - 10_000),
    "ids that do not ascend": ("patch/ids.npy", lambda ids: ids[::-1].copy()),
    "rows of another type": ("patch/feature-x.npy", lambda rows: rows.view(np.int32)),
    "rows of another shape": ("patch/feature-x.npy", lambda rows: rows.T.copy()),
    "a row that starts nowhere": ("base/feature-s-indptr.npy", lambda indptr: indptr + 2**40),
    "rows that run backwards": ("patch/feature-s-indptr.npy", lambda indptr: indptr[::-1].copy()),
    "indices out of range": ("base/feature-s-indices.npy", lambda indices: indices + 50),
    "indices below zero": ("patch/feature-s-indices.npy", lambda indices: indices - 50),
    "a base that is no matrix": ("base/feature-x.npy", lambda rows: rows.reshape(-1)),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_told_and_never_followed(session: SqlSession, tmp_path: Path, case: str) -> None:
    before, _, changed, old, count = differing(1)
    facts = written(session, before, old, PATCHED, tmp_path / "base")
    patch = source_of(session, changed, count)
    publish(
        tmp_path / "patch",
        lambda d: write_feature_patch(
            session, patch, PATCHED, None, tmp_path / "base", facts, d, FeatureGrowth.of(facts)
        ),
    )
    path, change = DAMAGE[case]
    rewrite(tmp_path / path, change)

    def read() -> None:
        for feature in open_features(tmp_path / "base", tmp_path / "patch", [s.name for s in PATCHED]).values():
            feature.read(np.arange(count))

    with pytest.raises(snapdb.CorruptError) as caught:
        read()
    hold_wording(caught.value)


PRICE = FeatureSpec("x", ("price", "stock"), history=FeatureHistory("prices", ("id",), "ts"))


def history(session: SqlSession, rows: str, count: int, directory: Path, spec: FeatureSpec = PRICE) -> dict[str, Any]:
    """The facts of a published history of rows (id, ts, price, stock, n), the last being the row id."""
    keys = f'id::BIGINT AS {ID}, ts::BIGINT AS "snapdb time", n::BIGINT AS "snapdb order"'
    named = f"SELECT id, price, stock, {keys} FROM ({rows})"
    source = FeatureSource("prices", named, tuple(session.describe(rows)), count, ("id",))
    return publish(directory, lambda d: write_history(session, source, spec, d))


def prices(changes: list[tuple[int, int, float]]) -> str:
    listed = ", ".join(f"({id_}, {ts}, {price}, {n})" for n, (id_, ts, price) in enumerate(changes))
    return f"SELECT id, ts, price, 1 AS stock, n FROM (VALUES {listed}) t(id, ts, price, n)"


def test_a_history_is_read_as_of_the_end_of_the_window_and_before_each_seed(
    session: SqlSession, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    changes = [(int(i), int(t), float(k)) for k, (i, t) in enumerate(rng.integers(0, (20, 50), (400, 2)))]
    changes = [change for change in changes if change[0] != 7]
    history(session, prices(changes), 20, tmp_path / "h")

    def last(id_: int, bound: int) -> float:
        known = [(ts, n, price) for n, (i, ts, price) in enumerate(changes) if i == id_ and ts < bound]
        return max(known)[2] if known else -1

    ids = rng.integers(0, 20, 500)
    for stop in (1, 25, 60, None):
        feature = open_history(tmp_path / "h", "x", stop, -1)
        end = 10**9 if stop is None else stop
        assert feature.read(ids)[:, 0].tolist() == [last(i, end) for i in ids]
        times = rng.integers(0, 60, ids.size)
        expected = [last(i, min(t, end)) for i, t in zip(ids, times, strict=True)]
        assert feature.read_before(ids, times)[:, 0].tolist() == expected


def test_planted_future_rows_are_never_read(session: SqlSession, tmp_path: Path) -> None:
    past = [(0, 1, 1.0), (0, 9, 2.0), (1, 5, 3.0)]
    planted = [(0, 10, 666.0), (0, 11, 666.0), (1, 10, 666.0), (1, 999, 666.0), (0, 10, 666.0)]
    history(session, prices(past), 2, tmp_path / "clean")
    history(session, prices([*planted, *past]), 2, tmp_path / "planted")
    clean, leaky = (open_history(tmp_path / name, "x", 10, None) for name in ("clean", "planted"))
    ids, before = np.array([0, 1, 0, 1]), np.array([9, 6, 10, 1000])
    assert clean.read(ids).tolist() == leaky.read(ids).tolist() == [[2, 1], [3, 1], [2, 1], [3, 1]]
    assert (
        clean.read_before(ids, before).tolist()
        == leaky.read_before(ids, before).tolist()
        == [[1, 1], [3, 1], [2, 1], [3, 1]]
    )


def test_of_one_time_the_row_that_came_last_counts(session: SqlSession, tmp_path: Path) -> None:
    history(session, prices([(0, 5, 1.0), (0, 5, 3.0), (0, 5, 2.0)]), 1, tmp_path / "h")
    assert open_history(tmp_path / "h", "x", None, None).read(np.array([0]))[0, 0] == 2


def test_without_a_value_yet_a_default_stands_and_without_default_it_is_an_error(
    session: SqlSession, tmp_path: Path
) -> None:
    rows = prices([(0, 5, 1.0), (2, 50, 2.0)])
    history(session, rows, 6, tmp_path / "h")
    feature = open_history(tmp_path / "h", "x", 10, 0.5, "product")
    assert feature.read(np.array([1, 0, 2]))[:, 0].tolist() == [0.5, 1, 0.5]
    bare = open_history(tmp_path / "h", "x", 10, None, "product")
    with refused("missing-feature", "DEFAULT"):
        bare.read(np.array([2, 1, 0, 1]))
    alive = np.array([True, False, False, False, False, False])
    check_history(tmp_path / "h", alive, 10, "product", "x")
    with refused("missing-feature"):
        check_history(tmp_path / "h", alive, 5, "product", "x")
    with refused("missing-feature"):
        check_history(tmp_path / "h", None, 10, "product", "x", lambda ids: [f"P{i}" for i in ids])


def test_a_history_without_rows_is_all_default(session: SqlSession, tmp_path: Path) -> None:
    rows = f"SELECT * FROM ({prices([(0, 1, 1.0)])}) WHERE false"
    history(session, rows, 3, tmp_path / "h")
    feature = open_history(tmp_path / "h", "x", 10, 4)
    assert (feature.shape, feature.read(np.array([2, 0])).tolist()) == ((3, 2), [[4, 4], [4, 4]])


def test_rows_of_a_history_without_time_or_value_are_refused(session: SqlSession, tmp_path: Path) -> None:
    timeless = "SELECT 4 AS id, NULL AS ts, 1.0 AS price, 1 AS stock, 0 AS n"
    with refused("bad-feature"):
        history(session, timeless, 5, tmp_path / "a")
    worthless = "SELECT 4 AS id, 1 AS ts, NULL::DOUBLE AS price, 1 AS stock, 0 AS n"
    with refused("bad-feature", '"price"'):
        history(session, worthless, 5, tmp_path / "b")


def test_a_damaged_history_is_told_and_never_followed(session: SqlSession, tmp_path: Path) -> None:
    history(session, prices([(0, 5, 1.0), (1, 6, 2.0), (1, 7, 3.0)]), 2, tmp_path / "h")
    rewrite(tmp_path / "h" / "indptr.npy", lambda indptr: indptr + 5)
    with refused("corrupt"):
        open_history(tmp_path / "h", "x", None, None).read(np.array([0, 1]))
    rewrite(tmp_path / "h" / "time.npy", lambda time: time.astype(np.float64))
    with refused("damaged-snapshot"):
        open_history(tmp_path / "h", "x", None, None)


def test_history_features_keep_their_type(session: SqlSession, tmp_path: Path) -> None:
    spec = FeatureSpec("x", ("price", "stock"), default=3, dtype="int16", history=PRICE.history)
    history(session, prices([(0, 5, 7.0)]), 2, tmp_path / "h", spec)
    feature: HistoryFeature = open_history(tmp_path / "h", "x", None, 3)
    found = feature.read(np.array([0, 1]))
    assert (found.dtype, found.tolist()) == (np.dtype("int16"), [[7, 1], [3, 3]])


BAGS = Csr(np.array([0, 2, 2, 3]), np.array([1, 4, 0], np.int32), np.array([1.5, 2, 3], np.float32))


def bag_batch() -> Batch:
    """Three vertices in a chain, with sparse x."""
    graph = MemoryGraph({"person": 3}, {KNOWS: EdgeList.of([(0, 1), (1, 2)])})
    x = _SparseFeature(BAGS, empty_csr(BAGS), None, 5)
    view = replace(graph.view(), node_features={"person": {"x": x}})
    spec = sample_spec("person", Fanout(KNOWS, "IN", (2,)), batch_size=3, order="IN ORDER")
    with open_stream(view, all_seeds(graph, "person"), spec, threads=0) as stream:
        return stream[0]


def test_a_batch_carries_sparse_features_to_a_model_pyg_arrow_and_other_processes() -> None:
    batch = bag_batch()
    dense = [[0, 1.5, 0, 0, 2], [0] * 5, [3, 0, 0, 0, 0]]
    expected = torch.tensor([dense[i] for i in batch.n_id["person"].tolist()])
    for other in (batch, batch.to("cpu"), pickle.loads(pickle.dumps(batch))):
        x = other.x["person"]
        assert x.layout == torch.sparse_csr
        assert torch.equal(x.to_dense(), expected)
    assert torch.nn.Linear(5, 2)(batch.x["person"]).shape == (3, 2)
    data = batch.to_pyg()
    assert (data.num_nodes, data.x.layout) == (3, torch.sparse_csr)
    rows = batch.to_arrow()["person"]["x"].to_pylist()
    found = [[dict(zip(r["indices"], r["values"], strict=True)).get(j, 0) for j in range(5)] for r in rows]
    assert found == expected.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_sparse_features_go_to_the_device_from_pinned_memory() -> None:
    batch = bag_batch()
    x = batch.pin_memory().to("cuda", non_blocking=True).x["person"]
    assert (x.device.type, x.layout) == ("cuda", torch.sparse_csr)
    assert torch.equal(x.to_dense().cpu(), batch.x["person"].to_dense())


PHONE = """
CREATE TABLE customer AS
  SELECT range AS cid, range % 3 AS grade, [range, 1] AS profile, 'team ' || range % 2 AS team,
         [range % 4, 4 + range % 3]::INTEGER[] AS words, [1, 0.5]::FLOAT[] AS counts
  FROM range(40);
CREATE TABLE called AS
  SELECT range % 40 AS a, (range * 7 + 1) % 40 AS b, range AS ts, range / 2 AS minutes FROM range(300);
CREATE TABLE plan AS SELECT range % 40 AS cid, range AS price, range AS since FROM range(200);
CREATE PROPERTY GRAPH phone
  VERTEX TABLES (customer KEY (cid) TARGET (team) FEATURES (
    profile TYPE float16, grade AS grade TYPE int8, (words, counts) AS bag SPARSE [7],
    price AS price FROM plan KEY (cid) EVENT TIME (since) DEFAULT -1 TYPE int32))
  EDGE TABLES (called SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer
               EVENT TIME (ts) FEATURES (minutes TYPE float64));
"""


def everything(db: Any, snapshot: str) -> Batch:
    """Every customer with all edges, as one batch."""
    seeds = f"SELECT cid FROM {snapshot}.customer"
    text = f"SAMPLE FROM {snapshot} SEEDS ({seeds}) AS customer FANOUT (called IN => [FULL]) BATCH 1000"
    batch: Batch = db.stream(text)[0]
    return batch


def test_a_graph_names_types_sparse_rows_and_histories(db: Any) -> None:
    db.script(PHONE + "CREATE SNAPSHOT s OF phone FOR EVENT_TIME FROM 0 TO 100;")
    batch = everything(db, "s")
    found = batch.features["customer"]
    assert {name: (values.dtype, tuple(values.shape)) for name, values in found.items()} == {
        "x": (torch.float16, (40, 2)),
        "grade": (torch.int8, (40, 1)),
        "bag": (torch.float32, (40, 7)),
        "price": (torch.int32, (40, 1)),
    }
    ids = batch.ids("customer").to_pylist()
    assert found["x"][:, 0].tolist() == ids
    assert found["price"].ravel().tolist() == [max(p for p in range(100) if p % 40 == i) for i in ids]
    assert found["bag"].to_dense()[3].tolist() == [
        1.0 if j == ids[3] % 4 else 0.5 if j == 4 + ids[3] % 3 else 0 for j in range(7)
    ]
    assert batch.edge_attr[CALLED].dtype == torch.float64


def test_what_is_planted_after_the_window_changes_no_batch(db: Any) -> None:
    db.script(PHONE + "CREATE SNAPSHOT before OF phone FOR EVENT_TIME AS OF 99;")
    db.script("INSERT INTO plan SELECT range, 666, 100 FROM range(40); INSERT INTO plan VALUES (3, 777, 1000000);")
    db.execute("CREATE SNAPSHOT after OF phone FOR EVENT_TIME AS OF 99")
    db.execute("CREATE SNAPSHOT later OF phone FOR EVENT_TIME AS OF 100")
    prices = [everything(db, name).features["customer"]["price"] for name in ("before", "after", "later")]
    assert torch.equal(prices[0], prices[1])
    assert prices[2].unique().tolist() == [666]


def test_a_vertex_without_a_value_by_the_end_of_the_window_needs_a_default(db: Any) -> None:
    db.script(PHONE.replace("DEFAULT -1", ""))
    with refused("missing-feature", "DEFAULT"):
        db.execute("CREATE SNAPSHOT s OF phone FOR EVENT_TIME AS OF 4")
    db.execute("CREATE SNAPSHOT s OF phone FOR EVENT_TIME AS OF 39")


def test_a_refresh_writes_the_rows_that_changed_and_reads_as_if_all_were_new(db: Any) -> None:
    db.script(PHONE + "CREATE SNAPSHOT s OF phone;")
    db.script("""
        UPDATE customer SET grade = 9, words = [6], counts = [4], team = 'team 0' WHERE cid IN (3, 5);
        DELETE FROM called WHERE a = 7 OR b = 7;
        DELETE FROM customer WHERE cid = 7;
        INSERT INTO customer SELECT 40 + range, 1, [range, 2], 'team 1', [], [] FROM range(5);
        INSERT INTO called SELECT 40, 41, 1000, 5;
        REFRESH SNAPSHOT s;
    """)
    patches = sorted(np.load(path).size for path in Path(db.path).glob("features/*/*/ids.npy"))
    assert patches == [1, 7]
    refreshed = everything(db, "s")
    refreshed.edge_attr[CALLED]
    db.execute("REFRESH SNAPSHOT s FULL")
    anew = everything(db, "s")
    assert refreshed.ids("customer") == anew.ids("customer")
    assert refreshed.y is not None
    assert anew.y is not None
    assert torch.equal(refreshed.y, anew.y)
    for name, values in anew.features["customer"].items():
        other = refreshed.features["customer"][name]
        assert torch.equal(other.to_dense(), values.to_dense()) if name == "bag" else torch.equal(other, values)
    assert torch.equal(refreshed.edge_attr[CALLED], anew.edge_attr[CALLED])


def test_only_conditions_that_can_fail_are_asked() -> None:
    assert FeatureColumn("a", "a", "FLOAT[8]", "float32").misfit is None
    assert FeatureColumn("a", "a", "INTEGER", "float32").misfit is None
    assert FeatureColumn("a", "a", "INTEGER", "int8").misfit is not None


BAG = """
CREATE TABLE n AS SELECT range AS id, CASE WHEN range % 5 = 0 THEN [] ELSE [range % 7, 7 + range % 3] END AS words,
  CASE WHEN range % 5 = 0 THEN [] ELSE [1.0, 1.0] END AS ones FROM range(300);
CREATE TABLE e AS SELECT range AS a, range * 7 % 300 AS b FROM range(300);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (n KEY (id) FEATURES (words AS bare SPARSE [12], (words, ones) AS said SPARSE [12]))
  EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n);
CREATE SNAPSHOT s OF g;
"""
BAGGED = "SAMPLE FROM s SEEDS (SELECT id FROM n) AS n FANOUT (e => [FULL]) BATCH 1000"


def test_bare_indices_are_those_with_ones_through_refreshes_and_exports(db: Any, tmp_path: Path) -> None:
    """As SQL gives them, patched, merged and built anew, in batches and in files."""
    db.script(BAG)
    for change in (
        "SELECT 1",
        "INSERT INTO n SELECT range, [11], [1.0] FROM range(300, 303)",
        "UPDATE n SET words = [8], ones = [1.0] WHERE id < 4",
        "DELETE FROM n WHERE id = 302",
        "INSERT INTO n SELECT range, [0, 11], [1.0, 1.0] FROM range(400, 600)",
    ):
        db.execute(change)
        for statement in ("REFRESH SNAPSHOT s", "REFRESH SNAPSHOT s FULL"):
            db.execute(statement)
            batch = db.stream(BAGGED)[0]
            features = batch.features["n"]
            assert torch.equal(features["bare"].to_dense(), features["said"].to_dense())
            words = dict(db.execute("SELECT id, words FROM n").fetchall())
            for key, row in zip(batch.ids("n").to_pylist(), features["bare"].to_dense(), strict=True):
                assert row.nonzero().ravel().tolist() == sorted(words[key])
    db.execute(f"COPY SNAPSHOT s TO '{tmp_path / 'whole'}' (FORMAT npz)")
    files = [np.load(path) for path in (tmp_path / "whole").rglob("*.npz")]
    arrays = {name: file[name] for file in files for name in file.files}
    bare = {name.replace("bare", "*"): values for name, values in arrays.items() if "bare" in name}
    said = {name.replace("said", "*"): values for name, values in arrays.items() if "said" in name}
    assert set(bare) == set(said) != set()
    for name, values in bare.items():
        np.testing.assert_array_equal(values, said[name])
    db.execute(f"COPY ({BAGGED}) TO '{tmp_path / 'batches'}' (FORMAT npz)")
    (packed,) = [np.load(path) for path in (tmp_path / "batches").rglob("*.npz")]
    names = [name for name in packed.files if "bare" in name]
    assert names
    for name in names:
        np.testing.assert_array_equal(packed[name], packed[name.replace("bare", "said")])
    assert "bare = words sparse [12]" in str(db.execute("DESCRIBE GRAPH g").fetchall())
