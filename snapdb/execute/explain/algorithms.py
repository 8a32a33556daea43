"""Graph algorithms in EXPLAIN: what they read, the expected memory, and the time and iterations of a run."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.algorithms.rows import AlgorithmRows
from snapdb.plan.computed import ComputedRows
from snapdb.plan.plan import PlanNode


def algorithm_nodes(opened: Mapping[str, ComputedRows], *, analyze: bool) -> tuple[PlanNode, ...]:
    """Return the operators of the algorithms that a query calls. With `analyze`, they have run."""
    return tuple(_node(rows, analyze=analyze) for rows in opened.values() if isinstance(rows, AlgorithmRows))


def _node(rows: AlgorithmRows, *, analyze: bool) -> PlanNode:
    nodes, edges = rows.size
    node = PlanNode("ALGORITHM", str(rows.source), (), {"nodes": nodes, "edges": edges, "bytes": rows.bytes})
    if analyze:
        details = {} if rows.values is None else rows.values.details
        node.measure({"rows": rows.rows, "seconds": round(rows.seconds, 6), **details})
    return node
