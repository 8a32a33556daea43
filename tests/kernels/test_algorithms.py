"""Graph algorithms on random graphs, compared with networkx and scipy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.centrality import betweenness as module

from snapdb.errors import DataError, QueryError
from snapdb.types.algorithms import algorithm
from tests.support.algorithm_graphs import KINDS, EdgeList, random_graph, run_method
from tests.support.inside.algorithms import NodePairs, NodeWeights, Values, needed_bytes
from tests.support.thoroughness import examples

GRAPHS = examples(50)
DIRECTIONS = ("OUT", "IN", "BOTH")


def graphs(kind: str, count: int = GRAPHS) -> Iterator[EdgeList]:
    """Random graphs of a kind."""
    for seed in range(count):
        yield random_graph(kind, np.random.default_rng(seed))


def check(graph: EdgeList, values: Values, wanted: dict[int, Any]) -> None:
    """The values are those of networkx, where a node exists."""
    living = graph.living
    assert sorted(wanted) == living
    if values.valid is not None:
        assert np.flatnonzero(values.valid).tolist() == living
    got = values.values[living]
    np.testing.assert_allclose(got, [wanted[v] for v in living], rtol=1e-9, atol=1e-12)


def turned(graph: EdgeList, direction: str, multi: bool) -> Any:
    """The graph in networkx, whose edges are followed in a direction."""
    if direction == "BOTH":
        return graph.undirected(multi)
    return graph.directed(multi) if direction == "OUT" else graph.directed(multi).reverse()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_degrees_are_those_of_networkx(kind: str, direction: str) -> None:
    for graph in graphs(kind):
        peer = graph.directed()
        view = {"OUT": peer.out_degree, "IN": peer.in_degree, "BOTH": peer.degree}[direction]
        weight = None if graph.weight is None else "weight"
        check(graph, run_method("degree", graph, direction=direction), dict(view(weight=weight)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_pagerank_is_that_of_networkx(kind: str, direction: str) -> None:
    draw = np.random.default_rng(1)
    for graph in graphs(kind):
        living = graph.living
        if not living:
            assert run_method("pagerank", graph).values.size == graph.nodes
            continue
        peer = turned(graph, direction, multi=True)
        check(
            graph,
            run_method("pagerank", graph, direction=direction, tolerance=1e-8, max_iterations=1000),
            nx.pagerank(peer, tol=1e-8, max_iter=1000),
        )
        seeds = draw.permutation(living)[: max(len(living) // 2, 1)]
        weights = draw.random(seeds.size) + 0.1
        order = np.argsort(seeds)
        check(
            graph,
            run_method(
                "pagerank",
                graph,
                direction=direction,
                tolerance=1e-8,
                max_iterations=1000,
                damping=0.6,
                seeds=NodeWeights(seeds[order].astype(np.int64), weights[order]),
            ),
            nx.pagerank(peer, 0.6, dict(zip(seeds.tolist(), weights.tolist(), strict=True)), tol=1e-8, max_iter=1000),
        )


def test_pagerank_reports_that_it_did_not_converge() -> None:
    graph = random_graph("directed", np.random.default_rng(3))
    with pytest.raises(QueryError, match="did not converge") as caught:
        run_method("pagerank", graph, tolerance=1e-15, max_iterations=3)
    assert caught.value.code == "not-converged"
    exact = run_method("pagerank", graph, tolerance=0, max_iterations=3)
    assert exact.details["iterations"] == 3


def test_pagerank_of_seeds_without_weight_is_an_error() -> None:
    graph = random_graph("directed", np.random.default_rng(3))
    with pytest.raises(DataError, match="weights of the seeds") as caught:
        run_method("pagerank", graph, seeds=NodeWeights(np.array([0, 1]), np.zeros(2)))
    assert caught.value.code == "bad-weight"


def numbered(components: Any) -> dict[int, int]:
    """Node → the number of its component, in the order of the least node of each."""
    return {v: i for i, nodes in enumerate(sorted(components, key=min)) for v in nodes}


@pytest.mark.parametrize("kind", KINDS)
def test_components_are_those_of_networkx(kind: str) -> None:
    for graph in graphs(kind):
        peer = graph.directed()
        weak = run_method("weakly_connected_components", graph)
        check(graph, weak, numbered(nx.weakly_connected_components(peer)))
        assert weak.details["components"] == nx.number_weakly_connected_components(peer)
        strong = run_method("strongly_connected_components", graph)
        check(graph, strong, numbered(nx.strongly_connected_components(peer)))


@pytest.mark.parametrize("nodes", [3_000, 20_000])
@pytest.mark.parametrize("degree", [0.7, 1.3, 3.0])
def test_components_of_larger_graphs_are_those_of_networkx(nodes: int, degree: float) -> None:
    """Near the threshold of a giant component, paths are long and components have all sizes."""
    draw = np.random.default_rng(nodes)
    source, destination = draw.integers(0, nodes, (2, int(nodes * degree)))
    graph = EdgeList(nodes, source, destination)
    for threads in (1, 3):
        weak = run_method("weakly_connected_components", graph, threads)
        check(graph, weak, numbered(nx.weakly_connected_components(graph.directed())))
        strong = run_method("strongly_connected_components", graph, threads)
        check(graph, strong, numbered(nx.strongly_connected_components(graph.directed())))


def test_a_long_cycle_is_one_strong_component() -> None:
    nodes = 5_000
    order = np.random.default_rng(0).permutation(nodes)
    graph = EdgeList(nodes, order, np.roll(order, 1))
    assert not run_method("strongly_connected_components", graph).values.any()
    path = EdgeList(nodes, order[1:], order[:-1])
    assert run_method("strongly_connected_components", path).details["components"] == nodes


@pytest.mark.parametrize("kind", KINDS)
def test_cores_and_triangles_are_those_of_networkx(kind: str) -> None:
    for graph in graphs(kind):
        peer = graph.simple()
        check(graph, run_method("core_number", graph), nx.core_number(peer) if peer else {})
        check(graph, run_method("triangle_count", graph), nx.triangles(peer))
        check(graph, run_method("local_clustering_coefficient", graph), dict(nx.clustering(peer)))


def test_cores_and_triangles_of_a_larger_graph_are_those_of_networkx() -> None:
    draw = np.random.default_rng(5)
    source = np.minimum(draw.zipf(1.6, 20_000), 800) - 1
    graph = EdgeList(800, source, draw.integers(0, 800, 20_000))
    for threads in (1, 3):
        check(graph, run_method("core_number", graph, threads), nx.core_number(graph.simple()))
        check(graph, run_method("triangle_count", graph, threads), nx.triangles(graph.simple()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hops_are_those_of_networkx(kind: str, direction: str) -> None:
    for graph in graphs(kind):
        living = graph.living
        if not living:
            continue
        draw = np.random.default_rng(graph.nodes)
        seeds = draw.permutation(living)[: int(draw.integers(1, 4))].tolist()
        for most in (None, 0, 2):
            got = run_method("hops", graph, direction=direction, seeds=seeds, max_hops=most)
            peer = turned(graph, direction, multi=False)
            wanted = nx.multi_source_dijkstra_path_length(peer, set(seeds), most, weight=None)
            assert got.valid is not None
            assert {v: int(got.values[v]) for v in np.flatnonzero(got.valid)} == wanted


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hops_of_a_larger_graph_are_those_of_networkx(direction: str) -> None:
    draw = np.random.default_rng(7)
    source, destination = draw.integers(0, 5_000, (2, 20_000))
    graph = EdgeList(5_000, source, destination)
    for threads in (1, 3):
        got = run_method("hops", graph, threads, direction=direction, seeds=[1, 2])
        wanted = nx.multi_source_dijkstra_path_length(turned(graph, direction, multi=False), {1, 2}, weight=None)
        assert got.valid is not None
        assert {v: int(got.values[v]) for v in np.flatnonzero(got.valid)} == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_closeness_is_that_of_networkx(kind: str, direction: str) -> None:
    for graph in graphs(kind):
        got = run_method("closeness", graph, direction=direction)
        check(graph, got, nx.closeness_centrality(turned(graph, direction, multi=False)))


def test_sampled_closeness_is_an_estimate() -> None:
    draw = np.random.default_rng(7)
    source, destination = draw.integers(0, 1_000, (2, 6_000))
    graph = EdgeList(1_000, source, destination)
    exact = run_method("closeness", graph, 2).values
    assert (run_method("closeness", graph, 2, samples=1_000).values == exact).all()
    near = run_method("closeness", graph, 2, samples=300, repeatable=4).values
    some = exact > 0
    assert abs(near[some] / exact[some] - 1).max() < 0.1
    assert (near != run_method("closeness", graph, samples=300, repeatable=5).values).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_betweenness_is_that_of_networkx(kind: str, direction: str) -> None:
    for graph in graphs(kind):
        peer = turned(graph, direction, multi=False)
        for normalized in (True, False):
            got = run_method("betweenness", graph, direction=direction, normalized=normalized)
            check(graph, got, nx.betweenness_centrality(peer, normalized=normalized))
        living = graph.living
        if len(living) > 2:
            seeds = np.random.default_rng(graph.nodes).permutation(living)[: len(living) // 2 + 1].tolist()
            got = run_method("betweenness", graph, direction=direction, seeds=seeds)
            wanted = _sampled_betweenness(peer, seeds)
            check(graph, got, wanted)


def _sampled_betweenness(peer: Any, seeds: list[int]) -> dict[int, float]:
    """networkx's values from given sources, which it draws itself otherwise."""
    sums = dict.fromkeys(peer, 0.0)
    for s in seeds:
        order, predecessors, sigma, _ = module._single_source_shortest_path_basic(peer, s)
        sums, _ = module._accumulate_basic(sums, order, predecessors, sigma, s)
    wanted: dict[int, float] = module._rescale(
        sums, len(peer), normalized=True, directed=peer.is_directed(), endpoints=False, sampled_nodes=seeds
    )
    return wanted


