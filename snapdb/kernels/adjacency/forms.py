"""The rows of a relation as kernels read them, in every encoding.

A node's logical row is a range of the base, cut short where a delta takes over, and then a range of the delta.
`degrees` may end it early, and `live` may leave out some of its positions. Physical positions count through the base
and then through the delta. A part that an encoding lacks is an empty array, so that all share one compiled kernel.
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
    """Values of a base and of its delta, if any."""

    @property
    def base(self) -> Array: ...
    @property
    def delta(self) -> Array | None: ...


ByPosition: TypeAlias = Array | tuple[Array, Array | None] | _Parts
"""Values by physical position: of the base alone, or of the base and of its delta."""

DAMAGED = "an adjacency is damaged: it leads out of its arrays; CHECK DATABASE names the file"


class DeltaArrays(NamedTuple):
    """The rows of touched nodes: the first `kept` positions of the base row, then a row of their own."""

    touched: UInt64s
    """A bit for each node."""
    ranks: Int64s
    """How many nodes are touched before each word."""
    kept: Int64s
    """By rank among the touched nodes, as are the rows of `indptr`."""
    indptr: Int64s
    indices: Array
    """Of the dtype of the base's indices."""


class LiveArrays(NamedTuple):
    """The physical positions that are in the snapshot; no words at all: every one."""

    words: UInt64s
    before: Int64s
    """See `rank_blocks`."""


class RowArrays(NamedTuple):
    """Read-only, contiguous arrays: see `row_arrays`."""

    nodes: int
    """Nodes 0 ≤ id < nodes have a row; those beyond the base that no delta touches have an empty one."""
    indptr: Int64s
    indices: Array
    degrees: npt.NDArray[np.uint32]
    """How many logical positions of each row are in the snapshot; empty: all."""
    live: LiveArrays
    delta: DeltaArrays


def row_arrays(
    indptr: Array,
    indices: Array,
    *,
    nodes: int | None = None,
    degrees: Array | None = None,
    live: LiveArrays | None = None,
    delta: DeltaArrays | None = None,
) -> RowArrays:
    """Rows that kernels can read, without a copy where the arrays have the right type.

    Raises:
        CorruptError: there is not a degree for each node, or not a bit for each physical position.
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
    """A bitmap over physical positions with its counts."""
    plain = plain_array(words, np.uint64)
    return LiveArrays(plain, plain_array(rank_blocks(plain), np.int64))


def delta_arrays(
    touched: Int64s, kept: Int64s, indptr: Int64s, indices: Array, nodes: int, kind: npt.DTypeLike
) -> DeltaArrays:
    """A delta over a base whose indices are of `kind`; `touched` are ascending nodes.

    Raises:
        CorruptError: they are not, or one is not 0 ≤ id < nodes, or it has no row.
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


# One bit per node marks it as touched, and the ranks of words give its row's number in the delta: O(1) per node
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
    """The array as kernels are compiled for it: contiguous and read-only."""
    plain = np.ascontiguousarray(values, dtype=kind).view()
    plain.flags.writeable = False
    return plain


def parts_of(values: ByPosition) -> tuple[Array, Array | None]:
    """The values of the base and those of its delta, if any."""
    if isinstance(values, np.ndarray):
        return values, None
    return (values[0], values[1]) if isinstance(values, tuple) else (values.base, values.delta)


class ColumnArrays(NamedTuple):
    """A column of edges as kernels read it, by physical position; both parts are empty where it is not needed."""

    base: Array
    delta: Array


def column_arrays(values: ByPosition | None, kind: npt.DTypeLike, rows: RowArrays) -> ColumnArrays:
    """The values of a column of these rows as kernels read them; no values where it is None.

    Raises:
        CorruptError: there is not one value for each physical position.
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
    """Whether a column has values, which it does not where it is not needed, or where there are no edges."""
    return column.base.size + column.delta.size > 0


# A branch instead of one concatenated array: base and delta are memory-mapped files, which a refresh must not copy
@kernel
def value_at(column: ColumnArrays, position: int | np.int64) -> Any:
    """A column's value at a physical position."""
    base = column.base
    return base[position] if position < base.size else column.delta[position - base.size]


@kernel
def neighbor_at(rows: RowArrays, position: int | np.int64) -> np.int64:
    """The id of the neighbor at a physical position, as it is stored: it may lead out of the nodes."""
    base = rows.indices
    return np.int64(base[position]) if position < base.size else np.int64(rows.delta.indices[position - base.size])
