"""Folders of temporal graphs: TGB's edge lists as its package leaves them, and the arrays of TGN and DyGLib (ml_*)."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.errors import InputError
from snapdb.interchange import frames
from snapdb.interchange.tables import (
    DESTINATION,
    EDGE_FEATURES,
    FEATURES,
    KEY,
    SOURCE,
    TIME,
    WEIGHT,
    EdgeTable,
    GraphTables,
    VertexTable,
    column_of,
    free_name,
    numbered,
)
from snapdb.sql_engine import text_literal
from snapdb.types.sampling import BATCH_NAMES

_TIMES = ("timestamp", "ts", "time", "year", "day")
_WEIGHTS = ("weight", "w")
_CODES = ("label", "state_label", "relation_type")
"""Columns of labels and types, which are no features."""
_USER_ITEM_TIME = 2
"""The place of the time in lists of users and items, whose numbers overlap: TGB's package counts items after users."""


def temporal_files(path: Path) -> list[Path]:
    """Return the edge lists of a folder: TGB's, or `ml_*.csv` of TGN and DyGLib."""
    lists = [file for file in sorted(path.glob("*edgelist*.csv")) if "_static_" not in file.name]
    return lists or [file for file in sorted(path.glob("ml_*.csv")) if file.with_suffix(".npy").is_file()]


def read_temporal(read: Callable[[str], pa.Table], file: Path) -> GraphTables:
    """Return the tables of an edge list, with the features of edges and vertices beside it.

    Args:
        read: Runs a SELECT and returns its rows.
        file: One of `temporal_files`.

    Raises:
        InputError: The edge list has no column of times.
    """
    pickles = sorted(each.name for each in file.parent.glob("*.pkl"))
    graph = _read_arrays(read, file) if file.name.startswith("ml_") else _read_list(read, file)
    verb = "is" if len(pickles) == 1 else "are"
    notes = [f"{', '.join(pickles)} {verb} not read, because loading a pickle can run code"] if pickles else []
    return replace(graph, notes=[*graph.notes, *notes])


def _read_list(read: Callable[[str], pa.Table], file: Path) -> GraphTables:
    """Return the tables of TGB's edge list: both ends and the time in any order, a weight, and features."""
    with file.open(encoding="utf-8", newline="") as lines:
        names = [name.strip() for name in next(csv.reader(lines), [])]
    # The header has one name for all features of a row, so it is shorter than the rows.
    rows = read(f"SELECT * FROM read_csv({text_literal(str(file))}, header = false, skip = 1)")
    folded = [name.lower() for name in names[: rows.num_columns]]
    stamp = next((i for i, name in enumerate(folded) if name in _TIMES), None)
    if stamp is None:
        raise InputError(f"{file.name} has no column of times among {names}", code="not-a-graph")
    near, far = [i for i in range(rows.num_columns) if i != stamp][:2]
    notes: list[str] = []
    source, destination = rows.column(near), rows.column(far)
    if stamp == _USER_ITEM_TIME and pa.types.is_integer(source.type) and pa.types.is_integer(destination.type):
        first = (pc.max(source).as_py() or 0) + 1
        destination = pc.add(destination, first)
        notes.append(f"{names[far]} n is vertex {first} + n, as in the package of TGB")
    times, unit = _times(rows.column(stamp))
    notes += [unit] if unit else []
    columns: dict[str, Any] = {SOURCE: source, DESTINATION: destination, TIME: times}
    vectors = len(names) - 1 if rows.num_columns > len(names) or "feature" in folded[-1] else rows.num_columns
    named = [i for i in range(vectors) if i not in (near, far, stamp)]
    taken, features, weight = set(columns), dict[str, str](), None
    for i in named:
        meant = WEIGHT if folded[i] in _WEIGHTS else names[i]
        column = free_name(meant, taken)
        columns[column] = rows.column(i)
        if meant == WEIGHT:
            weight = column
        elif _is_feature(folded[i], rows.column(i)):
            features[column] = column
    if vectors < rows.num_columns:
        values = [rows.column(i).to_numpy() for i in range(vectors, rows.num_columns)]
        columns[EDGE_FEATURES] = column_of(f"edge.{EDGE_FEATURES}", np.stack(values, 1).astype(np.float32), notes)
        features[EDGE_FEATURES] = EDGE_FEATURES
    graph = frames.read_edges(pa.table(columns), frames.EdgeColumns(time=TIME, weight=weight))
    vertices = [_with_columns(read, file.parent, vertex) for vertex in graph.vertices]
    return GraphTables(vertices, [replace(edge, features=features) for edge in graph.edges], notes)


