"""Graph algorithms of scipy, scikit-network and igraph."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import igraph  # type: ignore[import-untyped]
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sknetwork.clustering import Leiden, Louvain, PropagationClustering
from sknetwork.path import get_distances
from sknetwork.ranking import PageRank
from sknetwork.topology import get_core_decomposition

from benchmarks.algorithms_library import ITERATIONS, Later, Library, modularity, squares
from snapdb.arrays import Array


class Scipy(Library):
    """scipy.sparse, whose matrix for products is the rows of arriving edges."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shape = (self._nodes, self._nodes)
        ones = np.ones(self._load("in.indices").size)
        self._in = sparse.csr_matrix((ones, self._load("in.indices"), self._load("in.indptr")), shape)
        # The strong components of a matrix with duplicates do not end.
        self._degree = np.diff(self._load("out.indptr"))
        arrays = np.array(self._load("out.indices")), np.array(self._load("out.indptr"))
        self._out = sparse.csr_matrix((ones.copy(), *arrays), shape)
        self._out.sum_duplicates()

    def pagerank(self, threads: int) -> float:
        degree = self._degree
        inverse = np.divide(1.0, degree, out=np.zeros(self._nodes), where=degree > 0)
        rank = np.full(self._nodes, 1.0 / self._nodes)
        for _ in range(ITERATIONS):
            dangling = rank[degree == 0].sum()
            rank = 0.85 * (self._in @ (rank * inverse) + dangling / self._nodes) + 0.15 / self._nodes
        return squares(rank)

    def weakly_connected_components(self, threads: int) -> float:
        return self._components("weak")

    def strongly_connected_components(self, threads: int) -> float:
        return self._components("strong")

    def _components(self, connection: str) -> float:
        return int(csgraph.connected_components(self._out, True, connection)[0])

    def hops(self, threads: int) -> float:
        return int(csgraph.breadth_first_order(self._out, self._start, return_predecessors=False).size)


class Sknetwork(Library):
    """scikit-network."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        arrays = self._load("out.indices"), self._load("out.indptr")
        self._out = sparse.csr_matrix((np.ones(arrays[0].size, np.float32), *arrays), (self._nodes, self._nodes))

    @cached_property
    def _both(self) -> Any:
        """The matrix without directions and loops."""
        both = (self._out + self._out.T).tocsr()
        both.setdiag(0)
        both.eliminate_zeros()
        both.data[:] = 1
        return both

    def pagerank(self, threads: int) -> float:
        return squares(PageRank(solver="piteration", n_iter=ITERATIONS, tol=0).fit_predict(self._out))

    def hops(self, threads: int) -> float:
        return int(np.count_nonzero(get_distances(self._out, source=self._start) >= 0))

    def core_number(self, threads: int) -> float:
        return int(get_core_decomposition(self._both).max())

    def label_propagation(self, threads: int) -> Later:
        return self._modularity(PropagationClustering().fit_predict(self._both))

    def louvain(self, threads: int) -> Later:
        return self._modularity(Louvain(return_probs=False).fit_predict(self._out))

    def leiden(self, threads: int) -> Later:
        return self._modularity(Leiden(return_probs=False).fit_predict(self._out))

    def _modularity(self, labels: Array) -> Later:
        return lambda: modularity(self._load("ends"), labels)


class Igraph(Library):
    """igraph."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._graph = igraph.Graph(n=self._nodes, edges=self._load("ends"), directed=True)

    @cached_property
    def _simple(self) -> Any:
        return self._graph.as_undirected(mode="collapse").simplify()

    @cached_property
    def _undirected(self) -> Any:
        return self._graph.as_undirected(mode="each")

    def pagerank_converged(self, threads: int) -> float:
        return squares(np.array(self._graph.pagerank()))

    def weakly_connected_components(self, threads: int) -> float:
        return len(self._graph.connected_components(mode="weak"))

    def strongly_connected_components(self, threads: int) -> float:
        return len(self._graph.connected_components(mode="strong"))

    def hops(self, threads: int) -> float:
        return int(np.isfinite(np.array(self._graph.distances(self._start)[0])).sum())

    def core_number(self, threads: int) -> float:
        return max(self._simple.coreness())

    def local_clustering_coefficient(self, threads: int) -> float:
        return float(np.sum(self._simple.transitivity_local_undirected(mode="zero")))

    def betweenness(self, threads: int) -> float:
        return float(len(self._graph.betweenness(sources=self._sources)))

    def label_propagation(self, threads: int) -> Later:
        return self._modularity(self._undirected.community_label_propagation())

    def louvain(self, threads: int) -> Later:
        return self._modularity(self._undirected.community_multilevel())

    def leiden(self, threads: int) -> Later:
        return self._modularity(self._undirected.community_leiden("modularity", n_iterations=2))

    def _modularity(self, found: Any) -> Later:
        membership = found.membership
        return lambda: modularity(self._load("ends"), np.array(membership))


PEERS: dict[str, type[Library]] = {"scipy": Scipy, "scikit-network": Sknetwork, "igraph": Igraph}