@pytest.mark.parametrize("kind", KINDS)
def test_common_neighbours_are_those_of_networkx(kind: str) -> None:
    for graph in graphs(kind):
        living, peer = graph.living, graph.simple()
        if len(living) < 2:
            continue
        draw = np.random.default_rng(graph.nodes)
        source, destination = draw.choice(living, (2, 60))
        destination = np.where(source == destination, living[0], destination)
        source = np.where(source == destination, living[1], source)
        pairs = NodePairs(source.astype(np.int64), destination.astype(np.int64))
        ends = list(zip(source.tolist(), destination.tolist(), strict=True))
        counts = run_method("common_neighbours", graph, pairs=pairs)
        assert counts.values.tolist() == [len(list(nx.common_neighbors(peer, *pair))) for pair in ends]
        sums = run_method("adamic_adar", graph, pairs=pairs)
        np.testing.assert_allclose(sums.values, [value for *_, value in nx.adamic_adar_index(peer, ends)], rtol=1e-12)


def test_common_neighbours_of_a_hub_are_found_by_search() -> None:
    draw = np.random.default_rng(2)
    spokes = np.arange(2, 4_000, 3)
    few = draw.integers(2, 4_000, 40)
    source = np.concatenate([np.zeros(spokes.size, np.int64), np.ones(few.size, np.int64)])
    graph = EdgeList(4_000, source, np.concatenate([spokes, few]))
    got = run_method("common_neighbours", graph, pairs=NodePairs(np.array([0, 1, 1]), np.array([1, 0, 1])))
    common = len({*spokes.tolist()} & {*few.tolist()})
    assert got.values.tolist() == [common, common, len({*few.tolist()})]