def _is_feature(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether a column of numbers can be a feature, which has no NULL and no reserved name."""
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return numeric and not column.null_count and name not in _CODES and name not in BATCH_NAMES


def _with_columns(read: Callable[[str], pa.Table], folder: Path, vertex: VertexTable) -> VertexTable:
    """Return the vertices with the columns of the folder's files of vertices, whose first column is the key."""
    table = vertex.rows
    for file in (*sorted(folder.glob("*_nodetype.csv")), *sorted(folder.glob("*node_feat*.csv"))):
        rows = read(f"SELECT * FROM read_csv({text_literal(str(file))}, header = true)")
        keys = rows.column(0).combine_chunks().cast(table.schema.field(KEY).type)
        places = pc.index_in(table.column(KEY).combine_chunks(), value_set=keys)
        taken = {name.lower() for name in table.column_names}
        for name in rows.column_names[1:]:
            table = table.append_column(free_name(name, taken), rows.column(name).combine_chunks().take(places))
    return replace(vertex, rows=table)


def _read_arrays(read: Callable[[str], pa.Table], file: Path) -> GraphTables:
    """Return the tables of ml_NAME.csv (u, i, ts, label, idx), ml_NAME.npy and ml_NAME_node.npy.

    Vertices and edges are numbered from 1: row 0 of both arrays is padding.
    """
    rows = read(f"SELECT u, i, ts, label, idx FROM read_csv({text_literal(str(file))}, header = true)")
    notes: list[str] = []
    times, unit = _times(rows.column("ts"))
    notes += [unit] if unit else []
    edge_rows, node_file = _array(file.with_suffix(".npy")), file.with_name(f"{file.stem}_node.npy")
    values = edge_rows[rows.column("idx").to_numpy()].astype(np.float32)
    columns = {SOURCE: rows.column("u"), DESTINATION: rows.column("i"), TIME: times, "label": rows.column("label")}
    columns[EDGE_FEATURES] = column_of(f"edge.{EDGE_FEATURES}", values, notes)
    edge = EdgeTable(
        "edge", pa.table(columns), ("node", "node"), features={EDGE_FEATURES: EDGE_FEATURES}, time=TIME
    )  # fmt: skip
    last = max((pc.max(rows.column(end)).as_py() or 0 for end in ("u", "i")), default=0)
    vertices, features = {KEY: numbered(last + 1).slice(1)}, dict[str, str]()
    if node_file.is_file():
        known = _array(node_file)[1 : last + 1].astype(np.float32)
        vertices[FEATURES] = column_of(f"node.{FEATURES}", known, notes)
        features[FEATURES] = FEATURES
    return GraphTables([VertexTable("node", pa.table(vertices), features=features)], [edge], notes)


def _array(path: Path) -> np.ndarray[Any, Any]:
    """Return the array in a .npy file. Pickled arrays are refused."""
    try:
        values: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(
            f"{path.name} has Python objects, which are not read because they can run code; save an array of numbers "
            "with numpy.save",
            code="unsafe-file",
        ) from error
    return values


def _times(column: pa.ChunkedArray) -> tuple[Any, str]:
    """Return times as integers, dates or timestamps, and a note if their unit changed."""
    if pa.types.is_temporal(column.type):
        return column, ""
    times, note = _whole_times(column.to_numpy())
    return pa.array(times), note


def _whole_times(times: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], str]:
    """Return times as integers, and a note if their unit changed.

    >>> _whole_times(np.array([1.0, 2.0])), _whole_times(np.array([0.5]))
    ((array([1, 2]), ''), (array([500000]), 'times are stored in millionths of their unit'))
    """
    if times.dtype.kind in "iu" or bool((times == np.floor(times)).all()):
        return times.astype(np.int64), ""
    return np.round(times * 1e6).astype(np.int64), "times are stored in millionths of their unit"
