"""Edge lists in files, and folders of OGB and TGB."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from snapdb.errors import InputError
from snapdb.interchange import frames
from snapdb.interchange.networks import read_matrix
from snapdb.interchange.tables import (
    DESTINATION,
    EDGE_FEATURES,
    FEATURES,
    KEY,
    SOURCE,
    EdgeTable,
    GraphTables,
    VertexTable,
    column_of,
    numbered,
)
from snapdb.interchange.tgb import read_temporal, temporal_files
from snapdb.on_first_use import module_on_first_use
from snapdb.sql_engine import text_literal

scipy_io, scipy_sparse = module_on_first_use("scipy.io"), module_on_first_use("scipy.sparse")

Read = Callable[[str], pa.Table]
"""Runs a SELECT and returns its rows."""
_TEXT = (".csv", ".tsv", ".txt", ".edges", ".gz")
_SPLITS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
"""OGB's files of a split → the masks that PyG calls them."""


def read_file(read: Read, path: Path, columns: frames.EdgeColumns) -> GraphTables:
    """Return the tables of a file or folder, by its name and contents.

    Raises:
        InputError: The file does not exist, or its format is unknown.
    """
    if path.is_dir():
        return _read_folder(read, path)
    if not path.is_file():
        raise InputError(f"{path} does not exist", code="not-a-graph")
    if path.suffix == ".mtx" or path.name.endswith(".mtx.gz"):
        return _read_scipy(lambda: scipy_io.mmread(path))
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix in (".parquet", ".json", ".jsonl"):
        return frames.read_edges(read(f"SELECT * FROM {text_literal(str(path))}"), columns)
    if path.suffix in _TEXT or path.name.startswith("out."):
        return frames.read_edges(_edge_list(read, path), columns)
    raise InputError(
        f"the format of {path.name} is unknown; known are edge lists (.csv, .tsv, .txt, .gz, .parquet, .json, out.*), "
        ".npz, .mtx, and folders of OGB and TGB",
        code="not-a-graph",
    )


def _edge_list(read: Read, path: Path) -> pa.Table:
    """Return an edge list: CSV with a header, or the columns of SNAP (after #) and KONECT (after %)."""
    with _opened(path) as lines:
        first = next(iter(lines), "")
    comment = first[:1] if first[:1] in ("#", "%") else ""
    if not comment:
        return read(f"SELECT * FROM read_csv({text_literal(str(path))})")
    separator = "\t" if "\t" in _first_row(path, comment) else " "
    options = f"comment = '{comment}', delim = '{separator}', header = false, null_padding = true"
    rows = read(f"SELECT * FROM read_csv({text_literal(str(path))}, {options})")
    names = [SOURCE, DESTINATION, "weight", "time"] if comment == "%" else [SOURCE, DESTINATION]
    return rows.rename_columns([*names, *rows.column_names[len(names) :]][: rows.num_columns])


def _first_row(path: Path, comment: str) -> str:
    with _opened(path) as lines:
        return next((line for line in lines if line.strip() and not line.startswith(comment)), "")


