"""PyG's NeighborLoader and LinkNeighborLoader over snapdb. Threads prefetch batches, and a seed determines them."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack

import torch
from torch import Tensor
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData
from torch_geometric.sampler import HeteroSamplerOutput, NegativeSampling, SamplerOutput

from snapdb.errors import InputError
from snapdb.kernels.features import gather
from snapdb.kernels.rng import seed_order_key, shuffle
from snapdb.loading.lazy import tensor_of
from snapdb.loading.workers import OrderedMap
from snapdb.pyg.graph import PygGraph, in_memory
from snapdb.pyg.options import LoaderOptions, ParsedOptions, read_options
from snapdb.pyg.sampler import NeighborhoodSampler, SnapSampler
from snapdb.pyg.snapshot import SnapshotGraph
from snapdb.pyg.stores import read_stores

_KNOWN = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    }
)
"""The dtypes that numpy also supports."""


class _Gathered(Tensor):
    """A view of a tensor whose rows are gathered like those of a stream's batches: on one thread, into reused memory.

    >>> rows = torch.tensor([[1.0], [2.0], [3.0]]).as_subclass(_Gathered)
    >>> torch.index_select(rows, 0, torch.tensor([2, 0]))
    tensor([[3.],
            [1.]])
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # Compared by name, because PyG replaces torch.index_select with its own function.
        if func.__name__ == "index_select" and len(args) == 3:
            return _taken(*args)
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


def _gathered_from(data: Data | HeteroData) -> Data | HeteroData:
    """Return the same data, with node and edge columns as `_Gathered` views if their rows are contiguous."""
    # A shallow copy, so that the user's data keeps its plain tensors.
    view = copy.copy(data)
    for stores, is_column in ((view.node_stores, "is_node_attr"), (view.edge_stores, "is_edge_attr")):
        for store in stores:
            for name, value in list(store.items()):
                # PyG does not gather the rows of edge_index.
                if name != "edge_index" and _lies_in_rows(value) and getattr(store, is_column)(name):
                    store[name] = value.as_subclass(_Gathered)
    return view


def _lies_in_rows(value: Any) -> bool:
    """Return whether numpy can read the rows."""
    # numpy cannot view sparse tensors, other devices, tensors with gradients, or dtypes such as bfloat16.
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type != "cpu":
        return False
    return value.is_contiguous() and not value.requires_grad and value.dtype in _KNOWN


def _taken(values: Tensor, dim: int, index: Tensor) -> Tensor:
    plain = values.as_subclass(Tensor)
    return tensor_of(gather(plain.numpy(), index.numpy())) if dim == 0 else torch.index_select(plain, dim, index)


