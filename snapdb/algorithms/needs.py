"""The memory that the arrays of algorithms need."""

from __future__ import annotations

from typing import Final, NamedTuple


class _Need(NamedTuple):
    """Bytes of the arrays of a method, besides the graph and the values."""

    node: int
    """Per node."""
    edge: int = 0
    """Per edge: copies of the rows, such as those of the graph without directions."""
    thread: int = 0
    """Per node and thread."""


_NEEDS: Final[dict[str, _Need]] = {
    "degree": _Need(16),
    "pagerank": _Need(40),
    "weakly_connected_components": _Need(8, thread=4),
    "strongly_connected_components": _Need(18),
    "core_number": _Need(36, 8),
    "triangle_count": _Need(44, 12, thread=8),
    "local_clustering_coefficient": _Need(60, 12, thread=8),
    "hops": _Need(12),
    "label_propagation": _Need(44),
    "louvain": _Need(60, 24),
    "leiden": _Need(80, 24),
    "closeness": _Need(32, thread=48),
    "betweenness": _Need(40, 4, thread=32),
    "common_neighbours": _Need(25, 8),
    "adamic_adar": _Need(58, 16),
}
"""Algorithm → the largest size of its arrays at any time, for node numbers of 32 bits."""

_VALUE = 24
"""The bytes of a node's value and of its row in the result, with a key of 8 bytes."""


def needed_bytes(algorithm: str, nodes: int, edges: int, threads: int) -> int:
    """Return the bytes of the arrays of an algorithm, besides those of the graph.

    >>> needed_bytes("pagerank", 1_000, 10_000, 2)
    64000
    """
    need = _NEEDS[algorithm]
    return nodes * (_VALUE + need.node + need.thread * threads) + edges * need.edge
