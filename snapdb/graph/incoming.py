"""The in-neighbours of a snapshot as its directory has them, in each of the four forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.graph.adjacency import open_topology, rows_adjacency
from snapdb.graph.layout import EdgeLayout
from snapdb.graph.view import Adjacency
from snapdb.kernels.forms import RowArrays, live_arrays, row_arrays
from snapdb.storage.arrays.topology import open_rows
from snapdb.storage.manifests import PublishedDir


def open_incoming(root: Path, directory: Path, index: int, edge: EdgeLayout, nodes: int) -> Adjacency:
    """The rows of an edge type, memory-mapped; what leads out of them is found when it is met.

    Args:
        root: The database's directory, in which the layout's paths lie.
        directory: The snapshot's.
        index: The edge type's number in the snapshot's layout.
        edge: How it lies there.
        nodes: How many nodes have a row.

    Raises:
        CorruptError: a file is missing, or of another type or length than the others need.
    """
    own = PublishedDir(directory)
    if edge.form == "materialized":
        return rows_adjacency(open_rows(own, f"rows-{index}-"), nodes=nodes)
    whole = open_topology(root / edge.topology, None if edge.patch is None else root / edge.patch, nodes)
    rows = whole.rows
    if edge.form == "ends":
        path = directory / f"ends-{index}.npy"
        return _with(whole, path, degrees=_degrees(path, own.array(path.name), rows))
    if edge.form == "bitmap":
        path = directory / f"live-{index}.npy"
        words = own.array(path.name)
        held = rows.indices.size + rows.patch.indices.size
        if words.dtype != np.uint64 or words.shape != ((held + 63) // 64,):
            raise _damaged(path)
        return replace(whole, rows=rows._replace(live=live_arrays(words)))
    if edge.form != "full":
        raise CorruptError(
            f"the manifest of a snapshot is damaged: an edge type lies as {edge.form!r}; create it again",
            code="damaged-snapshot",
        )
    return whole


def _with(whole: Adjacency, path: Path, degrees: npt.NDArray[Any]) -> Adjacency:
    rows = whole.rows
    if degrees.shape != (rows.nodes,):
        raise _damaged(path)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=rows.nodes, degrees=degrees, patch=rows.patch)
    return replace(whole, rows=arrays)


def _degrees(path: Path, found: npt.NDArray[Any], rows: RowArrays) -> npt.NDArray[Any]:
    """How many edges each row has; older databases hold where it ends instead."""
    if found.dtype == np.int64 and found.shape == (rows.indptr.size - 1,):
        found = found - rows.indptr[:-1]
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < 2**32:
            raise _damaged(path)
    elif found.dtype != np.uint32:
        raise _damaged(path)
    return found


def _damaged(path: Path) -> CorruptError:
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )
