"""The arrays of a relation's rows in the form that kernels read, for every encoding.

A node's logical row is a range of the base, truncated where a delta takes over, followed by a range of the delta.
`degrees` can end it early, and `live` can omit some of its positions. Physical positions are numbered consecutively
through the base and the delta. A part that an encoding does not have is an empty array, so that all encodings share one
compiled kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.bits import count_bits, rank_blocks
from snapdb.kernels.compiled import kernel


class _Parts(Protocol):
    """The values of the edges in a base and in its delta, if any."""

    @property
    def base(self) -> Array: ...
    @property
    def delta(self) -> Array | None: ...


ByPosition: TypeAlias = Array | tuple[Array, Array | None] | _Parts
"""Values by physical position, for the base only or for the base and its delta."""

DAMAGED = "an adjacency is damaged: an index is out of range; CHECK DATABASE lists the file"


class DeltaArrays(NamedTuple):
    """The delta rows of touched nodes. Each replaces the base row from position `kept` on."""

    touched: UInt64s
    """A bitmap of the touched nodes."""
    ranks: Int64s
    """[words] The number of touched nodes before each word of `touched`."""
    kept: Int64s
    """[touched] The number of base row positions that precede the delta row, by rank among the touched nodes."""
    indptr: Int64s
    """[touched + 1] The start of each delta row in `indices`."""
    indices: Array
    """Neighbour ids, with the dtype of the base's indices."""


class LiveArrays(NamedTuple):
    """A bitmap of the physical positions that are in the snapshot. It is empty if all positions are."""

    words: UInt64s
    """One bit per physical position."""
    before: Int64s
    """The rank directory of `words` (see `rank_blocks`)."""


class RowArrays(NamedTuple):
    """A relation's rows as read-only, contiguous arrays (see `row_arrays`)."""

    nodes: int
    """The number of rows, one for each node 0 ≤ id < nodes. A row beyond the base is empty unless a delta touches
    it."""
    indptr: Int64s
    """[base nodes + 1] The start of each base row in `indices`."""
    indices: Array
    """The neighbour ids of the base, int32 or int64."""
    degrees: npt.NDArray[np.uint32]
    """[nodes] The number of logical positions in each row that are in the snapshot. The array is empty if all are."""
    live: LiveArrays
    """The positions that are in the snapshot. The arrays are empty if all positions are."""
    delta: DeltaArrays
    """The delta. The arrays are empty if there is no delta."""


