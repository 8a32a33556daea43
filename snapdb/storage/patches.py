"""Patches: the rows of a root that changed, as what each keeps of its root row and what follows instead.

A patch stands on one root, never on another patch: what came and went since the root is one new patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.kernels.patch import Keys, Lists, Stretches, find_changes, list_tails, merge_column
from snapdb.storage.arrays import ArrayFile, TimeSpan
from snapdb.storage.disk import map_array
from snapdb.storage.topology import EdgeArrays, Rows, read_rows, rows_of, sort_edges, write_rows

__all__ = ["Patch", "build_patch", "merged", "read_patch", "write_merged", "write_patch"]

Int64s = npt.NDArray[np.int64]

_BLOCK = 1 << 22
"""Edges merged at a time."""


@dataclass(frozen=True, slots=True)
class Patch:
    """The logical row of a touched node is the first `kept` edges of its root row, then its row here."""

    nodes: Int64s
    """The touched nodes, ascending. Those the root has no row for keep nothing."""
    kept: Int64s
    rows: Rows
    """One row for each touched node."""


def build_patch(
    root: Rows, before: Patch | None, removed: EdgeArrays, added: EdgeArrays, nodes: int, far_nodes: int
) -> Patch:
    """The patch of `root` after those changes, at a cost that follows from the rows they touch.

    Args:
        before: The patch that the changes come on top of; None: they come on top of the root itself.
        removed: Found by destination, time and edge id; their other arrays are not looked at.
        added: Edges that are not there.
        nodes: How many nodes there are now, at least as many as the root's.
        far_nodes: How many the neighbours' type has now.

    Raises:
        CorruptError: an edge to remove is not there, or an id or a row is out of its range.
    """
    base = before or _nothing(root)
    touched = np.unique(np.concatenate([removed.destination, added.destination, base.nodes]))
    _check_nodes(touched, nodes)
    whole, old = _standing(root, base, touched)
    came = sort_edges(_onto(added, touched), touched.size, far_nodes)
    new = _lists(came)
    nowhere = np.zeros_like(removed.destination)
    leaving = EdgeArrays(nowhere, removed.destination, removed.edge_id, removed.time, None)
    gone = _lists(sort_edges(_onto(leaving, touched), touched.size, 1))
    kept = np.empty(touched.size, np.int64)
    positions = np.empty(gone.edge_id.size, np.int64)
    keys = _keys(root)
    missing = find_changes(whole, keys, old, gone, new, kept, positions)
    if missing >= 0:
        node = touched[np.searchsorted(gone.indptr, missing, side="right") - 1]
        raise CorruptError(
            f"edge {gone.edge_id[missing]} of node {node} is to leave a topology that does not hold it, "
            "or to leave it twice; CHECK DATABASE names the file"
        )
    sizes = whole.length - kept + np.diff(old.indptr) - np.diff(gone.indptr) + np.diff(new.indptr)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    origin = np.empty(int(indptr[-1]), np.int64)
    list_tails(whole, keys, old, gone, positions, new, kept, indptr, origin)
    return Patch(touched, kept, _gathered(indptr, origin, (root, base.rows, came)))


def write_patch(patch: Patch, directory: Path) -> dict[str, Any]:
    """Write the arrays as .npy files, and return their facts for a manifest: edges and nodes are the patch's own."""
    np.save(directory / "nodes.npy", patch.nodes)
    np.save(directory / "kept.npy", patch.kept)
    return write_rows(patch.rows, directory)


def read_patch(directory: Path, root: Rows) -> Patch:
    """The patch that `write_patch` wrote, memory-mapped.

    Raises:
        CorruptError: an array is missing or damaged, or it is not a patch of `root`. Only edges are not looked at.
    """
    rows = read_rows(directory)
    nodes, kept = (map_array(directory / f"{name}.npy") for name in ("nodes", "kept"))
    sizes = [array.size for array in (nodes, kept) if array.ndim == 1 and array.dtype == np.int64]
    sound = sizes == [rows.indptr.size - 1] * 2
    sound = sound and list(rows.columns) == list(root.columns) and rows.indices.dtype == root.indices.dtype
    sound = sound and bool((nodes[1:] > nodes[:-1]).all()) and bool((nodes >= 0).all())
    sound = sound and rows.indptr[0] == 0 and rows.indptr[-1] == rows.indices.size
    sound = sound and bool((rows.indptr[1:] >= rows.indptr[:-1]).all())
    if not sound:
        raise CorruptError(f"{directory} is not a patch of its topology; restore it from a backup or REFRESH FULL")
    patch = Patch(nodes, kept, rows)
    _standing(root, patch, nodes)
    return patch


def merged(root: Rows, patch: Patch, nodes: int) -> Rows:
    """Rows of all `nodes` without a patch, in memory: what building them from their edges gives."""
    indptr = _merged_indptr(root, patch, nodes)
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in root.columns:
        columns[name] = _merged_column(root, patch, indptr, name, 0, nodes)
    return rows_of(indptr, columns)


def write_merged(root: Rows, patch: Patch, nodes: int, directory: Path, *, block: int = _BLOCK) -> dict[str, Any]:
    """Write the rows of all `nodes` without a patch as a new root, about `block` edges at a time; its facts."""
    indptr, span = _merged_indptr(root, patch, nodes), TimeSpan()
    np.save(directory / "indptr.npy", indptr)
    edges = int(indptr[-1])
    with ExitStack() as stack:
        for name in root.columns:
            dtype = _column_type(root, patch, name)
            file = stack.enter_context(ArrayFile(directory / f"{name}.npy", dtype, edges))
            for low, high in _blocks(indptr, block):
                values = _merged_column(root, patch, indptr, name, low, high)
                file.append(values)
                if name == "time":
                    span.see(values)
    return {"edges": edges, "nodes": nodes, **span.facts()}


