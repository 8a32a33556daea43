"""Topology patches. A patch stores each changed row of a root as the length of its kept prefix and the edges after the
prefix.

The base of a patch is a root, never another patch. All changes since the root are in one patch, so a read accesses at
most two places.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError
from snapdb.kernels import buffers
from snapdb.kernels.adjacency.delta import (
    DAMAGED,
    Base,
    Keys,
    Lists,
    Outline,
    find_changes,
    is_delta,
    list_tails,
    merge_column,
    pick_parts,
)
from snapdb.kernels.adjacency.forms import plain_array
from snapdb.kernels.lookup import distinct
from snapdb.storage.array_files import ArrayFile, TimeSpan
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.arrays.topology import AdjacencyRows, EdgeArrays, LazyRows, open_rows, read_rows, rows_of
from snapdb.storage.manifests import Metadata, PublishedDir, map_array

_R = TypeVar("_R", AdjacencyRows, LazyRows)

_BLOCK = 1 << 22
"""The number of edges merged at once."""


@dataclass(frozen=True, slots=True)
class Patch(Generic[_R]):
    """The changed rows of a root.

    A changed row is the first `kept` edges of the root's row, followed by the row in `rows`.

    A patch of `LazyRows` raises an error for missing or damaged columns only when they are read.
    """

    nodes: Int64s
    """[changed] The changed nodes, ascending. Nodes without a row in the root keep 0 edges."""
    kept: Int64s
    """[changed] The number of edges that are kept from the root's row."""
    rows: _R
    """[changed] The edges after the kept ones, one row per changed node."""


def build_patch(
    root: AdjacencyRows,
    before: Patch[AdjacencyRows] | None,
    removed: EdgeArrays,
    added: EdgeArrays,
    nodes: int,
    far_nodes: int,
    *,
    last_time: int | None = None,
) -> Patch[AdjacencyRows]:
    """Return the patch of `root` after more changes. The cost is proportional to the size of the changed rows.

    Args:
        root: The rows to which the patch applies.
        before: The patch before these changes, or None.
        removed: The removed edges, identified by destination, time and edge id. Their other arrays are not read.
        added: The added edges, none of which exists yet.
        nodes: The current number of nodes, at least as many as in the root.
        far_nodes: The current number of nodes in the neighbours' type.
        last_time: The latest time of the root's edges. Later edges are appended without a search in the root's row.

    Raises:
        CorruptError: A removed edge does not exist, or an id or a row is out of range.
    """
    base = before or _nothing(root)
    if base.nodes.size and not 0 <= int(base.nodes[-1]) < nodes:
        raise _beyond(int(base.nodes[-1]), nodes)
    old = _lists(base.nodes, base.rows)
    nowhere = np.zeros_like(removed.destination)
    removals = _lists(*_grouped(replace(removed, source=nowhere, weight=None, until=None), nodes, 1))
    heads, additions = _grouped(added, nodes, far_nodes)
    new = _lists(heads, additions)
    whole = Base(plain_array(root.indptr, np.int64), _keys(root), FOREVER if last_time is None else last_time)
    outline, positions = _outline(whole, old, base.kept, removals, new)
    origin = buffers.empty((int(outline.indptr[-1]),), np.int64)
    list_tails(whole, old, removals, new, outline, positions, origin)
    return Patch(outline.nodes, outline.kept, _picked(outline.indptr, origin, (root, base.rows, additions)))


def write_patch(patch: Patch[AdjacencyRows], directory: Path) -> Metadata:
    """Write the arrays as .npy files and return their metadata.

    The metadata contains the numbers of edges and nodes in the patch.
    """
    np.save(directory / "nodes.npy", patch.nodes)
    np.save(directory / "kept.npy", patch.kept)
    return patch.rows.write(directory)


def read_patch(directory: Path, root: AdjacencyRows) -> Patch[AdjacencyRows]:
    """Return the patch that `write_patch` wrote, memory-mapped.

    Raises:
        CorruptError: An array is missing or damaged, or the patch does not belong to `root`. Edges are not read.
    """
    rows = read_rows(directory)
    nodes, kept = (map_array(directory / f"{name}.npy") for name in ("nodes", "kept"))
    return _checked_patch(directory, root, Patch(nodes, kept, rows))


