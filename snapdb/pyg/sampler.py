"""A sampler for PyG's loaders. Its draws depend on a number from torch or from the caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    NumNeighbors,
    SamplerOutput,
)
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample

from snapdb.arrays import Int64s
from snapdb.attribute_docs import document_attributes
from snapdb.errors import BindError, DataError, InputError
from snapdb.kernels.rng import Domain, fold_parts
from snapdb.loading.lazy import tensor_of
from snapdb.pyg.graph import PygGraph, whole_times
from snapdb.pyg.options import SamplingOptions
from snapdb.sampling import Edges, NeighborSampler, SamplerInput, SeedGroup, Subgraph, numba_sampler, vertex_input
from snapdb.types import Relation


class _KeyedNegatives(NegativeSampling):  # type: ignore[misc]  # PyG's classes have no type hints
    """A NegativeSampling with a separate generator, so that threads do not share draws.

    >>> options = NegativeSampling("triplet", amount=2)
    >>> draws = _KeyedNegatives(options, torch.Generator().manual_seed(1), {"dst": torch.tensor([7])})
    >>> draws.sample(3, "dst", num_nodes=9)
    tensor([7, 7, 7])
    """

    def __init__(
        self, options: NegativeSampling, generator: torch.Generator | None, there: Mapping[str, Tensor | None]
    ) -> None:
        """Copy the options.

        Args:
            options: PyG's options.
            generator: The generator of the draws, or None for torch's default.
            there: 'src' and 'dst' → the nodes that can be drawn at that end, or None for all.
        """
        super().__init__(options.mode, options.amount, options.src_weight, options.dst_weight)
        self._generator, self._there = generator, there

    def sample(self, num_samples: int, endpoint: Literal["src", "dst"], num_nodes: int | None = None) -> Tensor:
        """Draw [num_samples] nodes for one end, by weight if there are weights."""
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        there = self._there[endpoint]
        if weight is None:
            count = (num_nodes or 0) if there is None else len(there)
            drawn = torch.randint(count, (num_samples,), generator=self._generator)
        elif weight.numel() == num_nodes:
            chances = weight if there is None else weight[there]
            drawn = torch.multinomial(chances, num_samples, replacement=True, generator=self._generator)
        else:
            raise ValueError(
                f"{endpoint}_weight must have one number for each of {num_nodes} nodes, found {weight.numel()}"
            )
        return drawn if there is None else there[drawn]


@dataclass(frozen=True)
class NeighborhoodSampler:
    """Samples neighbourhoods in a graph as a pure function of the seeds and a number. Threads can share it."""

    graph: PygGraph
    options: SamplingOptions
    seed: int
    _open: dict[str, tuple[NeighborSampler, deque[Any]]] = field(default_factory=dict)
    """Seed type → a sampler and its unused scratch buffers."""
    _rows: dict[str, tuple[NeighborSampler, deque[Any]]] = field(default_factory=dict)
    """The same for samplers of whole rows, for induced subgraphs."""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int | np.integer) or not 0 <= self.seed < 2**64:
            raise InputError(f"seed must be an integer from 0 to 2^64 - 1, found {self.seed!r}", code="pyg-argument")

    def opened(self, seed_type: str) -> tuple[NeighborSampler, deque[Any]]:
        """Return the sampler for seeds of a type and its scratch buffers. The first call checks weights and fanouts."""
        if seed_type not in self._open:
            spec = self.options.spec(self.graph, seed_type, self.seed)
            # Two threads can get here at once. setdefault is atomic, so both use the same sampler.
            self._open.setdefault(seed_type, (numba_sampler(self.graph.view, spec), deque()))
        return self._open[seed_type]

    def draw(self, entry: SamplerInput, number: int) -> Subgraph:
        """Sample the neighbourhood of the seeds. In draw keys, `number` is used instead of the batch number."""
        sampler, idle = self.opened(entry.groups[0].type)
        for group in entry.groups:
            if group.type not in sampler.node_types:
                raise InputError(
                    f"seeds of type {group.type!r} were passed with others, but no edge type connects it; "
                    "add the edge type of the seeds to the graph",
                    code="pyg-argument",
                )
        # deque.pop is atomic, so no two threads get the same buffer.
        try:
            scratch = idle.pop()
        except IndexError:
            scratch = sampler.scratch()
        subgraph = sampler.sample(entry, number, scratch)
        idle.append(scratch)  # not in a `finally`: after a failure, the buffer may be half-written, and is dropped
        return self._induced(subgraph) if self.options.induced else subgraph

    def _induced(self, drawn: Subgraph) -> Subgraph:
        """Return the subgraph with all edges between its nodes, by expanded node and in the order of its row."""
        every = NeighborhoodSampler(self.graph, SamplingOptions([-1]), self.seed, self._rows)
        edges = {}
        for relation in drawn.edges:
            near, far = _ends_of(relation)
            rows = every.draw(vertex_input(far, drawn.nodes[far].astype(np.int64)), 0)
            found = rows.edges[relation]
            # The nodes of the row's ends: those that the batch has keep their local ids.
            ids, order = drawn.nodes[near], np.argsort(drawn.nodes[near], kind="stable")
            wanted = rows.nodes[near][found.index[0]]
            places = np.searchsorted(ids, wanted, sorter=order)
            known = places < ids.size
            known[known] = ids[order[places[known]]] == wanted[known]
            local = order[places[known]].astype(found.index.dtype)
            edges[relation] = Edges(np.stack([local, found.index[1, known]]), found.position[known])
        return replace(drawn, edges=edges)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle for spawned DataLoader workers, without scratch buffers."""
        return NeighborhoodSampler, (self.graph, self.options, self.seed)