class _Threaded:
    """A PyG loader whose batches are built ahead by threads. A batch's number determines its samples."""

    batch_size: int | None
    batch_sampler: Any
    data: Any
    dataset: Any
    filter_fn: Callable[[Any], Any]
    input_data: Any
    pin_memory: bool
    sampler: Any

    def _begin(self, options: ParsedOptions, data: Any, seeds: Any, **labels: Any) -> None:
        """Initialize the loader. `labels` are the arguments that are specific to PyG's loader for this kind of seed."""
        sampling, passed, stores = options.sampling, dict(options.passed), data
        if isinstance(data, SnapshotGraph):
            draws, stores = data.drawing(sampling, options.seed), data.data
            # Edge features are added before the user's transform, which may read them.
            passed["transform"] = partial(_then, data.with_edge_features, passed.get("transform"))
        else:
            load = read_stores if isinstance(data, tuple) else in_memory
            graph = load(data, sampling.time_attr, sampling.weight_attr)
            draws = SnapSampler(NeighborhoodSampler(graph, sampling, options.seed))
        _check_mask(draws.neighbourhoods.graph, seeds)
        # In the MRO of both subclasses, PyG's loader follows this class, so these are its arguments.
        start: Any = super().__init__
        time = sampling.time_attr
        start(stores, sampling.num_neighbors, seeds, neighbor_sampler=draws, time_attr=time, **labels, **passed)
        _check_lengths(labels, len(self.dataset))
        self._options, self._draws, self._epoch = options, draws, 0
        draws.open_for(self.input_data.input_type)  # reports invalid options now instead of at the first batch

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Later iterations use the following epochs."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Data | HeteroData]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        threads, ahead = self._options.threads, self._options.ahead
        results: OrderedMap[Any, Data | HeteroData] = OrderedMap(
            self._batch, self._tasks(epoch), threads=threads, room=lambda under_way: ahead
        )
        # If the consumer stops early, the threads must stop too.
        try:
            yield from results
        finally:
            results.close()

    def _tasks(self, epoch: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each batch over all epochs, and the positions of its seeds."""
        count = len(self.dataset)
        order = torch.arange(count)
        if self._options.shuffle:
            # The order depends only on the seed and the epoch, so torch's generator does not affect it.
            order = torch.from_numpy(shuffle(seed_order_key(self._options.seed, epoch), count))
        size = self.batch_size
        # Rounded up, so that drop_last does not change the batch numbers of later epochs.
        whole = len(self.batch_sampler) if size is None else -(-len(self.sampler) // size)
        for index, places in enumerate(self.batch_sampler):
            yield epoch * whole + index, order[torch.as_tensor(places, dtype=torch.int64)]

    def _batch(self, task: tuple[int, Tensor]) -> Data | HeteroData:
        """Build a batch. Any thread may call this method."""
        number, places = task
        drawn = self._sampled(self._draws.keyed(number), self.input_data[places])
        batch = self._gathering().filter_fn(drawn)
        return batch.pin_memory() if self.pin_memory and torch.cuda.is_available() else batch

    def _gathering(self) -> Self:
        """Return this loader with its current data, whose rows are gathered by snapdb."""
        # The stores of a snapshot already gather their rows in snapdb.
        if not isinstance(self.data, Data | HeteroData):
            return self
        view = copy.copy(self)
        view.data = _gathered_from(self.data)
        return view

    @abstractmethod
    def _sampled(self, draws: SnapSampler, inputs: Any) -> SamplerOutput | HeteroSamplerOutput:
        """Return the sampled neighbourhood of this loader's kind of seeds."""


class NeighborLoader(_Threaded, pyg_loader.NeighborLoader):  # type: ignore[misc]  # PyG's classes have no type hints
    """PyG's NeighborLoader with snapdb as the sampler. Its arguments and batch fields are PyG's.

    The same `seed` produces the same batches with any number of threads. Each iteration is one epoch.

    Examples:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> loader = NeighborLoader(data, [1, 1], batch_size=3, seed=7)
        >>> loader, [batch.batch_size for batch in loader]
        (NeighborLoader(), [3, 1])
    """

    def __init__(
        self,
        data: Data | HeteroData | tuple[FeatureStore, GraphStore] | SnapshotGraph,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        **options: Unpack[LoaderOptions],
    ) -> None:
        """Make a loader whose batches are built ahead by threads and delivered in order.

        Args:
            data: A PyG Data or HeteroData, or (feature store, graph store), whose edges are copied immediately, or the
                result of `snapdb.pyg.open`.
            num_neighbors: The number of neighbours per hop, or a mapping of edge types to numbers. -1 includes all
                neighbours.
            input_nodes: The seeds: a mask, node indices, or (node type, mask or indices). None uses all nodes.
            input_time: [seeds] the seeds' times. None uses the times of the nodes. As in PyG, edges at the seed's time
                are included.
            options: Other arguments of NeighborLoader, and `seed` (see `snapdb.pyg.options.LoaderOptions`).

        Raises:
            InputError: An option is not supported. The message contains the alternative.
        """
        self._begin(read_options(num_neighbors, options), data, _seeds(data, input_nodes), input_time=input_time)

    def _sampled(self, draws: SnapSampler, inputs: Any) -> SamplerOutput | HeteroSamplerOutput:
        return draws.sample_from_nodes(inputs)


class LinkNeighborLoader(_Threaded, pyg_loader.LinkNeighborLoader):  # type: ignore[misc]
    """PyG's LinkNeighborLoader with snapdb as the sampler. Its arguments and batch fields are PyG's.

    Negatives are drawn as in PyG: from any two nodes or any destination, including true neighbours. They differ from
    epoch to epoch, and depend only on the seed. As in PyG, batches also sample the seed edges.
    """

    def __init__(
        self,
        data: Data | HeteroData | tuple[FeatureStore, GraphStore] | SnapshotGraph,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        neg_sampling: NegativeSampling | str | None = None,
        **options: Unpack[LoaderOptions],
    ) -> None:
        """Make a loader whose batches are built ahead by threads and delivered in order.

        Args:
            data: A PyG Data or HeteroData, or (feature store, graph store), whose edges are copied immediately, or the
                result of `snapdb.pyg.open`.
            num_neighbors: The number of neighbours per hop, or a mapping of edge types to numbers. -1 includes all
                neighbours.
            edge_label_index: The seed edges: [2, edges], an edge type, or (edge type, [2, edges]). None uses all edges.
            edge_label: [edges] the labels of the seed edges.
            edge_label_time: [edges] the times of the seed edges, with time_attr.
            neg_sampling: 'binary', 'triplet' or a NegativeSampling. None draws no negatives.
            options: Other arguments of LinkNeighborLoader, and `seed` (see `snapdb.pyg.options.LoaderOptions`).

        Raises:
            InputError: An option is not supported. The message contains the alternative.
        """
        ends = data.link_index(edge_label_index) if isinstance(data, SnapshotGraph) else edge_label_index
        labels = {"edge_label": edge_label, "edge_label_time": edge_label_time, "neg_sampling": neg_sampling}
        self._begin(read_options(num_neighbors, options), data, ends, **labels)

    def _sampled(self, draws: SnapSampler, inputs: Any) -> SamplerOutput | HeteroSamplerOutput:
        return draws.sample_from_edges(inputs, neg_sampling=self.neg_sampling)


loader, link_loader = NeighborLoader, LinkNeighborLoader


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any] | None, batch: Any) -> Any:
    """Apply the first function to the batch, and then the second function, if any."""
    changed = first(batch)
    return changed if second is None else second(changed)


