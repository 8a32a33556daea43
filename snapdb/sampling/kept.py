"""How draws come by the rows that a cache keeps, and how such rows are filled. No batch depends on either."""

from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels import fill_rows as filling
from snapdb.kernels.drawn_rows import RowKeys
from snapdb.kernels.row_cache import BaseRows, CachedRows
from snapdb.sampling.rounds import RowTable
from snapdb.sampling.scratch import Draft
from snapdb.sampling.walks import Walk, damaged
from snapdb.types import Relation

NO_RECORDS = CachedRows(np.empty(0, np.int32), np.empty((0, 0), np.int32), np.empty((0, 2)))
"""What is read where no cache keeps drawn rows."""

_ZERO = np.uint64(0)
NO_KEYS = RowKeys(_ZERO, _ZERO, _ZERO, _ZERO, 0, _ZERO, _ZERO, _ZERO, np.empty(0, np.int32))
"""The keys of rows where there are none."""


@cache
def no_copies(kind: np.dtype[Any]) -> BaseRows:
    """What is read where no cache keeps whole rows of neighbours of this type."""
    return BaseRows(np.empty(0, np.int32), np.empty((0, 2), np.int64), np.empty(0, kind))


class CacheReader(Protocol):
    """Rows that are kept, as the threads that make batches find them; another thread may be filling them."""

    def rows(self, relation: Relation, slot: int, size: int) -> CachedRows | None:
        """The drawn rows of one table of `row_tables`."""

    def base(self, relation: Relation) -> BaseRows | None:
        """Whole rows of a relation's adjacency."""

    def count(self, counts: Int64s) -> None:
        """Told once a batch, by any thread: rows hit, rows missed, edges from the cache, edges read from the base."""


class _Filled(NamedTuple):
    """What filling took."""

    rows: int
    """That were drawn; the others were of the round that was asked for already."""
    edges: int
    """That were read of the adjacency: those of the rows, under PRIORITY all of their nodes'."""


def fill_rows(
    table: RowTable, keys: RowKeys, nodes: Int64s, low: int, high: int, cached: CachedRows, draft: Draft
) -> _Filled:
    """Draws records low ≤ number < high again where they are not of the round of `keys`.

    Record i is of nodes[i]. Batches may read on; only one thread may fill a table. `draft` is the thread's own, and
    `Draft()` at first.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    rows = edges = 0
    while low < high:
        low, drawn, read, longest = filling.fill_rows(
            table.walk.arrays, keys, table.walk.method, table.size, table.few, nodes, low, high, cached, draft.arrays
        )
        if low < 0:
            raise damaged(table.walk.relation)
        rows, edges = rows + int(drawn), edges + int(read)
        draft.reserve(0, int(longest))
    return _Filled(rows, edges)


def fill_base(walk: Walk, nodes: Int64s, starts: Int64s, low: int, high: int, base: BaseRows) -> int:
    """Copies rows low ≤ number < high to where they are to start in `base.neighbours`; returns how many edges.

    Row i is of nodes[i], and as long as `physical_lengths` says. Batches may read on.

    Raises:
        CorruptError: a row leads out of its arrays, or does not fit.
    """
    edges = filling.fill_base(walk.arrays.rows, nodes, starts, low, high, base)
    if edges < 0:
        raise damaged(walk.relation)
    return int(edges)
