"""The memory that algorithms need, besides the rows of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from snapdb.algorithms.methods.common import id_type


@dataclass(frozen=True)
class _Size:
    """What the memory of a method depends on."""

    nodes: int
    edges: int
    both: bool
    """Whether edges are followed in both directions."""
    threads: int

    @property
    def id(self) -> int:
        """The bytes of a node number."""
        return 4 if id_type(self.nodes)(0).itemsize == 4 else 8

    def simple(self, sides: int = 2) -> int:
        """The bytes of rows without parallel edges."""
        return sides * self.edges * self.id + 40 * self.nodes


def needed_bytes(algorithm: str, nodes: int, edges: int, options: Mapping[str, Any], threads: int) -> int:
    """Return an upper estimate of the bytes of a method's arrays, with its result, and without the rows of the graph.

    Args:
        algorithm: The name of the algorithm.
        nodes: The number of nodes.
        edges: The number of edges.
        options: Its options, of which `direction` is read.
        threads: The number of threads, of which some algorithms need arrays each.

    >>> needed_bytes("pagerank", 1_000, 10_000, {}, 2)
    96000
    """
    both = str(options.get("direction", "BOTH")).upper() == "BOTH"
    # The result, and the nodes in the order of their ranks.
    return 24 * nodes + _NEEDS[algorithm](_Size(nodes, edges, both, threads))


def _communities(size: _Size) -> int:
    """The smaller graph can have as many edges in both directions as the first, which have weights."""
    return 2 * size.edges * (size.id + 8) + (150 + 10 * size.id) * size.nodes


def _triangles(size: _Size) -> int:
    return size.simple() + size.edges * size.id + (40 + size.id + 9 * size.threads) * size.nodes


def _pairs(size: _Size) -> int:
    return size.simple() + 24 * size.nodes


_NEEDS: Final[Mapping[str, Callable[[_Size], int]]] = {
    "degree": lambda size: 32 * size.nodes,
    "pagerank": lambda size: 72 * size.nodes,
    "weakly_connected_components": lambda size: (8 + size.id * (size.threads + 1)) * size.nodes,
    "strongly_connected_components": lambda size: (24 + 4 * size.id) * size.nodes,
    "core_number": lambda size: size.simple() + (16 + 3 * size.id) * size.nodes,
    "triangle_count": _triangles,
    "local_clustering_coefficient": lambda size: _triangles(size) + 24 * size.nodes,
    "hops": lambda size: (16 + 3 * size.id) * size.nodes,
    "label_propagation": lambda size: (56 + 2 * size.id) * size.nodes,
    "louvain": _communities,
    "leiden": _communities,
    "closeness": lambda size: (
        (size.simple() if size.both else 0) + (32 + (40 + 2 * size.id) * size.threads) * size.nodes
    ),
    "betweenness": lambda size: (
        size.simple(2 if size.both else 1) + (16 + (24 + 2 * size.id) * size.threads) * size.nodes
    ),
    "common_neighbours": _pairs,
    "adamic_adar": _pairs,
}
"""Name of an algorithm → the bytes of its arrays."""