def _nothing(root: Rows) -> Patch:
    """A patch that changes nothing."""
    nothing = np.empty(0, np.int64)
    return Patch(nothing, nothing, root.take(np.zeros(1, np.int64), nothing))


def _check_nodes(touched: Int64s, nodes: int) -> None:
    if touched.size and (touched[0] < 0 or touched[-1] >= nodes):
        wrong = touched[0] if touched[0] < 0 else touched[-1]
        raise CorruptError(f"an edge leads to node {wrong}, and there are {nodes}; CHECK DATABASE names the file")


def _standing(root: Rows, patch: Patch, touched: Int64s) -> tuple[Stretches, Lists]:
    """The logical rows of `touched`, among which are all of the patch: what of the root, and what of the patch."""
    known = touched[: np.searchsorted(touched, root.indptr.size - 1)]
    start = np.zeros(touched.size, np.int64)
    length = np.zeros(touched.size, np.int64)
    start[: known.size] = root.indptr[known]
    length[: known.size] = root.indptr[known + 1] - start[: known.size]
    at = np.searchsorted(touched, patch.nodes)
    sound = bool((patch.kept >= 0).all() and (patch.kept <= length[at]).all())
    length[at] = patch.kept
    if not sound or (start < 0).any() or (length < 0).any() or (length > root.indices.size - start).any():
        raise CorruptError("a topology is damaged: a row leads out of its arrays; CHECK DATABASE names the file")
    sizes = np.zeros(touched.size, np.int64)
    sizes[at] = np.diff(patch.rows.indptr)
    lists = _lists(patch.rows)
    return Stretches(start, length), lists._replace(indptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))


def _onto(edges: EdgeArrays, touched: Int64s) -> EdgeArrays:
    """Edges whose destinations are counted among the touched nodes."""
    return EdgeArrays(
        edges.source,
        np.searchsorted(touched, edges.destination),
        edges.edge_id.astype(np.int64),
        edges.time,
        edges.weight,
        edges.until,
    )


def _keys(rows: Rows) -> Keys:
    return Keys(rows.edge_id if rows.time is None else rows.time, rows.edge_id)


def _lists(rows: Rows) -> Lists:
    """Copies of the keys, in one type whatever the rows' is: a kernel is compiled once."""
    time, edge_id = (values.astype(np.int64) for values in _keys(rows))
    return Lists(rows.indptr, time, edge_id)


def _gathered(indptr: Int64s, origin: Int64s, parts: tuple[Rows, Rows, Rows]) -> Rows:
    """Rows whose edges come from positions counted through all the parts; types are those of the first."""
    bounds = np.cumsum([part.indices.size for part in parts])
    kinds = np.searchsorted(bounds, origin, side="right")
    columns = {}
    for name, values in parts[0].columns.items():
        held = [part.columns[name] for part in parts]
        dtype = _narrowest(values.dtype, held[1:])
        columns[name] = np.empty(origin.size, dtype)
        for kind, (part, bound) in enumerate(zip(held, bounds, strict=True)):
            columns[name][kinds == kind] = part[origin[kinds == kind] - (bound - part.size)]
    return rows_of(indptr, columns)


def _narrowest(wanted: np.dtype[Any], others: list[npt.NDArray[Any]]) -> np.dtype[Any]:
    """The type wanted, or int64 where the others hold an id too large for it."""
    large = wanted == np.int32 and any(values.size and int(values.max()) >= 2**31 for values in others)
    return np.dtype(np.int64) if large else wanted


def _merged_indptr(root: Rows, patch: Patch, nodes: int) -> Int64s:
    """Where the logical rows start, after a look at whether all that is of the root is within it."""
    _check_nodes(patch.nodes, nodes)
    known = root.indptr.size - 1
    degrees = np.zeros(nodes, np.int64)
    degrees[:known] = np.diff(root.indptr)
    if root.indptr[0] != 0 or root.indptr[-1] != root.indices.size or (degrees < 0).any():
        raise CorruptError("a topology is damaged: a row leads out of its arrays; CHECK DATABASE names the file")
    degrees[patch.nodes] = patch.kept + np.diff(patch.rows.indptr)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])


def _blocks(indptr: Int64s, block: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes with at most `block` edges each; a hub may have more by itself."""
    low, nodes = 0, indptr.size - 1
    while low < nodes:
        high = max(int(np.searchsorted(indptr, indptr[low] + block, side="right")) - 1, low + 1)
        yield low, min(high, nodes)
        low = min(high, nodes)


def _column_type(root: Rows, patch: Patch, name: str) -> np.dtype[Any]:
    return np.result_type(root.columns[name], patch.rows.columns[name])


def _merged_column(root: Rows, patch: Patch, indptr: Int64s, name: str, low: int, high: int) -> npt.NDArray[Any]:
    """One column of the logical rows of nodes low ≤ v < high."""
    first, last = np.searchsorted(patch.nodes, [low, high])
    bounds = patch.rows.indptr[first : last + 1]
    dtype = _column_type(root, patch, name)
    tails = patch.rows.columns[name][bounds[0] : bounds[-1]].astype(dtype)
    out = np.empty(int(indptr[high] - indptr[low]), dtype)
    nodes, kept = patch.nodes[first:last].copy(), patch.kept[first:last].copy()
    merge_column(low, high, root.indptr, root.columns[name], nodes, kept, bounds - bounds[0], tails, out)
    return out
