"""One edge type's adjacency at a version: CSC arrays sorted by (destination, event time, edge id), as .npy files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.errors import CorruptError
from snapdb.kernels.topology import are_rows, row_order
from snapdb.relational import Session
from snapdb.storage.disk import map_array

__all__ = ["EdgeArrays", "Rows", "check_rows", "read_edges", "read_rows", "sort_edges", "write_rows"]

Int64s = npt.NDArray[np.int64]

_ARRAYS = ("indptr", "indices", "edge_id", "time", "weight")


@dataclass(frozen=True, slots=True)
class EdgeArrays:
    """Edges in no particular order; ids are dense."""

    source: Int64s
    destination: Int64s
    edge_id: Int64s
    time: Int64s | None
    weight: npt.NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Edges as rows of the nodes they are expanded from."""

    indptr: Int64s
    """[nodes + 1]"""
    indices: npt.NDArray[Any]
    """[edges] dense ids of the far ends: int32, or int64 past 2^31 nodes."""
    edge_id: Int64s
    time: Int64s | None
    weight: npt.NDArray[np.float64] | None

    def take(self, indptr: Int64s, positions: Int64s) -> Rows:
        """Other rows made of these positions."""
        return Rows(
            indptr,
            self.indices[positions],
            self.edge_id[positions],
            None if self.time is None else self.time[positions],
            None if self.weight is None else self.weight[positions],
        )


def read_edges(session: Session, query: str) -> EdgeArrays:
    """The edges of a SELECT of `source, destination, e_id` and, where there are, `time`, `weight`."""
    table = session.table(query)
    names = table.column_names
    return EdgeArrays(
        _numpy(table["source"]),
        _numpy(table["destination"]),
        _numpy(table["e_id"]),
        _numpy(table["time"]) if "time" in names else None,
        table["weight"].to_numpy() if "weight" in names else None,
    )


def sort_edges(edges: EdgeArrays, nodes: int, far_nodes: int, *, outgoing: bool = False) -> Rows:
    """The rows of the destinations (or, `outgoing`, of the sources), each by (time, edge id).

    Args:
        nodes: How many nodes have a row.
        far_nodes: How many the neighbours' type has; decides the width of `indices`.
    """
    near, far = (edges.source, edges.destination) if outgoing else (edges.destination, edges.source)
    indptr, order = row_order(near, edges.time, edges.edge_id, nodes)
    width = np.int32 if far_nodes < 2**31 else np.int64
    unsorted = Rows(indptr, far.astype(width), edges.edge_id, edges.time, edges.weight)
    return unsorted.take(indptr, order)


def write_rows(rows: Rows, directory: Path, prefix: str = "") -> dict[str, Any]:
    """Write the arrays as .npy files, whose names begin with `prefix`, and return their facts for a manifest."""
    for name in _ARRAYS:
        if (array := getattr(rows, name)) is not None:
            np.save(directory / f"{prefix}{name}.npy", array)
    facts: dict[str, Any] = {"edges": int(rows.indices.size), "nodes": int(rows.indptr.size - 1)}
    if rows.time is not None and rows.time.size:
        facts |= {"first_time": int(rows.time.min()), "last_time": int(rows.time.max())}
    return facts


def read_rows(directory: Path, prefix: str = "") -> Rows:
    """The arrays that `write_rows` wrote, memory-mapped.

    Raises:
        CorruptError: one is missing, or of another type or length than the others need. Values are not looked at.
    """
    found = {name: directory / f"{prefix}{name}.npy" for name in _ARRAYS}
    arrays: dict[str, Any] = {name: map_array(path) if path.exists() else None for name, path in found.items()}
    edges = 0 if arrays["indices"] is None else arrays["indices"].size
    for name, array in arrays.items():
        if array is None and name in ("time", "weight"):
            continue
        kinds = {"indices": ("int32", "int64"), "weight": ("float64",)}.get(name, ("int64",))
        length = array.size if name == "indptr" and array is not None and array.size else edges
        if array is None or array.ndim != 1 or array.dtype.name not in kinds or array.size != length:
            raise CorruptError(f"{found[name]} is missing or damaged; restore it from a backup")
    return Rows(**arrays)


def check_rows(starts: Int64s, ends: Int64s, indices: npt.NDArray[Any], far_nodes: int, what: str) -> None:
    """Nothing when every row and every index is within its bounds, which reads all of them.

    Raises:
        CorruptError: one is not; `what` tells whose rows they are.
    """
    if not are_rows(starts, ends, indices, far_nodes):
        raise CorruptError(
            f"the adjacency of {what} is damaged: it leads out of its arrays; CHECK DATABASE names the file"
        )


def _numpy(column: pa.ChunkedArray) -> Int64s:
    assert column.null_count == 0, "checked by check_edges"
    values: Int64s = column.to_numpy()
    return np.ascontiguousarray(values, dtype=np.int64)