def test_label_propagation_finds_cliques_and_ends_where_labels_are_most_frequent() -> None:
    clique = np.array([(a, b) for a in range(8) for b in range(a)])
    edges = np.concatenate([clique + 8 * i for i in range(5)] + [np.array([(8 * i, 8 * i + 8) for i in range(4)])])
    for repeatable in range(10):
        got = run_method("label_propagation", EdgeList(40, edges[:, 0], edges[:, 1]), repeatable=repeatable)
        assert got.values.tolist() == [i // 8 for i in range(40)]
    for graph in graphs("directed"):
        got = run_method("label_propagation", graph)
        peer = graph.directed()
        assert got.details["labels changed in the last"] == 0
        for v in graph.living:
            around = [got.values[u] for edge in (*peer.in_edges(v), *peer.out_edges(v)) for u in edge if u != v]
            counts = np.bincount(around) if around else np.zeros(1)
            assert not around or counts[got.values[v]] == counts.max()


def modularity(graph: EdgeList, values: Values, resolution: float = 1.0) -> float:
    """networkx's modularity of communities."""
    groups: dict[int, set[int]] = {}
    for v in graph.living:
        groups.setdefault(int(values.values[v]), set()).add(v)
    found: float = nx.community.modularity(graph.undirected(True), groups.values(), resolution=resolution)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["louvain", "leiden"])
def test_communities_are_as_good_as_those_of_networkx(name: str, kind: str) -> None:
    ours, peers = [], []
    for graph in graphs(kind, 20):
        for resolution in (1.0, 2.0):
            got = run_method(name, graph, resolution=resolution, repeatable=graph.nodes)
            living = got.values[graph.living]
            assert sorted(set(living.tolist())) == list(range(int(got.details["communities"])))
            weight = graph.source.size if graph.weight is None else graph.weight.sum()
            if weight == 0:
                continue
            assert got.details["modularity"] == pytest.approx(modularity(graph, got, resolution), abs=1e-12)
            ours.append(modularity(graph, got, resolution))
            peer = graph.undirected(True)
            best = nx.community.louvain_communities(peer, resolution=resolution, seed=1)
            peers.append(nx.community.modularity(peer, best, resolution=resolution))
    assert not ours or np.mean(ours) > np.mean(peers) - 0.005


