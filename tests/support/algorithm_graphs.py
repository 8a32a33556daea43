"""Random graphs as edge lists, as the arrays that algorithms read, and as graphs of networkx."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np

from snapdb.arrays import Bools, Float64s, Int64s
from snapdb.types.algorithms import algorithm
from tests.support.inside.algorithms import METHODS, AlgorithmGraph, NodeWeights, Rows, Run, Side, Values


@dataclass(frozen=True)
class EdgeList:
    """A graph as a list of edges, some nodes of which may not exist."""

    nodes: int
    source: Int64s
    destination: Int64s
    weight: Float64s | None = None
    alive: Bools | None = None
    rank: Int64s | None = None
    wide: bool = field(default=False)

    @property
    def living(self) -> list[int]:
        """The nodes that exist."""
        return list(range(self.nodes)) if self.alive is None else np.flatnonzero(self.alive).tolist()

    def arrays(self) -> AlgorithmGraph:
        """The graph as algorithms read it."""
        return AlgorithmGraph(
            self.nodes, self.source.size, self._rows, self.alive, lambda: self.rank, self.weight is not None
        )

    def _rows(self, side: Side) -> Rows:
        row, other = (self.destination, self.source) if side == "IN" else (self.source, self.destination)
        order = np.argsort(row, kind="stable")
        indptr = np.zeros(self.nodes + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=self.nodes), out=indptr[1:])
        weight = np.empty(0) if self.weight is None else self.weight[order]
        rows = Rows(indptr, other[order].astype(np.int64 if self.wide else np.int32), weight)
        for array in rows:
            array.flags.writeable = False
        return rows

    def directed(self, multi: bool = True) -> Any:
        """The graph in networkx, with parallel edges or without."""
        return self._networkx(nx.MultiDiGraph() if multi else nx.DiGraph())

    def undirected(self, multi: bool = False) -> Any:
        """The graph in networkx without directions."""
        return self._networkx(nx.MultiGraph() if multi else nx.Graph())

    def simple(self) -> Any:
        """The graph in networkx without directions, parallel edges and self loops."""
        graph = self.undirected()
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        return graph

    def _networkx(self, graph: Any) -> Any:
        graph.add_nodes_from(self.living)
        weight = np.ones(self.source.size) if self.weight is None else self.weight
        ends = zip(self.source.tolist(), self.destination.tolist(), weight.tolist(), strict=True)
        graph.add_weighted_edges_from(ends)
        return graph

    def renumbered(self, draw: np.random.Generator) -> tuple[EdgeList, Int64s]:
        """The same graph with other numbers and the ranks of this one, and the new number of each node."""
        number = draw.permutation(self.nodes)
        rank = np.empty(self.nodes, np.int64)
        rank[number] = np.arange(self.nodes) if self.rank is None else self.rank
        alive = None
        if self.alive is not None:
            alive = np.empty(self.nodes, np.bool_)
            alive[number] = self.alive
        graph = EdgeList(self.nodes, number[self.source], number[self.destination], self.weight, alive, rank, self.wide)
        return graph, number


def random_graph(kind: str, draw: np.random.Generator) -> EdgeList:
    """A random graph of one of the kinds of `KINDS`."""
    nodes = int(draw.integers(2, 40))
    edges = int(draw.integers(0, 4 * nodes))
    if kind == "empty":
        return EdgeList(int(draw.integers(0, 5)), np.empty(0, np.int64), np.empty(0, np.int64))
    if kind == "star":
        ends = np.zeros(nodes - 1, np.int64), np.arange(1, nodes)
        turned = draw.random(nodes - 1) < 0.5
        return EdgeList(nodes, np.where(turned, *ends), np.where(turned, *ends[::-1]))
    source, destination = draw.integers(0, nodes, (2, edges))
    if kind == "loops":
        destination = np.where(draw.random(edges) < 0.3, source, destination)
    if kind == "parallel":
        source, destination = np.tile(source // 4, 2), np.tile(destination // 4, 2)
    if kind == "disconnected":
        destination = destination - destination % 4 + source % 4
        destination = np.where(destination < nodes, destination, source)
    alive = None
    if kind == "dead":
        alive = draw.random(nodes) < 0.7
        kept = alive[source] & alive[destination]
        source, destination = source[kept], destination[kept]
    weight = draw.integers(0, 5, source.size) / 2 if kind == "weighted" else None
    return EdgeList(nodes, source, destination, weight, alive, wide=kind == "wide")


KINDS = ("empty", "star", "loops", "parallel", "disconnected", "directed", "dead", "weighted", "wide")


def run_method(name: str, graph: EdgeList | AlgorithmGraph, threads: int = 1, **options: Any) -> Values:
    """The result of an algorithm with the defaults of its other options."""
    defaults = {option.name: option.default for option in algorithm(name).options}
    if "direction" in defaults:
        defaults["direction"] = str(defaults["direction"]).upper()
    if isinstance(options.get("seeds"), list):
        options["seeds"] = NodeWeights(np.unique(np.array(options["seeds"], np.int64)))
    arrays = graph.arrays() if isinstance(graph, EdgeList) else graph
    return METHODS[name](arrays, defaults | options, Run(threads))
