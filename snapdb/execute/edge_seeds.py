"""Where seed edges are: one look at every edge of a snapshot finds the ends of any number of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.graph import GraphView
from snapdb.kernels.forms import DAMAGED
from snapdb.kernels.marks import mark, marked
from snapdb.kernels.rows import logical_parts, neighbours_of
from snapdb.types import EdgeType, Relation

Int64s = npt.NDArray[np.int64]


def find_ends(
    view: GraphView, edge: EdgeType, ids: Int64s, limit: int, step: Callable[[float], None]
) -> tuple[Int64s, Int64s]:
    """[ids] the dense ids of the sources and of the destinations of edges; -1 for one that is not in the snapshot.

    Takes a bit for each edge of the table, and time that hardly depends on how many are looked for.

    Args:
        ids: Any numbers, each as often as it pleases.
        limit: Edge ids of the table are 0 ≤ id < limit.
        step: Told the share that is done; it may raise to stop.

    Raises:
        CorruptError: a row leads out of its arrays, or an edge ends in no vertex.
    """
    distinct, places = np.unique(ids, return_inverse=True)
    possible = distinct[(distinct >= 0) & (distinct < limit)]
    wanted = mark(possible, limit)
    sources, destinations = (np.full(distinct.size, -1, np.int64) for _ in range(2))
    rows = view.adjacency(Relation(edge, "IN"))
    for part in logical_parts(rows.rows) if possible.size else ():
        step(part.low / max(rows.nodes, 1))
        held = rows.edge_id.read(part.positions)
        found = marked(wanted, limit, held)
        slots = np.searchsorted(distinct, held[found])
        sources[slots] = neighbours_of(rows.rows, part.positions[found])
        starts = part.indptr - part.indptr[0]
        destinations[slots] = part.low + np.searchsorted(starts, found, side="right") - 1
    if sources.size and not -1 <= int(sources.min()) <= int(sources.max()) < view.node_counts[edge.source]:
        raise CorruptError(DAMAGED, code="damaged-snapshot")
    return sources[places], destinations[places]