def test_communities_of_leiden_are_connected_and_better_than_those_of_louvain() -> None:
    draw = np.random.default_rng(4)
    block = draw.integers(0, 40, 2_000)
    source, destination = draw.integers(0, 2_000, (2, 40_000))
    kept = (block[source] == block[destination]) | (draw.random(40_000) < 0.05)
    graph = EdgeList(2_000, source[kept], destination[kept])
    peer, quality = graph.simple(), {}
    for name in ("louvain", "leiden"):
        results = [run_method(name, graph, 2, repeatable=seed) for seed in range(4)]
        quality[name] = np.mean([float(result.details["modularity"]) for result in results])
        assert any((result.values != results[0].values).any() for result in results)
    assert quality["leiden"] > quality["louvain"]
    values = run_method("leiden", graph).values
    for community in range(int(values.max()) + 1):
        assert nx.is_connected(peer.subgraph(np.flatnonzero(values == community).tolist()))


OPTIONS: dict[str, dict[str, Any]] = {
    "degree": {"direction": "BOTH"},
    "pagerank": {"tolerance": 0, "max_iterations": 20},
    "weakly_connected_components": {},
    "strongly_connected_components": {},
    "core_number": {},
    "triangle_count": {},
    "local_clustering_coefficient": {},
    "hops": {"seeds": [0, 3]},
    "label_propagation": {"repeatable": 3},
    "louvain": {"repeatable": 3},
    "leiden": {"repeatable": 3},
    "closeness": {"samples": 200},
    "betweenness": {"samples": 100},
    "common_neighbours": {},
    "adamic_adar": {},
}


@pytest.mark.parametrize("direction", ["OUT", "BOTH"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_memory_is_estimated_from_above(name: str, threads: int, direction: str) -> None:
    draw = np.random.default_rng(9)
    nodes, edges = 60_000, 200_000
    source, destination = draw.integers(0, nodes, (2, edges))
    graph = EdgeList(nodes, source, destination, rank=draw.permutation(nodes))
    options = dict(OPTIONS[name])
    if "direction" in [option.name for option in algorithm(name).options]:
        options["direction"] = direction
    elif direction == "OUT":
        pytest.skip("the algorithm has no direction")
    if name in ("closeness", "betweenness"):
        options["samples"] = 3
    if name in ("common_neighbours", "adamic_adar"):
        options = {"pairs": NodePairs(*draw.integers(0, nodes, (2, 1_000)))}
    arrays = graph.arrays()
    arrays.rows("IN"), arrays.rows("OUT"), arrays.rank
    run_method(name, arrays, threads, **options)  # numba compiles
    tracemalloc.start()
    run_method(name, arrays, threads, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= needed_bytes(name, nodes, edges, options, threads) <= 3 * peak


@pytest.mark.parametrize("name", OPTIONS)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    draw = np.random.default_rng(9)
    nodes, edges = 40_000, 100_000
    source = np.minimum(draw.zipf(1.7, edges), nodes) - 1
    weight = draw.random(edges) if name in ("degree", "pagerank", "label_propagation", "leiden") else None
    graph = EdgeList(nodes, source, draw.integers(0, nodes, edges), weight)
    options = OPTIONS[name]
    if name in ("common_neighbours", "adamic_adar"):
        options = {"pairs": NodePairs(*draw.integers(0, 50, (2, 20_000)))}
    one = run_method(name, graph, 1, **options)
    for threads in (2, 5):
        other = run_method(name, graph, threads, **options)
        assert other.values.tobytes() == one.values.tobytes()
        assert other.details == one.details


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - {"hops", "common_neighbours", "adamic_adar"}))
@pytest.mark.parametrize("kind", ["directed", "dead", "disconnected"])
def test_results_do_not_depend_on_the_numbers_of_nodes(name: str, kind: str) -> None:
    """The numbers of a snapshot of the past are others than those of a copy of its tables, but ranks are equal."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        graph = random_graph(kind, draw)
        if graph.alive is not None:  # nodes that do not exist have the last ranks
            rank = np.empty(graph.nodes, np.int64)
            rank[np.argsort(~graph.alive, kind="stable")] = np.arange(graph.nodes)
            graph = EdgeList(graph.nodes, graph.source, graph.destination, None, graph.alive, rank)
        other, number = graph.renumbered(draw)
        options = {"samples": max(len(graph.living) // 2, 1)} if name in ("closeness", "betweenness") else {}
        one = run_method(name, graph, **options).values
        two = run_method(name, other, **options).values
        np.testing.assert_allclose(two[number[graph.living]], one[graph.living], rtol=1e-12)