def row_arrays(
    indptr: Array,
    indices: Array,
    *,
    nodes: int | None = None,
    degrees: Array | None = None,
    live: LiveArrays | None = None,
    delta: DeltaArrays | None = None,
) -> RowArrays:
    """Convert rows to the form that kernels read. Arrays with the right dtypes are not copied.

    Raises:
        CorruptError: `degrees` does not have one value per node, or `live` does not have one bit per physical position.
    """
    count = max(indptr.size - 1, 0) if nodes is None else nodes
    bits = plain_array(np.empty(0), np.uint64)
    none = plain_array(np.empty(0), np.int64)
    rows = RowArrays(
        count,
        plain_array(indptr, np.int64),
        plain_array(indices, indices.dtype),
        plain_array(np.empty(0) if degrees is None else degrees, np.uint32),
        live or LiveArrays(bits, none),
        delta or DeltaArrays(bits, none, none, none, plain_array(np.empty(0), indices.dtype)),
    )
    held = rows.indices.size + rows.delta.indices.size
    if (degrees is not None and degrees.size != count) or (live and live.words.size != (held + 63) // 64):
        raise CorruptError(DAMAGED)
    return rows


def live_arrays(words: UInt64s) -> LiveArrays:
    """Return a bitmap of physical positions with its rank directory."""
    plain = plain_array(words, np.uint64)
    return LiveArrays(plain, plain_array(rank_blocks(plain), np.int64))


def delta_arrays(
    touched: Int64s, kept: Int64s, indptr: Int64s, indices: Array, nodes: int, kind: npt.DTypeLike
) -> DeltaArrays:
    """Return the arrays of a delta on a base whose indices have dtype `kind`. `touched` contains ascending nodes.

    Raises:
        CorruptError: The nodes do not ascend, or a node is not in 0 ≤ id < nodes or has no row.
    """
    if kept.size != touched.size or indptr.size != touched.size + 1:
        raise CorruptError(DAMAGED)
    bits, ranks = np.zeros((nodes + 63) // 64, np.uint64), np.zeros((nodes + 63) // 64, np.int64)
    if not _mark(plain_array(touched, np.int64), nodes, bits, ranks):
        raise CorruptError(DAMAGED)
    return DeltaArrays(
        plain_array(bits, np.uint64),
        plain_array(ranks, np.int64),
        plain_array(kept, np.int64),
        plain_array(indptr, np.int64),
        plain_array(indices, kind),
    )


# One bit per node marks it as touched. The rank of the bit is the node's row number in the delta (Jacobson's rank,
# 1989), at O(1) per node.
@kernel
def _mark(touched: Int64s, nodes: int, bits: UInt64s, ranks: Int64s) -> bool:
    before = np.int64(-1)
    for i in range(touched.size):
        node = touched[i]
        if node <= before or node >= nodes:
            return False
        bits[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
        before = node
    for w in range(1, ranks.size):
        ranks[w] = ranks[w - 1] + count_bits(bits[w - 1])
    return True


def plain_array(values: Array, kind: npt.DTypeLike) -> Array:
    """Return a contiguous, read-only view or copy, because each layout and mutability compiles another variant."""
    plain = np.ascontiguousarray(values, dtype=kind).view()
    plain.flags.writeable = False
    return plain


def parts_of(values: ByPosition) -> tuple[Array, Array | None]:
    """Return the values of the base, and the values of the delta or None."""
    if isinstance(values, np.ndarray):
        return values, None
    return (values[0], values[1]) if isinstance(values, tuple) else (values.base, values.delta)


class ColumnArrays(NamedTuple):
    """A column of edges by physical position. Both parts are empty if no kernel needs the column."""

    base: Array
    """[base edges] The values of the base's edges."""
    delta: Array
    """[delta edges] The values of the delta's edges."""


def column_arrays(values: ByPosition | None, kind: npt.DTypeLike, rows: RowArrays) -> ColumnArrays:
    """Convert a column of these rows to the form that kernels read. The arrays are empty if `values` is None.

    Raises:
        CorruptError: The number of values differs from the number of physical positions.
    """
    if values is None:
        return ColumnArrays(plain_array(np.empty(0), kind), plain_array(np.empty(0), kind))
    base, delta = parts_of(values)
    delta = np.empty(0, base.dtype) if delta is None else delta
    if base.size != rows.indices.size or delta.size != rows.delta.indices.size:
        raise CorruptError(DAMAGED)
    return ColumnArrays(plain_array(base, kind), plain_array(delta, kind))


@kernel
def has_values(column: ColumnArrays) -> bool:
    """Return whether a column has values. It has none if it is not needed or if there are no edges."""
    return column.base.size + column.delta.size > 0


# The function branches instead of reading a concatenated array, because base and delta are memory-mapped files that a
# refresh must not copy.
@kernel
def value_at(column: ColumnArrays, position: int | np.int64) -> Any:
    """Return the value of a column at a physical position."""
    base = column.base
    return base[position] if position < base.size else column.delta[position - base.size]


@kernel
def neighbor_at(rows: RowArrays, position: int | np.int64) -> np.int64:
    """Return the stored neighbour id at a physical position. A damaged id may be out of range."""
    base = rows.indices
    return np.int64(base[position]) if position < base.size else np.int64(rows.delta.indices[position - base.size])
