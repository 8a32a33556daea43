"""The arguments of PyG's loaders: what is sampled, as a SAMPLE statement's spec, and how batches are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import Tensor
from torch_geometric.sampler import NumNeighbors
from torch_geometric.sampler.base import SubgraphType

from snapdb.errors import InputError
from snapdb.loading.source import cores
from snapdb.pyg.graph import PygGraph
from snapdb.types import Drawing, Fanout, Method, SampleSpec, Temporal
from snapdb.types.text import did_you_mean

_STRATEGIES: dict[str, Method] = {"uniform": "UNIFORM", "last": "LATEST"}


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """PyG's arguments for how neighbours are drawn; what snapdb cannot draw raises an error.

    Raises:
        InputError: an argument has no such value here, or two do not go together.
    """

    num_neighbors: Sequence[int] | Mapping[tuple[str, str, str], Sequence[int]] | NumNeighbors
    replace: bool = False
    subgraph_type: str | SubgraphType = "directional"
    """'bidirectional' adds each sampled edge's way back, as PyG does it."""
    disjoint: bool = False
    temporal_strategy: str = "uniform"
    time_attr: str | None = None
    weight_attr: str | None = None
    is_sorted: bool = False
    """Nothing depends on it: edges are sorted here in any case."""
    directed: bool = True

    def __post_init__(self) -> None:
        if not self.directed or SubgraphType(self.subgraph_type) == SubgraphType.induced:
            raise InputError(
                "subgraph_type='induced' (or directed=False) is not supported, as snapdb returns only sampled "
                "edges; leave it out, or use PyG's own NeighborLoader",
                code="pyg-argument",
            )
        if self.temporal_strategy not in _STRATEGIES:
            raise InputError(
                f"temporal_strategy must be {' or '.join(map(repr, _STRATEGIES))}, found {self.temporal_strategy!r}",
                code="pyg-argument",
            )
        latest = self.time_attr is not None and self.temporal_strategy == "last"
        if latest and (self.replace or self.weight_attr is not None):
            other = "replace=True" if self.replace else f"weight_attr={self.weight_attr!r}"
            raise InputError(
                f"temporal_strategy='last' returns the newest edges without replacement and weights; leave {other} "
                "out, or pass 'uniform'",
                code="pyg-argument",
            )

    @property
    def counts(self) -> NumNeighbors:
        """The numbers of neighbours as PyG reads them; a new value, as PyG's keeps its first answer."""
        given = self.num_neighbors
        return NumNeighbors(given.values, given.default) if isinstance(given, NumNeighbors) else NumNeighbors(given)

    @property
    def trees(self) -> bool:
        """Whether each seed has a tree of its own."""
        return self.disjoint or self.time_attr is not None

    def spec(self, graph: PygGraph, seed_type: str, seed: int) -> SampleSpec:
        """The statement that draws so, from seeds of a type.

        Raises:
            InputError: a number of neighbours is none.
            ValueError: they are not those of the graph's edge types.
        """
        counts: Any = self.counts.get_values(list(graph.relations))
        for key in graph.relations:
            if not all(isinstance(count, int | np.integer) for count in counts[key]):
                raise InputError(
                    f"num_neighbors must have an integer per hop, found {list(counts[key])} for {tuple(key)}",
                    code="pyg-argument",
                )
        fanouts = tuple(
            Fanout(relation.edge, relation.direction, tuple(counts[key])) for key, relation in graph.relations.items()
        )
        latest = self.time_attr is not None and self.temporal_strategy == "last"
        return SampleSpec(
            snapshot=str(graph.view.lineage.get("snapshot", "")),
            seed_type=seed_type,
            seed_query="",
            fanouts=fanouts,
            batch_size=1,
            seed=seed,
            order="IN ORDER",
            text="",
            drawing=Drawing("LATEST" if latest else "UNIFORM", self.replace, self._weights(graph), self._weighted),
            temporal=Temporal(inclusive=True, within=None) if self.trees else None,
        )

    @property
    def _weighted(self) -> bool:
        return self.weight_attr is not None

    def _weights(self, graph: PygGraph) -> tuple[tuple[str, str], ...]:
        """The edge types that have weights, where `weight_attr` is set."""
        if self.weight_attr is None:
            return ()
        weighed = (r for r in graph.relations.values() if graph.view.adjacency(r).weight is not None)
        return tuple((relation.edge.edge, self.weight_attr) for relation in weighed)


