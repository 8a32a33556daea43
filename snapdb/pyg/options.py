"""The arguments of PyG's loaders, split into a SampleSpec and options for building batches."""

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
    """PyG's sampling arguments. Arguments that snapdb does not support raise an error.

    Raises:
        InputError: A value is not supported, or two arguments contradict each other.
    """

    num_neighbors: Sequence[int] | Mapping[tuple[str, str, str], Sequence[int]] | NumNeighbors
    replace: bool = False
    subgraph_type: str | SubgraphType = "directional"
    """'bidirectional' adds the reverse of each sampled edge, as in PyG. 'induced' returns all edges between the sampled
    nodes."""
    disjoint: bool = False
    temporal_strategy: str = "uniform"
    time_attr: str | None = None
    weight_attr: str | None = None
    is_sorted: bool = False
    """Ignored, because edges are always sorted."""
    directed: bool = True

    def __post_init__(self) -> None:
        if self.induced and self.trees:
            raise InputError(
                "subgraph_type='induced' (or directed=False) excludes disjoint and time_attr, as in PyG, because edges "
                "between sampled nodes belong to no tree; leave one of them out",
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
                f"temporal_strategy='last' returns the newest edges without replacement or weights; leave {other} "
                "out, or pass 'uniform'",
                code="pyg-argument",
            )

    @property
    def counts(self) -> NumNeighbors:
        """The fanouts in PyG's form. Each call returns a new object, because PyG's object caches its first result."""
        given = self.num_neighbors
        return NumNeighbors(given.values, given.default) if isinstance(given, NumNeighbors) else NumNeighbors(given)

    @property
    def trees(self) -> bool:
        """Whether each seed has a separate tree."""
        return self.disjoint or self.time_attr is not None

    @property
    def induced(self) -> bool:
        """Whether batches have all edges between their nodes."""
        return not self.directed or SubgraphType(self.subgraph_type) == SubgraphType.induced

    def spec(self, graph: PygGraph, seed_type: str, seed: int) -> SampleSpec:
        """Return the equivalent spec for seeds of a type.

        Raises:
            InputError: A fanout is not valid.
            ValueError: The edge types are not those of the graph.
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
            # PyG's loader orders and divides the seeds, so batch_size and order have no effect.
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
        """Return the edge types with weights if `weight_attr` is set."""
        if self.weight_attr is None:
            return ()
        weighed = (r for r in graph.relations.values() if graph.view.adjacency(r).weight is not None)
        return tuple((relation.edge.edge, self.weight_attr) for relation in weighed)


class LoaderOptions(TypedDict, total=False):
    """The keyword arguments of both loaders: those of PyG, and `seed`."""

    replace: bool
    subgraph_type: Any
    disjoint: bool
    temporal_strategy: str
    time_attr: str | None
    weight_attr: str | None
    is_sorted: bool
    directed: bool
    transform: Callable[[Any], Any] | None
    """Runs on the threads that build batches. It must be a pure function."""
    transform_sampler_output: Callable[[Any], Any] | None
    seed: int
    """Determines the order of seeds and all draws. PyG uses torch's generator instead."""
    batch_size: int
    shuffle: bool
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    num_workers: int
    """The number of threads that build batches. 0 uses one per core."""
    prefetch_factor: int | None
    """The number of batches per thread that may be ready or in progress."""
    pin_memory: bool
    input_id: Tensor | None
    custom_cls: Any
    neg_sampling_ratio: float | None
    persistent_workers: bool
    """Has no effect, because threads build the batches."""
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
"""Options that have no effect with threads instead of worker processes."""
_UNSUPPORTED = {
    "neighbor_sampler": "snapdb is the neighbour sampler; pass other samplers to PyG's NodeLoader or LinkLoader",
    "generator": "seed=… determines the order and the samples; pass seed instead",
    "worker_init_fn": "threads of this process build the batches; leave it out",
    "multiprocessing_context": "threads of this process build the batches; leave it out",
}
_KNOWN = _SAMPLING | frozenset(LoaderOptions.__annotations__)
_PASSED = _KNOWN - _SAMPLING - _RUNNING - _IGNORED - _UNSUPPORTED.keys()
"""Options that are passed to the loaders of PyG and torch."""


class ParsedOptions(NamedTuple):
    """The options of a loader."""

    sampling: SamplingOptions
    seed: int
    shuffle: bool
    threads: int
    ahead: int
    """The number of batches that may be ready or in progress."""
    passed: Mapping[str, Any]
    """The options for the loaders of PyG and torch."""


def read_options(num_neighbors: Any, options: LoaderOptions) -> ParsedOptions:
    """Group the options by purpose.

    Raises:
        InputError: An option is unknown or not supported. The message contains the alternative.
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
            "shuffle=True and a sampler exclude each other, because the sampler orders the seeds; leave one out",
            code="pyg-argument",
        )
    for name in ("num_workers", "prefetch_factor"):
        if (count := given.get(name)) is not None and (not isinstance(count, int) or count < 0):
            raise InputError(f"{name} must be a non-negative integer, found {count!r}", code="pyg-argument")
    if given.get("batch_size", 1) is None:
        raise InputError("batch_size must be the number of seeds per batch, found None", code="pyg-argument")