def open_patch(directory: PublishedDir, root: LazyRows) -> Patch[LazyRows]:
    """Return the patch that `write_patch` wrote, memory-mapped. A column may be missing until it is read.

    Raises:
        CorruptError: An array is missing or damaged, or the patch does not belong to `root`. Edges are not read.
    """
    rows = open_rows(directory)
    nodes, kept = (directory.array(f"{name}.npy") for name in ("nodes", "kept"))
    return _checked_patch(directory.path, root, Patch(nodes, kept, rows))


def _checked_patch(directory: Path, root: _R, patch: Patch[_R]) -> Patch[_R]:
    """Check that the patch's nodes ascend and keep only edges that exist in `root`, and return the patch."""
    nodes, kept, rows = patch.nodes, patch.kept, patch.rows
    sizes = [array.size for array in (nodes, kept) if array.ndim == 1 and array.dtype == np.int64]
    sound = sizes == [rows.indptr.size - 1] * 2
    sound = sound and list(rows.columns) == list(root.columns) and rows.indices.dtype == root.indices.dtype
    if sound:
        starts, touched, keeps, indptr = (plain_array(v, np.int64) for v in (root.indptr, nodes, kept, rows.indptr))
        sound = bool(is_delta(starts, root.indices.size, touched, keeps, indptr, rows.indices.size))
    if not sound:
        raise CorruptError(
            f"{directory} does not match its topology; restore it from a backup or REFRESH FULL",
            code="damaged-snapshot",
        )
    return patch


def _merged(root: AdjacencyRows, patch: Patch[AdjacencyRows], nodes: int) -> AdjacencyRows:
    """Return the rows of all `nodes` with the patch applied, in memory.

    The result is the same as for rows built from the edges.
    """
    indptr = _merged_indptr(root, patch, nodes)
    columns: dict[str, Array] = {}
    for name in root.columns:
        columns[name] = _merged_column(root, patch, indptr, name, 0, nodes)
    return rows_of(indptr, columns)


def write_merged(
    root: AdjacencyRows, patch: Patch[AdjacencyRows], nodes: int, directory: Path, *, block: int = _BLOCK
) -> Metadata:
    """Write the rows of all `nodes` as a new root, about `block` edges at a time. Returns their metadata."""
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


def _nothing(root: AdjacencyRows) -> Patch[AdjacencyRows]:
    """Return an empty patch for a root."""
    nothing = np.empty(0, np.int64)
    return Patch(nothing, nothing, root.take(np.zeros(1, np.int64), nothing))


def _beyond(node: int, nodes: int) -> CorruptError:
    """Return the error for a node that is not among the nodes of its type."""
    return CorruptError(
        f"an edge refers to node {node}, but there are {nodes} nodes; CHECK DATABASE lists the file",
        code="damaged-snapshot",
    )


def _damaged() -> CorruptError:
    """Return the error for a row that extends beyond its arrays."""
    return CorruptError(
        "a topology is damaged: an index is out of range; CHECK DATABASE lists the file", code="damaged-snapshot"
    )


def _grouped(edges: EdgeArrays, nodes: int, far_nodes: int) -> tuple[Int64s, AdjacencyRows]:
    """Return the destinations of edges, ascending, and the rows of these destinations."""
    try:
        heads, slices = distinct(edges.destination, nodes)
    except IndexError as error:
        raise _beyond(error.args[0], nodes) from None
    counted = replace(edges, destination=slices, edge_id=edges.edge_id.astype(np.int64, copy=False))
    return heads, counted.sort_edges(heads.size, far_nodes)


def _keys(rows: AdjacencyRows) -> Keys:
    """Return the sort keys of rows, in the form required by kernels."""
    time = np.empty(0, np.int64) if rows.time is None else rows.time
    return Keys(plain_array(time, np.int64), plain_array(rows.edge_id, rows.edge_id.dtype))


def _lists(nodes: Int64s, rows: AdjacencyRows) -> Lists:
    """Return rows as lists of edges of the given nodes, in the form required by kernels."""
    return Lists(plain_array(nodes, np.int64), plain_array(rows.indptr, np.int64), _keys(rows))