def _opened(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _read_npz(path: Path) -> GraphTables:
    """Return the tables of a scipy matrix, or of arrays with `edge_index` [2, edges]. Pickled arrays are refused."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "edge_index" not in arrays:
                return _read_scipy(lambda: scipy_sparse.load_npz(path))
            ends = arrays["edge_index"]
            others = {name: arrays[name] for name in arrays.files if name != "edge_index"}
    except ValueError as error:
        raise InputError(
            f"{path.name} has arrays of Python objects, which are not read because they can run code; save arrays of "
            "numbers, or a matrix with scipy.sparse.save_npz",
            code="unsafe-file",
        ) from error
    count = int(others.pop("num_nodes", ends.max(initial=-1) + 1))
    notes: list[str] = []
    near = {n: v for n, v in others.items() if v.shape[:1] == (count,)}
    far = {n: v for n, v in others.items() if n not in near and v.shape[:1] == (ends.shape[1],)}
    notes += [f"the array {name} is not stored" for name in others if name not in near and name not in far]
    vertices = {KEY: numbered(count)} | {name: column_of(name, values, notes) for name, values in near.items()}
    edges = {SOURCE: pa.array(ends[0]), DESTINATION: pa.array(ends[1])}
    edges |= {name: column_of(name, values, notes) for name, values in far.items()}
    features = {FEATURES: FEATURES} if FEATURES in vertices else {}
    target = "y" if "y" in vertices else None
    return GraphTables(
        [VertexTable("node", pa.table(vertices), features=features, target=target)],
        [EdgeTable("edge", pa.table(edges), ("node", "node"))],
        notes,
    )


def _read_scipy(read: Callable[[], Any]) -> GraphTables:
    """Return the tables of a matrix that scipy reads."""
    try:
        return read_matrix(read())
    except ModuleNotFoundError:
        raise InputError(
            "this file needs scipy, which is not installed: pip install scipy", code="package-missing"
        ) from None


def _read_folder(read: Read, path: Path) -> GraphTables:
    if (path / "raw" / "triplet-type-list.csv.gz").is_file():
        return _read_ogb_types(read, path)
    if (path / "raw" / "edge.csv.gz").is_file():
        return _read_ogb(read, path)
    events = temporal_files(path)
    if events:
        return read_temporal(read, events[0])
    raise InputError(
        f"{path} is neither a folder of OGB (raw/edge.csv.gz) nor of TGB (…edgelist….csv); name the file itself",
        code="not-a-graph",
    )


def _values(read: Read, path: Path) -> np.ndarray[Any, Any]:
    """Return the numbers of a CSV file without a header as [rows, columns]."""
    rows = read(f"SELECT * FROM read_csv({text_literal(str(path))}, header = false)")
    return np.stack([column.to_numpy() for column in rows.columns], axis=1)


def _read_ogb(read: Read, path: Path) -> GraphTables:
    """Return the tables of an OGB data set with one type, as the package `ogb` leaves it on disk."""
    raw, notes = path / "raw", list[str]()
    count = int(_values(read, raw / "num-node-list.csv.gz")[0, 0])
    node = _ogb_nodes(read, path, raw, "node", count, "node-feat", "node-label", "node_year", None, notes)
    edges = _ogb_edges(read, raw, "edge", ("node", "node"), notes)
    return GraphTables([node], [edges], [*notes, *_pickled_splits(path)])


def _read_ogb_types(read: Read, path: Path) -> GraphTables:
    """Return the tables of an OGB data set with several types."""
    raw: Path = path / "raw"
    notes: list[str] = []
    counts = read(f"SELECT * FROM read_csv({text_literal(str(raw / 'num-node-dict.csv.gz'))}, header = true)")
    triplets = read(f"SELECT * FROM read_csv({text_literal(str(raw / 'triplet-type-list.csv.gz'))}, header = false)")
    vertices = [
        _ogb_nodes(
            read, path, raw, name, counts.column(name)[0].as_py(), f"node-feat/{name}/node-feat",
            f"node-label/{name}/node-label", f"node-feat/{name}/node_year", name, notes,
        )
        for name in counts.column_names
    ]  # fmt: skip
    edges = []
    for source, relation, destination in zip(*(column.to_pylist() for column in triplets.columns), strict=True):
        folder = raw / "relations" / f"{source}___{relation}___{destination}"
        edges.append(_ogb_edges(read, folder, relation, (source, destination), notes))
    return GraphTables(vertices, edges, [*notes, *_pickled_splits(path)])


def _pickled_splits(path: Path) -> list[str]:
    """Return a note about the splits that are not read. The data sets of links, ogbl-*, have no other ones."""
    pickles = sorted(file.relative_to(path).as_posix() for file in (path / "split").rglob("*.pt"))
    if not pickles:
        return []
    return [
        f"{', '.join(pickles)} {'is' if len(pickles) == 1 else 'are'} not read, because loading a pickle can run code; "
        "docs/importing.md shows how to import splits of links from a file that you trust"
    ]


def _ogb_nodes(
    read: Read,
    path: Path,
    raw: Path,
    name: str,
    count: int,
    features: str,
    labels: str,
    years: str,
    kind: str | None,
    notes: list[str],
) -> VertexTable:
    columns = {KEY: numbered(count)}
    if (file := raw / f"{features}.csv.gz").is_file():
        columns[FEATURES] = column_of(f"{name}.{FEATURES}", _values(read, file).astype(np.float32), notes)
    if (file := raw / f"{years}.csv.gz").is_file():
        columns["year"] = column_of(f"{name}.year", _values(read, file)[:, 0], notes)
    target = None
    if (file := raw / f"{labels}.csv.gz").is_file():
        values = _values(read, file)
        if values.shape[1] == 1:
            columns["y"], target = column_of(f"{name}.y", values[:, 0], notes), "y"
        else:
            columns["y"] = column_of(f"{name}.y", values, notes)
            notes.append(f"{name}.y has {values.shape[1]} labels per node: a column of vectors, but no TARGET")
    for split in sorted((path / "split").glob("*")):
        for part, mask in _SPLITS.items():
            file = split / kind / f"{part}.csv.gz" if kind else split / f"{part}.csv.gz"
            if file.is_file():
                there = np.zeros(count, np.bool_)
                there[_values(read, file)[:, 0]] = True
                columns[mask] = pa.array(there)
    known = {FEATURES: FEATURES} if FEATURES in columns else {}
    return VertexTable(name, pa.table(columns), features=known, target=target)


def _ogb_edges(read: Read, folder: Path, name: str, ends: tuple[str, str], notes: list[str]) -> EdgeTable:
    values = _values(read, folder / "edge.csv.gz")
    columns = {SOURCE: pa.array(values[:, 0]), DESTINATION: pa.array(values[:, 1])}
    if (file := folder / "edge-feat.csv.gz").is_file():
        columns[EDGE_FEATURES] = column_of(f"{name}.{EDGE_FEATURES}", _values(read, file).astype(np.float32), notes)
    features = {EDGE_FEATURES: EDGE_FEATURES} if EDGE_FEATURES in columns else {}
    for file in sorted(folder.glob("edge_*.csv.gz")):  # such as edge_year and edge_weight of ogbl-collab
        label = file.name.removeprefix("edge_").removesuffix(".csv.gz")
        columns[label] = column_of(f"{name}.{label}", _values(read, file)[:, 0], notes)
    time, weight = (label if label in columns else None for label in ("year", "weight"))
    return EdgeTable(name, pa.table(columns), ends, features=features, time=time, weight=weight)