class LoaderOptions(TypedDict, total=False):
    """What both loaders take by name, as PyG's take it, and `seed`."""

    replace: bool
    subgraph_type: Any
    disjoint: bool
    temporal_strategy: str
    time_attr: str | None
    weight_attr: str | None
    is_sorted: bool
    directed: bool
    transform: Callable[[Any], Any] | None
    """Runs on the threads that make batches; let it be a pure function."""
    transform_sampler_output: Callable[[Any], Any] | None
    seed: int
    """Fixes the order of seeds and all draws; PyG uses torch's generator instead."""
    batch_size: int
    shuffle: bool
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    num_workers: int
    """How many threads make batches; 0 takes all cores."""
    prefetch_factor: int | None
    """How many batches each of them may have ready or under way."""
    pin_memory: bool
    input_id: Tensor | None
    custom_cls: Any
    neg_sampling_ratio: float | None
    persistent_workers: bool
    """Like the rest below: it is ignored, or raises an error."""
    filter_per_worker: bool | None
    timeout: float
    in_order: bool
    pin_memory_device: str
    dataset: Any
    collate_fn: Any
    neighbor_sampler: Any
    generator: Any
    worker_init_fn: Any
    multiprocessing_context: Any


_SAMPLING = frozenset(field.name for field in fields(SamplingOptions))
_RUNNING = frozenset({"seed", "shuffle", "num_workers", "prefetch_factor"})
_IGNORED = frozenset(
    {"persistent_workers", "filter_per_worker", "timeout", "in_order", "pin_memory_device", "dataset", "collate_fn"}
)
"""Options without a meaning where threads stand in for worker processes."""
_UNSUPPORTED = {
    "neighbor_sampler": "snapdb is the neighbour sampler; pass other samplers to PyG's NodeLoader or LinkLoader",
    "generator": "seed=… determines order and samples; pass that",
    "worker_init_fn": "threads of this process build the batches; leave it out",
    "multiprocessing_context": "threads of this process build the batches; leave it out",
}
_KNOWN = _SAMPLING | frozenset(LoaderOptions.__annotations__)
_PASSED = _KNOWN - _SAMPLING - _RUNNING - _IGNORED - _UNSUPPORTED.keys()
"""Options for PyG's and torch's loaders."""


class ParsedOptions(NamedTuple):
    """The options of a loader."""

    sampling: SamplingOptions
    seed: int
    shuffle: bool
    threads: int
    ahead: int
    """Batches that may be ready or under way."""
    passed: Mapping[str, Any]
    """For PyG's loader and torch's."""


def read_options(num_neighbors: Any, options: LoaderOptions) -> ParsedOptions:
    """The options by what they are for.

    Raises:
        InputError: an option is unknown or not supported; the message says what to do.
    """
    arguments: Mapping[str, Any] = options
    _check(arguments)
    threads = arguments.get("num_workers", 0) or cores()
    return ParsedOptions(
        SamplingOptions(num_neighbors, **{name: value for name, value in arguments.items() if name in _SAMPLING}),
        arguments.get("seed", 0),
        arguments.get("shuffle", False),
        threads,
        threads * (arguments.get("prefetch_factor") or 2),
        {name: value for name, value in arguments.items() if name in _PASSED},
    )


def _check(given: Mapping[str, Any]) -> None:
    for name, why in _UNSUPPORTED.items():
        if given.get(name) is not None:
            raise InputError(f"{name} is not supported by loaders of snapdb.pyg: {why}", code="pyg-argument")
    if unknown := given.keys() - _KNOWN:
        hint = (
            did_you_mean(min(unknown), _KNOWN)
            or "; the arguments are those of PyG and DataLoader, and seed; clauses are supported by db.stream"
        )
        raise InputError(f"unknown argument {min(unknown)!r} of loaders of snapdb.pyg{hint}", code="pyg-argument")
    if given.get("shuffle") and (given.get("sampler") is not None or given.get("batch_sampler") is not None):
        raise InputError(
            "shuffle=True and a sampler exclude each other, as the sampler orders the seeds; leave one of them out",
            code="pyg-argument",
        )
    for name in ("num_workers", "prefetch_factor"):
        if (count := given.get(name)) is not None and (not isinstance(count, int) or count < 0):
            raise InputError(f"{name} must be an integer from 0, found {count!r}", code="pyg-argument")
    if given.get("batch_size", 1) is None:
        raise InputError("batch_size must be the number of seeds per batch, found None", code="pyg-argument")