def _outline(root: Base, old: Lists, held: Int64s, removals: Lists, new: Lists) -> tuple[Outline, Int64s]:
    """Return the outline of a new patch, and the position of each removed edge in the logical rows."""
    most = old.nodes.size + removals.nodes.size + new.nodes.size
    outline = Outline(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most + 1, np.int64))
    positions = np.empty(removals.keys.edge_id.size, np.int64)
    count, wrong = find_changes(root, old, plain_array(held, np.int64), removals, new, outline, positions)
    if wrong == DAMAGED:
        raise _damaged()
    if wrong >= 0:
        node = removals.nodes[np.searchsorted(removals.indptr, wrong, side="right") - 1]
        raise CorruptError(
            f"edge {removals.keys.edge_id[wrong]} of node {node} must be removed twice, or from a topology that "
            "does not contain it; CHECK DATABASE lists the file",
            code="damaged-snapshot",
        )
    return Outline(outline.nodes[:count], outline.kept[:count], outline.indptr[: count + 1]), positions


def _picked(indptr: Int64s, origin: Int64s, parts: tuple[AdjacencyRows, AdjacencyRows, AdjacencyRows]) -> AdjacencyRows:
    """Return the rows with the edges at these positions in the concatenated parts, with the first part's dtypes."""
    columns = {}
    for name, values in parts[0].columns.items():
        others = [part.columns[name] for part in parts[1:]]
        dtype = _narrowest(values.dtype, others)
        second, third = (_as_numbers(other.astype(dtype, copy=False)) for other in others)
        columns[name] = np.empty(origin.size, dtype)
        pick_parts(origin, _as_numbers(values), second, third, columns[name].view(f"i{dtype.itemsize}"))
    return rows_of(indptr, columns)


def _as_numbers(values: Array) -> Array:
    """Return the same bits as integers, because kernels that only copy are compiled only for integers."""
    return plain_array(values, values.dtype).view(f"i{values.itemsize}")


def _narrowest(wanted: np.dtype[Any], others: list[Array]) -> np.dtype[Any]:
    """`wanted`, or int64 if an array in `others` contains an id too large for int32."""
    wide = [values for values in others if values.size and values.dtype != np.int32]
    large = wanted == np.int32 and any(int(values.max()) >= 2**31 for values in wide)
    return np.dtype(np.int64) if large else wanted


def _merged_indptr(root: AdjacencyRows, patch: Patch[AdjacencyRows], nodes: int) -> Int64s:
    """Return the starts of the logical rows, after checking the starts in the root."""
    if patch.nodes.size and not 0 <= int(patch.nodes[-1]) < nodes:  # the nodes ascend, so the last one is the greatest
        raise _beyond(int(patch.nodes[-1]), nodes)
    known = root.indptr.size - 1
    degrees = np.zeros(nodes, np.int64)
    degrees[:known] = np.diff(root.indptr)
    if root.indptr[0] != 0 or root.indptr[-1] != root.indices.size or (degrees < 0).any():
        raise _damaged()
    degrees[patch.nodes] = patch.kept + np.diff(patch.rows.indptr)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])


def _blocks(indptr: Int64s, block: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of nodes with at most `block` edges each, except that each range has at least one node."""
    low, nodes = 0, indptr.size - 1
    while low < nodes:
        high = max(int(np.searchsorted(indptr, indptr[low] + block, side="right")) - 1, low + 1)
        yield low, min(high, nodes)
        low = min(high, nodes)


def _column_type(root: AdjacencyRows, patch: Patch[AdjacencyRows], name: str) -> np.dtype[Any]:
    """Return the dtype of a column of the merged rows."""
    return np.result_type(root.columns[name], patch.rows.columns[name])


def _merged_column(
    root: AdjacencyRows, patch: Patch[AdjacencyRows], indptr: Int64s, name: str, low: int, high: int
) -> Array:
    """Return one column of the logical rows for the nodes low ≤ v < high."""
    first, last = np.searchsorted(patch.nodes, [low, high])
    bounds = patch.rows.indptr[first : last + 1]
    dtype = _column_type(root, patch, name)
    tails = patch.rows.columns[name][bounds[0] : bounds[-1]].astype(dtype)
    out = np.empty(int(indptr[high] - indptr[low]), dtype)
    # Copy the parts, because the kernel's other callers pass writable arrays. Read-only maps would cause another
    # variant to be compiled.
    nodes, kept = patch.nodes[first:last].copy(), patch.kept[first:last].copy()
    merge_column(low, high, root.indptr, root.columns[name], Outline(nodes, kept, bounds - bounds[0]), tails, out)
    return out
