"""One mini-batch: seeds, the sampled neighbourhood, features and targets, as tensors by node and edge type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from snapdb.errors import BindError, InputError
from snapdb.loading import adapters, audit
from snapdb.loading.lazy import Held, Lazy, pinned
from snapdb.loading.page import page
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.types import EdgeType, Temporal

_K = TypeVar("_K")
_OPTIONAL = ("y", "seed_time", "edge_label_index", "edge_label", "src_index", "dst_pos_index", "dst_neg_index")
"""Fields that are a tensor or None."""
_NO_X = "a node type has x when its vertex table says FEATURES (… AS x) in CREATE PROPERTY GRAPH"
NO_SEED_COLUMN = "SEEDS gives seeds further columns after the key, beside seed_time and y"
_NO_AGE = "an edge has an age when its table says EVENT TIME in CREATE PROPERTY GRAPH, and the sampler TEMPORAL"
NO_TREES = "nodes belong to the tree of one seed when the sampler says TEMPORAL"
_NO_EDGE_ATTR = "an edge type has edge_attr when its table says FEATURES (… AS edge_attr) in CREATE PROPERTY GRAPH"


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """One mini-batch. Mappings are keyed by node type, or by edge type as (source, edge, destination).

    An edge type walked OUT appears as (destination, 'rev_' + edge, source). Every node and edge type of the sampler
    is there, if empty. Local ids count per node type from 0: seeds first, then nodes by hop. Where the seeds are edges,
    their ends and negatives come first.
    """

    seed_type: Any
    """The node type (str) of the seeds, which are its first `batch_size` nodes; of seed edges their EdgeType."""
    batch_size: int
    """How many seeds; negatives do not count."""
    input_id: Tensor
    """[batch_size] int64 positions of the seeds in the seed set, which is in canonical order."""
    y: Tensor | None
    """[batch_size] targets, or [batch_size, n]; None when neither the seed query nor the graph names one."""
    n_id: Mapping[str, Tensor]
    """[nodes] dense ids, int64 or, where the stream was opened with `ids="int32"`, int32; see `ids` for the user's."""
    features: Mapping[str, Mapping[str, Tensor]]
    """Node type → name → [nodes, width] in the feature's type; sparse features are CSR tensors."""
    edge_index: Mapping[EdgeType, Tensor]
    """[2, edges] local ids in n_id's type [neighbour; seed side], hop after hop: messages flow toward the seeds."""
    num_sampled_nodes: Mapping[str, list[int]]
    """New nodes at the seeds and at each hop: hops + 1 numbers."""
    num_sampled_edges: Mapping[EdgeType, list[int]]
    """Edges of each hop."""
    index: tuple[int, int]
    """(epoch, batch within the epoch)."""
    lineage: Mapping[str, Any]
    """The origin of the batch, as plain values for JSON; `snapdb.replay` builds the batch again."""
    e_id: Mapping[EdgeType, Tensor]
    """[edges] int64 ids of the rows in the edge table. Read at first access, as all edge columns below."""
    edge_features: Mapping[EdgeType, Mapping[str, Tensor]]
    """Edge type → name → [edges, width] in the feature's type."""
    edge_time: Mapping[EdgeType, Tensor]
    """[edges] int64 event times, of the edge types that have them."""
    edge_weight: Mapping[EdgeType, Tensor]
    """[edges] float64 weights, of the edge types that have them: under PRIORITY those of Horvitz and Thompson, by which
    a sum over the edges estimates the sum over all that were eligible; else the graph's."""
    user_ids: Mapping[str, pa.Array]
    """What `ids` answers."""
    seed_time: Tensor | None = None
    """[batch_size] int64 times of the seeds, in the unit of event times; None when the seed query returns none."""
    batch: Mapping[str, Tensor] = field(default_factory=lambda: Lazy({}, NO_TREES))
    """Node type → [nodes] int64 index in the batch of the seed whose tree a node is in; nothing but under TEMPORAL."""
    seed_columns: Mapping[str, Tensor] = field(default_factory=lambda: Lazy({}, NO_SEED_COLUMN))
    """[batch_size], or [batch_size, n]: the other columns of the seed query, by name."""
    edge_label_index: Tensor | None = None
    """[2, pairs] local ids in n_id's type [source; destination], negatives last. None unless seeds are edges."""
    edge_label: Tensor | None = None
    """[pairs] float32: 1 for seed edges, 0 for negatives."""
    src_index: Tensor | None = None
    """[batch_size] local ids of the seed edges' sources."""
    dst_pos_index: Tensor | None = None
    """[batch_size] local ids of their destinations."""
    dst_neg_index: Tensor | None = None
    """[batch_size], or [batch_size, n] for n > 1 negatives a seed: their local ids, -1 where none was left to draw."""
    negatives_missing: int = 0
    """How many negatives could not be drawn, because too few destinations were left."""
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    """Whether a hop expands the nodes new in the last one, or all that were met before."""
    temporal: Temporal | None = None
    """What each tree may hold of the past of its seed."""
    padding: bool = False
    """Whether it is one of the epoch's first batches again, for a rank with `pad` that would have one fewer."""

    def __repr__(self) -> str:
        nodes = ", ".join(f"{len(ids)} {name}" for name, ids in self.n_id.items())
        edges = ", ".join(f"{index.shape[1]} {key.edge}" for key, index in self.edge_index.items())
        trees = "; one tree a seed" if self.batch else ""
        return f"Batch({self.index}: {self._seeds()}{trees}; nodes: {nodes}; edges: {edges})"

    def _repr_html_(self) -> str:
        """What notebooks show; nothing is read for it."""
        epoch, number = self.index
        return page(self, f"Batch {number} of epoch {epoch}: {self._seeds()}", _OPTIONAL)

    def _seeds(self) -> str:
        """The seeds in words."""
        if self.edge_label_index is None:
            return f"{self.batch_size} seeds of {self.seed_type}"
        words = f"{self.batch_size} {self.seed_type.edge} edges as seeds"
        if self.dst_neg_index is not None:
            words += f" with {self.edge_label_index.shape[1] - self.batch_size} negatives"
        return words + (f" ({self.negatives_missing} could not be drawn)" if self.negatives_missing else "")

    @property
    def x(self) -> Mapping[str, Tensor]:
        """[nodes, width] the feature named x, of the node types that have it."""
        return _named(self.features, "x", _NO_X)

    @property
    def edge_attr(self) -> Mapping[EdgeType, Tensor]:
        """[edges, width] the feature named edge_attr, of the edge types that have it."""
        return _named(self.edge_features, "edge_attr", _NO_EDGE_ATTR)

    @property
    def edge_age(self) -> Mapping[EdgeType, Tensor]:
        """[edges] int64: how long before its seed's time each edge was, in the unit of event times.

        Of the edge types that have times, under TEMPORAL. Edges without a time, which are always there, are 2^63 - 1.
        """
        timed = self.edge_time if self.seed_time is not None and self.batch else ()
        return Lazy({key: _Age(self, key) for key in timed}, _NO_AGE)

    @property
    def only(self) -> _Only:
        """The same batch without keys, for one node type and one edge type."""
        return _Only(self)

    def ids(self, node_type: str) -> pa.Array:
        """The user's ids of a node type's nodes, in local order."""
        return self.user_ids[node_type]

    def to(self, device: str | torch.device, *, non_blocking: bool = False) -> Batch:
        """The batch with its tensors on a device; edge columns that are read later go there too."""
        return self.moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, from where copies to a GPU can overlap with work."""
        return self.moved(pinned)

    def to_pyg(self) -> Any:
        """PyG's `Data` for one node type and one edge type, else `HeteroData`, as its NeighborLoader returns."""
        return adapters.to_pyg(self)

    def to_blocks(self) -> list[adapters.FlowBlock]:
        """One bipartite block for each layer of a network, in the order in which layers are applied.

        Under LAYOUT BLOCKS a layer has the edges of its own hop alone, as DGL's blocks do; else those of all hops that
        its destinations need.
        """
        return adapters.to_blocks(self)

    def to_arrow(self) -> dict[str | EdgeType, pa.Table]:
        """One table for each node type and each edge type."""
        return adapters.to_arrow(self)

    def tensors(self) -> Iterator[Tensor]:
        """The tensors that are here; those of edge columns that are read later are not among them."""
        optional = (getattr(self, name) for name in _OPTIONAL)
        yield from (self.input_id, *(tensor for tensor in optional if tensor is not None))
        yield from (*self.n_id.values(), *self.edge_index.values(), *self.batch.values(), *self.seed_columns.values())
        for features in self.features.values():
            yield from features.values()

    def audit(self) -> dict[str, int]:
        """How often the batch breaks each of its rules, as far as it tells by itself: 0 in a correct engine."""
        return audit.audit(self)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with `move` applied to each tensor, to those of edge columns once they are read."""

        def each(values: Mapping[_K, Tensor]) -> Mapping[_K, Tensor]:
            if isinstance(values, Lazy):
                return values.changed(move)
            return Held({key: move(value) for key, value in values.items()})

        there: dict[str, Any] = {
            name: move(tensor) for name in _OPTIONAL if (tensor := getattr(self, name)) is not None
        }
        return replace(
            self,
            **there,
            input_id=move(self.input_id),
            n_id=each(self.n_id),
            features=Held({name: each(values) for name, values in self.features.items()}),
            edge_index=each(self.edge_index),
            e_id=each(self.e_id),
            edge_features=Held({key: each(values) for key, values in self.edge_features.items()}),
            edge_time=each(self.edge_time),
            edge_weight=each(self.edge_weight),
            batch=each(self.batch),
            seed_columns=each(self.seed_columns),
        )


class _Only:
    """A batch of one node type and one edge type, whose attributes answer without a key."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        return f"{self._batch!r}.only"

    def ids(self) -> pa.Array:
        """The user's ids of the nodes, in local order."""
        return self.user_ids

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._batch, name)
        keys = self._batch.edge_index if name.startswith(("e", "num_sampled_e")) else self._batch.n_id
        if not isinstance(value, Mapping) or name in ("lineage", "seed_columns"):
            return value
        if len(keys) != 1:
            found = ", ".join(repr(tuple(key) if isinstance(key, tuple) else key) for key in keys)
            raise BindError(
                f"`only` needs one type for {name}, but the batch has {found}: say batch.{name}[type]",
                code="several-types",
            )
        return value[next(iter(keys))]


