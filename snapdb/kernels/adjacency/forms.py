"""The rows of a relation as kernels see them, in every physical form.

A node's logical row is a stretch of the root, cut short where a patch takes over, and then a stretch of the patch.
`degrees` may end it early, and `live` may leave out some of its positions. Physical positions count through the root
and then through the patch. A part that a form lacks is an empty array, so that all forms share one compiled kernel.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.bits import count_bits, rank_blocks
from snapdb.kernels.compiled import kernel


class _Parts(Protocol):
    """Values of a root and of its patch, if any."""

    @property
    def root(self) -> Array: ...
    @property
    def patch(self) -> Array | None: ...


ByPosition: TypeAlias = Array | tuple[Array, Array | None] | _Parts
"""Values by physical position: of the root alone, or of the root and of its patch."""

DAMAGED = "an adjacency is damaged: it leads out of its arrays; CHECK DATABASE names the file"


class PatchArrays(NamedTuple):
    """The rows of touched nodes: the first `kept` positions of the root's row, then a row of their own."""

    touched: UInt64s
    """A bit for each node."""
    ranks: Int64s
    """How many nodes are touched before each word."""
    kept: Int64s
    """By rank among the touched nodes, as are the rows of `indptr`."""
    indptr: Int64s
    indices: Array
    """Of the root's type."""


class _LiveArrays(NamedTuple):
    """The physical positions that are in the snapshot; no words at all: every one."""

    words: UInt64s
    before: Int64s
    """See `rank_blocks`."""


class RowArrays(NamedTuple):
    """Read-only, contiguous arrays: see `row_arrays`."""

    nodes: int
    """Nodes 0 ≤ id < nodes have a row; those beyond the root that no patch touches have an empty one."""
    indptr: Int64s
    indices: Array
    degrees: npt.NDArray[np.uint32]
    """How many logical positions of each row are in the snapshot; empty: all."""
    live: _LiveArrays
    patch: PatchArrays


def row_arrays(
    indptr: Array,
    indices: Array,
    *,
    nodes: int | None = None,
    degrees: Array | None = None,
    live: _LiveArrays | None = None,
    patch: PatchArrays | None = None,
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
        live or _LiveArrays(bits, none),
        patch or PatchArrays(bits, none, none, none, plain_array(np.empty(0), indices.dtype)),
    )
    held = rows.indices.size + rows.patch.indices.size
    if (degrees is not None and degrees.size != count) or (live and live.words.size != (held + 63) // 64):
        raise CorruptError(DAMAGED)
    return rows


def live_arrays(words: UInt64s) -> _LiveArrays:
    """A bitmap over physical positions with its counts."""
    plain = plain_array(words, np.uint64)
    return _LiveArrays(plain, plain_array(rank_blocks(plain), np.int64))


def patch_arrays(
    touched: Int64s, kept: Int64s, indptr: Int64s, indices: Array, nodes: int, kind: npt.DTypeLike
) -> PatchArrays:
    """A patch of a root whose indices are of `kind`; `touched` are ascending nodes.

    Raises:
        CorruptError: they are not, or one is not 0 ≤ id < nodes, or it has no row.
    """
    if kept.size != touched.size or indptr.size != touched.size + 1:
        raise CorruptError(DAMAGED)
    bits, ranks = np.zeros((nodes + 63) // 64, np.uint64), np.zeros((nodes + 63) // 64, np.int64)
    if not _mark(plain_array(touched, np.int64), nodes, bits, ranks):
        raise CorruptError(DAMAGED)
    return PatchArrays(
        plain_array(bits, np.uint64),
        plain_array(ranks, np.int64),
        plain_array(kept, np.int64),
        plain_array(indptr, np.int64),
        plain_array(indices, kind),
    )


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
    """The values of the root and those of its patch, if any."""
    if isinstance(values, np.ndarray):
        return values, None
    return (values[0], values[1]) if isinstance(values, tuple) else (values.root, values.patch)


def by_part(values: ByPosition | None, part: int, kind: npt.DTypeLike, size: int) -> Array:
    """The values of one part as kernels read them; nothing where nothing is asked of them."""
    if values is None:
        return plain_array(np.empty(0), kind)
    found = parts_of(values)[part]
    if (0 if found is None else found.size) != size:
        raise CorruptError(DAMAGED)
    return plain_array(np.empty(0) if found is None else found, kind)
