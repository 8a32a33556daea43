"""The methods of graph algorithms, which are functions of a graph as arrays, options and a run."""

from collections.abc import Mapping
from typing import Final

from snapdb.algorithms.graph import Method
from snapdb.algorithms.methods.centrality import betweenness, closeness
from snapdb.algorithms.methods.components import strongly_connected_components, weakly_connected_components
from snapdb.algorithms.methods.cores import core_number, local_clustering_coefficient, triangle_count
from snapdb.algorithms.methods.degree import degree
from snapdb.algorithms.methods.hops import hops
from snapdb.algorithms.methods.label_propagation import label_propagation
from snapdb.algorithms.methods.pagerank import pagerank
from snapdb.algorithms.methods.pairs import adamic_adar, common_neighbours
from snapdb.algorithms.methods.partitions import leiden, louvain

__all__ = ["METHODS"]

METHODS: Final[Mapping[str, Method]] = {
    method.__name__: method
    for method in (
        adamic_adar,
        betweenness,
        closeness,
        common_neighbours,
        core_number,
        degree,
        hops,
        label_propagation,
        leiden,
        local_clustering_coefficient,
        louvain,
        pagerank,
        strongly_connected_components,
        triangle_count,
        weakly_connected_components,
    )
}
"""Name of an algorithm → its method."""