@document_attributes
@dataclass(frozen=True)
class SnapSampler(BaseSampler):  # type: ignore[misc]  # PyG's classes have no type hints
    """A PyG BaseSampler that samples with snapdb. Pass it to PyG's NodeLoader or LinkLoader.

    Its draws depend on `torch.manual_seed`, like those of PyG's own sampler. `keyed` makes them depend on a number
    instead.
    """

    neighbourhoods: NeighborhoodSampler
    """Samples neighbourhoods in the graph as a pure function of the seeds and a number."""
    number: int | None = None
    """The number that determines the draws. If None, each call draws a number from torch's generator."""

    @property
    def num_neighbors(self) -> NumNeighbors:
        """The number of neighbours per hop and edge type."""
        return self.neighbourhoods.options.counts

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a separate tree."""
        return self.neighbourhoods.options.trees

    def open_for(self, seeds: str | tuple[str, str, str] | None) -> None:
        """Open the sampler for seeds of a type. Raises an error immediately if it cannot sample from them."""
        types = self.neighbourhoods.graph.node_types
        self.neighbourhoods.opened(types[0] if seeds is None else seeds if isinstance(seeds, str) else seeds[0])

    def keyed(self, number: int) -> SnapSampler:
        """Return the same sampler with draws and negatives that depend on a number."""
        return replace(self, number=number)

    def sample_from_nodes(self, inputs: NodeSamplerInput, **_: Any) -> SamplerOutput | HeteroSamplerOutput:
        """Sample the neighbourhoods of nodes.

        Args:
            inputs: The seeds, in the form that PyG's loaders pass.

        Raises:
            BindError: Trees are limited by time, but the nodes have no times.
            DataError: A node is not in the snapshot.
        """
        seeds = inputs.node if inputs.input_type is None else {inputs.input_type: inputs.node}
        times = inputs.time if inputs.time is None or inputs.input_type is None else {inputs.input_type: inputs.time}
        out = self._drawn(seeds, times, ordinals=inputs.input_id)
        out.metadata = (inputs.input_id, inputs.time)
        return self._whole(out)

    def sample_from_edges(
        self, inputs: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Sample the neighbourhoods of the edges' ends and of their negatives, which are drawn as in PyG.

        Args:
            inputs: The seed edges, in the form that PyG's loaders pass.
            neg_sampling: The parameters of negative sampling, or None for no negatives.

        Raises:
            BindError: Trees are limited by time, but the edges have no times.
            DataError: An end is not in the snapshot.
        """
        graph = self.neighbourhoods.graph
        if neg_sampling is not None:
            neg_sampling = self._negatives(neg_sampling, inputs.input_type)
        node_time: Any = None
        if graph.node_time:
            node_time = graph.node_time[graph.node_types[0]] if graph.single else dict(graph.node_time)
        return self._whole(edge_sample(inputs, self._drawn, graph.num_nodes, self.disjoint, node_time, neg_sampling))

    def _negatives(self, options: NegativeSampling, input_type: tuple[str, str, str] | None) -> _KeyedNegatives:
        """Return PyG's negative sampling, keyed by this number, over the existing nodes."""
        graph, generator = self.neighbourhoods.graph, None
        if self.number is not None:
            key = fold_parts(self.neighbourhoods.seed, Domain.NEG, self.number)
            generator = torch.Generator().manual_seed(int(key) >> 1)
        source, destination = (graph.node_types[0],) * 2 if input_type is None else (input_type[0], input_type[-1])
        # Dense ids can have gaps, so negatives are drawn only from existing nodes.
        return _KeyedNegatives(options, generator, {"src": graph.alive(source), "dst": graph.alive(destination)})

    def _whole(self, out: SamplerOutput | HeteroSamplerOutput) -> SamplerOutput | HeteroSamplerOutput:
        """Return the output, with reverse edges added if the options require it."""
        both = SubgraphType(self.neighbourhoods.options.subgraph_type) == SubgraphType.bidirectional
        return out.to_bidirectional(keep_orig_edges=False) if both else out

    def _drawn(
        self,
        seeds: Tensor | Mapping[str, Tensor],
        times: Tensor | Mapping[str, Tensor] | None = None,
        *,
        ordinals: Tensor | None = None,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Return the output in PyG's form: seeds first, by type. With disjoint trees, each seed is a root."""
        graph = self.neighbourhoods.graph
        by_type = seeds if isinstance(seeds, Mapping) else {graph.node_types[0]: seeds}
        entry = self._entry({name: _numbers(ids) for name, ids in by_type.items()}, times, ordinals)
        # Without a number, torch.manual_seed determines the draws, as for PyG's own sampler.
        number = int(torch.randint(2**62, ())) if self.number is None else self.number
        subgraph = self.neighbourhoods.draw(entry, number)
        out = _single(graph, subgraph) if graph.single else _by_type(graph, subgraph)
        if self.neighbourhoods.options.induced:
            out.num_sampled_edges = None  # the edges belong to no hop
        return out

    def _entry(
        self, seeds: Mapping[str, Int64s], times: Tensor | Mapping[str, Tensor] | None, ordinals: Tensor | None
    ) -> SamplerInput:
        """Return the seeds in the sampler's form."""
        self._check_there(seeds)
        bounds = np.cumsum([0, *(ids.size for ids in seeds.values())])
        trees = np.arange(bounds[-1], dtype=np.int64)
        groups = tuple(
            SeedGroup(name, ids, trees[low:high])
            for (name, ids), low, high in zip(seeds.items(), bounds, bounds[1:], strict=False)
        )
        return SamplerInput(
            groups, trees if ordinals is None else _numbers(ordinals), self._moments(seeds, times, trees.size)
        )

    def _check_there(self, seeds: Mapping[str, Int64s]) -> None:
        view = self.neighbourhoods.graph.view
        for name, ids in seeds.items():
            alive, count = view.alive[name], view.node_counts[name]
            there = (ids >= 0) & (ids < count)
            if alive is not None:
                there[there] = alive[ids[there]]
            if not there.all():
                missing = ids[~there]
                hint = f"there are {count}, numbered from 0" if alive is None else f"`there({name!r})` lists them"
                raise DataError(
                    f"{missing.size} of {ids.size} seeds of type {name} are not in the graph "
                    f"({', '.join(map(str, missing[:3]))}); choose other nodes: {hint}",
                    code="unknown-seed",
                )

    def _moments(
        self, seeds: Mapping[str, Int64s], times: Tensor | Mapping[str, Tensor] | None, count: int
    ) -> Int64s | None:
        """Return [seeds] int64, the time of each seed. Trees without times get an arbitrary one."""
        if not self.disjoint:
            return None
        if self.neighbourhoods.options.time_attr is None:
            # Without time_attr, the edges have no times either, so any seed time admits all of them.
            return np.zeros(count, np.int64)
        if times is None:
            times = self._own_times(seeds)
        by_type = times if isinstance(times, Mapping) else {next(iter(seeds)): times}
        return np.concatenate([whole_times("the seeds' time", by_type[name]).numpy() for name in seeds])

    def _own_times(self, seeds: Mapping[str, Int64s]) -> Mapping[str, Tensor]:
        """Return the times from which the seeds exist."""
        known, attr = self.neighbourhoods.graph.node_time, self.neighbourhoods.options.time_attr
        if missing := [name for name in seeds if name not in known]:
            raise BindError(
                f"trees are limited by {attr!r}, but seeds of type {missing[0]!r} have no times; pass "
                "input_time (for edges edge_label_time)",
                code="needs-seed-time",
            )
        return {name: known[name][ids] for name, ids in seeds.items()}


def _ends_of(relation: Relation) -> tuple[str, str]:
    """Return the types of the neighbours and of the expanded nodes of a relation."""
    edge = relation.edge
    return (edge.source, edge.destination) if relation.direction == "IN" else (edge.destination, edge.source)


def _numbers(values: Tensor) -> Int64s:
    """Convert integers of any width to int64 for kernels."""
    if values.is_floating_point():
        raise InputError(
            f"nodes must be integers, found {values.dtype}; convert them with .long()", code="pyg-argument"
        )
    return np.ascontiguousarray(values.numpy(), np.int64)


def _single(graph: PygGraph, drawn: Subgraph) -> SamplerOutput:
    (name,), (relation,) = graph.node_types, graph.relations.values()
    row, col = tensor_of(drawn.edges[relation].index)
    return SamplerOutput(
        tensor_of(drawn.nodes[name]),
        row,
        col,
        _edge_ids(graph, drawn, relation),
        None if drawn.trees is None else tensor_of(drawn.trees[name]),
        num_sampled_nodes=list(drawn.nodes_per_hop[name]),
        num_sampled_edges=_per_hop(drawn, relation),
    )


def _by_type(graph: PygGraph, drawn: Subgraph) -> HeteroSamplerOutput:
    """Return the output with an entry for each type, even if it is empty."""
    traversals = {tuple(key): relation for key, relation in graph.relations.items()}
    index = {key: tensor_of(drawn.edges[relation].index) for key, relation in traversals.items()}
    none, hops = torch.empty(0, dtype=torch.int64), len(drawn.hops)
    known = {name: tensor_of(ids) for name, ids in drawn.nodes.items()}
    trees = None
    if drawn.trees is not None:
        known_trees = {name: tensor_of(values) for name, values in drawn.trees.items()}
        trees = {name: known_trees.get(name, none) for name in graph.node_types}
    return HeteroSamplerOutput(
        {name: known.get(name, none) for name in graph.node_types},
        {key: ends[0] for key, ends in index.items()},
        {key: ends[1] for key, ends in index.items()},
        {key: _edge_ids(graph, drawn, relation) for key, relation in traversals.items()},
        trees,
        num_sampled_nodes={name: list(drawn.nodes_per_hop.get(name, [0] * (hops + 1))) for name in graph.node_types},
        num_sampled_edges={key: _per_hop(drawn, relation) for key, relation in traversals.items()},
    )


def _edge_ids(graph: PygGraph, drawn: Subgraph, relation: Relation) -> Tensor:
    ids = graph.view.adjacency(relation).edge_id.read(drawn.edges[relation].position)
    return tensor_of(ids.astype(np.int64, copy=False))


def _per_hop(drawn: Subgraph, relation: Relation) -> list[int]:
    return [sum(block.position.size for block in hop if block.relation == relation) for hop in drawn.hops]
