"""Communities by label propagation. No library's is seeded and independent of the numbers of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Values
from snapdb.algorithms.methods.common import alone, id_type, label_components, neighbors, nodes_in_order
from snapdb.kernels.algorithms.labels import propagate_labels
from snapdb.kernels.rng import Domain, fold_parts, shuffle


def label_propagation(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of the community of each node, as int64, in the order of the least rank of each community.

    Every node begins with its own label, and takes the one with the greatest weight among its neighbors in both
    directions, until no label changes or `max_iterations` is reached. The order of the nodes, and ties, are random
    functions of `repeatable` and of ranks.
    """
    seed, most = int(options["repeatable"] or 0), int(options["max_iterations"])
    arriving, leaving = neighbors(graph, "IN"), neighbors(graph, "OUT")
    kind = id_type(graph.nodes)
    nodes = nodes_in_order(graph)
    labels = np.arange(graph.nodes, dtype=kind)
    labels[nodes] = np.arange(nodes.size)
    longest = np.diff(arriving.indptr) + np.diff(leaving.indptr)
    counts, touched = np.zeros(graph.nodes), np.empty(int(longest.max(initial=0)), kind)
    done, changed = 0, 1
    while changed > 0 and done < most:
        order = nodes[shuffle(fold_parts(seed, Domain.PHASE, done), nodes.size)]
        key = np.array([fold_parts(seed, Domain.HASH, done)]).view(np.int64)
        changed = alone(
            run,
            lambda: propagate_labels(arriving, leaving, order, labels, counts, touched, key, run.stop),  # noqa: B023
        )
        done += 1
        run.step(done / most)
    numbers, count = label_components(graph, labels, max(graph.nodes, 1))
    details = {"iterations": done, "communities": count, "labels changed in the last": int(changed)}
    return Values(numbers, graph.alive, details)