def _check_mask(graph: PygGraph, seeds: Any) -> None:
    """Raise if the seeds are a mask that does not cover all nodes of their type."""
    typed = isinstance(seeds, tuple | list) and len(seeds) == 2 and isinstance(seeds[0], str)
    node_type, nodes = seeds if typed else (graph.node_types[0], seeds)
    count = graph.view.node_counts.get(node_type)
    if count is None or not isinstance(nodes, Tensor) or nodes.dtype != torch.bool or nodes.numel() == count:
        return
    raise InputError(
        f"a mask passed as input_nodes must have one value per node, found {nodes.numel()} for {count} of "
        f"type {node_type!r}",
        code="pyg-argument",
    )


def _check_lengths(given: Mapping[str, Any], count: int) -> None:
    """Raise unless labels and times have one value per seed."""
    for name in ("input_time", "edge_label", "edge_label_time"):
        if (values := given.get(name)) is not None and len(values) != count:
            raise InputError(
                f"{name} must have one value per seed, in the order of the seeds, found {len(values)} for {count} "
                "seeds",
                code="pyg-argument",
            )


def _seeds(data: Data | HeteroData | SnapshotGraph, input_nodes: Any) -> Any:
    """Return the seeds in PyG's form for this data."""
    if isinstance(data, SnapshotGraph):
        return data.input_nodes(input_nodes)
    if isinstance(data, HeteroData) and input_nodes is None:
        raise InputError(
            f"input_nodes must be the type of the seeds, one of {', '.join(map(repr, data.node_types))}, or (type, "
            "nodes)",
            code="pyg-argument",
        )
    return input_nodes