def _named(features: Mapping[_K, Mapping[str, Tensor]], name: str, hint: str) -> Mapping[_K, Tensor]:
    """One feature of the types that have it."""
    return Lazy({key: _Pick(named, name) for key, named in features.items() if name in named}, hint)


@dataclass(frozen=True)
class _Pick:
    """Reads one feature."""

    features: Mapping[str, Tensor]
    name: str

    def __call__(self) -> Tensor:
        return self.features[self.name]


@dataclass(frozen=True)
class _Age:
    """Reads the ages of one type's edges."""

    batch: Batch
    key: EdgeType

    def __call__(self) -> Tensor:
        batch, time = self.batch, self.batch.edge_time[self.key]
        assert batch.seed_time is not None
        # The expanded node of an edge is in the tree of the seed whose time the age refers to.
        tree = batch.batch[self.key.destination][batch.edge_index[self.key][1]]
        return torch.where(time == STATIC, FOREVER, batch.seed_time[tree] - time)


def _collated(batches: list[Batch], **_: Any) -> None:
    """Raise an error: a DataLoader of batch_size=1 or more would collate several batches into one."""
    raise InputError(
        "a DataLoader would collate batches, but each is whole already, of as many seeds as BATCH says; "
        "say DataLoader(…, batch_size=None)",
        code="collate",
    )


default_collate_fn_map[Batch] = _collated
