"""One mini-batch: seeds, the sampled neighbourhood, features and targets, as tensors by node and edge type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from snapdb.attribute_docs import document_attributes
from snapdb.errors import BindError, InputError
from snapdb.loading import adapters, audit, dgl_graphs
from snapdb.loading.lazy import Held, Lazy, moved_values, pinned
from snapdb.loading.page import page
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.types import EdgeType, Temporal

_K = TypeVar("_K")
_OPTIONAL = ("y", "seed_time", "edge_label_index", "edge_label", "src_index", "dst_pos_index", "dst_neg_index")
"""Fields that are a tensor or None."""
_NO_X = "x is declared by FEATURES (… AS x) of a vertex table in CREATE PROPERTY GRAPH"
NO_SEED_COLUMN = "seeds have the columns that SEEDS returns after the key, other than seed_time and y"
_NO_AGE = "edges have an age if their table has EVENT TIME in CREATE PROPERTY GRAPH, and the sampler TEMPORAL"
NO_TREES = "each node belongs to the tree of one seed if the sampler has TEMPORAL"
_NO_EDGE_ATTR = "edge_attr is declared by FEATURES (… AS edge_attr) of an edge table in CREATE PROPERTY GRAPH"


@document_attributes
@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """One mini-batch: seeds, sampled nodes and edges, features and targets, as tensors.

    Mappings are keyed by node type, or by edge type as (source, edge, destination). An edge type that is traversed in
    reverse (OUT) has the key (destination, 'rev_' + edge, source). Every node type and edge type of the sampler has a
    key, even if the batch has no such nodes or edges.

    Local ids start at 0 for each node type: seeds first, then the nodes of hop 1, hop 2 and so on. If the seeds are
    edges, their sources, destinations and negatives are first.

    Edge columns (`e_id`, `edge_features`, `edge_time`, `edge_weight`) and `user_ids` are read on first access. All
    tensors are on the stream's device.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> results = db.script('''
        ...     CREATE TABLE person AS SELECT 'P' || range AS id, [range, 1]::FLOAT[2] AS f FROM range(4);
        ...     CREATE TABLE knows AS SELECT 'P' || range AS a, 'P' || (range + 1) % 4 AS b FROM range(4);
        ...     CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (f AS x))
        ...       EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
        ...     CREATE SNAPSHOT now OF g;
        ... ''')
        >>> batch = db.stream("SAMPLE FROM now SEEDS (FROM person SELECT id) AS person FANOUT (knows => [1])")[0]
        >>> batch
        Batch((0, 0): 4 seeds of person; nodes: 4 person; edges: 4 knows)
        >>> batch.x["person"].shape
        torch.Size([4, 2])
        >>> batch.edge_index["person", "knows", "person"].tolist()
        [[3, 2, 0, 1], [0, 1, 2, 3]]
        >>> batch.ids("person").to_pylist()
        ['P0', 'P2', 'P1', 'P3']
        >>> db.close()
    """

    seed_type: Any
    """The node type (str) of the seeds, which are its first `batch_size` nodes, or their EdgeType if the seeds are
    edges."""
    batch_size: int
    """The number of seeds, without negatives."""
    input_id: Tensor
    """[batch_size] int64: the position of each seed in the seed set, which is in canonical order."""
    y: Tensor | None
    """[batch_size] or [batch_size, n]: the seeds' targets, int64 (-1 for NULL) or float32 (NaN for NULL), from the `y`
    column in SEEDS, otherwise from the graph's TARGET. None if there is neither."""
    n_id: Mapping[str, Tensor]
    """Node type → [nodes] dense ids, int64, or int32 if the stream has `ids="int32"`. `ids` returns your own keys."""
    features: Mapping[str, Mapping[str, Tensor]]
    """Node type → feature → [nodes, width] in the feature's dtype. A sparse feature is a CSR tensor. Under TEMPORAL, a
    feature with a history has its value as of the seed time."""
    edge_index: Mapping[EdgeType, Tensor]
    """Edge type → [2, edges] local ids in the dtype of `n_id`, hop by hop. Row 0 is the neighbour, and row 1 is the
    node on the seed side. Messages are passed from row 0 to row 1."""
    num_sampled_nodes: Mapping[str, list[int]]
    """Node type → hops + 1 counts: the seeds, then the nodes that each hop adds."""
    num_sampled_edges: Mapping[EdgeType, list[int]]
    """Edge type → the number of edges in each hop."""
    index: tuple[int, int]
    """(epoch, batch number within the epoch), both starting at 0. Batches are numbered across all ranks."""
    lineage: Mapping[str, Any]
    """The origin of the batch as plain JSON values. `snapdb.replay` rebuilds the batch from it."""
    e_id: Mapping[EdgeType, Tensor]
    """Edge type → [edges] int64: the id of each edge's row in its table."""
    edge_features: Mapping[EdgeType, Mapping[str, Tensor]]
    """Edge type → feature → [edges, width] in the feature's dtype."""
    edge_time: Mapping[EdgeType, Tensor]
    """Edge type → [edges] int64 event times: microseconds since 1970 UTC for dates and timestamps, otherwise the
    column's integers. Only edge types with EVENT TIME have a key."""
    edge_weight: Mapping[EdgeType, Tensor]
    """Edge type → [edges] float64 weights. Under PRIORITY, these are Horvitz-Thompson weights: a weighted sum over the
    sampled edges estimates the sum over all eligible edges. Otherwise, only edge types with WEIGHT have a key."""
    user_ids: Mapping[str, pa.Array]
    """Node type → [nodes] your own keys in local order, as an Arrow array (structs for a composite key)."""
    seed_time: Tensor | None = None
    """[batch_size] int64 seed times, in the unit of `edge_time`. None if SEEDS has no `seed_time` column."""
    batch: Mapping[str, Tensor] = field(default_factory=lambda: Lazy({}, NO_TREES))
    """Node type → [nodes] int64: the index within the batch of the seed whose tree contains the node. Empty unless the
    sampler has TEMPORAL."""
    seed_columns: Mapping[str, Tensor] = field(default_factory=lambda: Lazy({}, NO_SEED_COLUMN))
    """Column → [batch_size] or [batch_size, n], bool, int64, float32 or float64: the other columns in SEEDS."""
    edge_label_index: Tensor | None = None
    """[2, pairs] local ids in the dtype of `n_id`, [source; destination]: seed edges, then negatives. None unless the
    seeds are edges."""
    edge_label: Tensor | None = None
    """[pairs] float32: 1 for seed edges, 0 for negatives. None unless the seeds are edges."""
    src_index: Tensor | None = None
    """[batch_size] local ids of the seed edges' sources. None unless the seeds are edges."""
    dst_pos_index: Tensor | None = None
    """[batch_size] local ids of the seed edges' destinations. None unless the seeds are edges."""
    dst_neg_index: Tensor | None = None
    """[batch_size], or [batch_size, n] for n > 1 negatives per seed edge: local ids of the negatives, or -1 for
    negatives that could not be drawn. None without NEGATIVES."""
    negatives_missing: int = 0
    """The number of negatives that could not be drawn because there were too few eligible destinations."""
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    """With NODES, a hop expands the nodes that the previous hop added. With BLOCKS, it expands all nodes so far, as in
    DGL."""
    temporal: Temporal | None = None
    """The sampler's TEMPORAL clause, or None."""
    padding: bool = False
    """Whether the batch repeats one of the epoch's first batches, because its rank would otherwise have one batch fewer
    (`pad=True`)."""

    def __repr__(self) -> str:
        nodes = ", ".join(f"{len(ids)} {name}" for name, ids in self.n_id.items())
        edges = ", ".join(f"{index.shape[1]} {key.edge}" for key, index in self.edge_index.items())
        trees = "; one tree per seed" if self.batch else ""
        return f"Batch({self.index}: {self._seeds()}{trees}; nodes: {nodes}; edges: {edges})"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks, without reading any data."""
        epoch, number = self.index
        return page(self, f"Batch {number} of epoch {epoch}: {self._seeds()}", _OPTIONAL)

    def _seeds(self) -> str:
        """Return a description of the seeds."""
        if self.edge_label_index is None:
            return f"{self.batch_size} seeds of {self.seed_type}"
        words = f"{self.batch_size} {self.seed_type.edge} edges as seeds"
        if self.dst_neg_index is not None:
            words += f" with {self.edge_label_index.shape[1] - self.batch_size} negatives"
        return words + (f" ({self.negatives_missing} could not be drawn)" if self.negatives_missing else "")

    @property
    def x(self) -> Mapping[str, Tensor]:
        """Node type → [nodes, width]: the feature named x. Only node types with this feature have a key."""
        return _named(self.features, "x", _NO_X)

    @property
    def edge_attr(self) -> Mapping[EdgeType, Tensor]:
        """Edge type → [edges, width]: the feature named edge_attr. Only edge types with this feature have a key."""
        return _named(self.edge_features, "edge_attr", _NO_EDGE_ATTR)

    @property
    def edge_age(self) -> Mapping[EdgeType, Tensor]:
        """Edge type → [edges] int64: the age of each edge at its seed time, in the unit of `edge_time`.

        Only edge types with EVENT TIME have a key, and only under TEMPORAL. An edge without a time is visible to every
        seed, and its age is 2^63 - 1.
        """
        timed = self.edge_time if self.seed_time is not None and self.batch else ()
        return Lazy({key: _Age(self, key) for key in timed}, _NO_AGE)

    @property
    def only(self) -> _Only:
        """The batch's attributes without keys, for a batch with one node type and one edge type.

        `batch.only.x` is `batch.x[type]`, `batch.only.edge_index` is `batch.edge_index[type]`, and so on. With several
        types, an attribute raises BindError.
        """
        return _Only(self)

    def ids(self, node_type: str) -> pa.Array:
        """Return your own keys for a type's nodes: [nodes], in local order, as an Arrow array.

        Raises:
            SnapdbError: The batch has no such node type. The error is also a KeyError.
        """
        return self.user_ids[node_type]

    def to(self, device: str | torch.device, *, non_blocking: bool = False) -> Batch:
        """Return the batch with all tensors on a device, including edge columns that are read later.

        Args:
            device: A device name, such as 'cpu' or 'cuda:0'.
            non_blocking: Whether copies from page-locked memory to a GPU are asynchronous, as in `torch.Tensor.to`.
        """
        return self.moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory, so that copies to a GPU overlap with computation."""
        return self.moved(pinned)

    def to_pyg(self) -> Any:
        """Return the batch in NeighborLoader's form: `Data` for one node type and one edge type, else `HeteroData`.

        Local ids are int64, as PyG's layers require. If the seeds are edges, the form is that of LinkNeighborLoader.

        Raises:
            InputError: PyG is not installed, or the batch has LAYOUT BLOCKS.
        """
        return adapters.to_pyg(self)

    def to_dgl(self) -> Any:
        """Return the batch as a `DGLGraph`, or under LAYOUT BLOCKS as a list of DGL's blocks, outermost hop first.

        Nodes have the batch's local ids, so the seeds are the first. Node data are the features, `dgl.NID` (`n_id`),
        and `y`, `input_id`, `seed_time` and the other columns of SEEDS. They have a missing value for nodes that are
        not seeds: -1, NaN or False, and -2^63 for times. Edge data are the features, `dgl.EID` (`e_id`), `edge_time`
        and `edge_weight`. As in DGL's DataLoader, the first block has the features (`srcdata`), and the last one has
        the columns of the seeds (`dstdata`). `edge_label_index` contains seed edges as nodes of the graph.

        Raises:
            InputError: DGL is not installed.
            BindError: A seed column has the same name as a feature.
        """
        return dgl_graphs.to_dgl(self)

    def to_blocks(self) -> list[adapters.FlowBlock]:
        """Return one bipartite block per network layer, in the order in which the layers are applied.

        Under LAYOUT BLOCKS, a block has only the edges of its hop, as in DGL. Otherwise, it has the edges of all hops
        that its destinations need, like PyG's `trim_to_layer`.
        """
        return adapters.to_blocks(self)

    def to_arrow(self) -> dict[str | EdgeType, pa.Table]:
        """Return one Arrow table per node type and per edge type, with the same keys as the batch's mappings."""
        return adapters.to_arrow(self)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors in memory. They do not include edge columns, which are read on first access."""
        optional = (getattr(self, name) for name in _OPTIONAL)
        yield from (self.input_id, *(tensor for tensor in optional if tensor is not None))
        yield from (*self.n_id.values(), *self.edge_index.values(), *self.batch.values(), *self.seed_columns.values())
        for features in self.features.values():
            yield from features.values()

    def audit(self) -> dict[str, int]:
        """Check the batch against its sampler's rules, as far as its content allows.

        Returns:
            The number of violations by rule name. All are 0 unless snapdb has a bug. The AUDIT SAMPLE statement also
            checks the snapshot.
        """
        return audit.audit(self)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with `move` applied to each tensor, and to edge columns when they are read."""
        there: dict[str, Any] = {
            name: move(tensor) for name in _OPTIONAL if (tensor := getattr(self, name)) is not None
        }
        return replace(
            self,
            **there,
            input_id=move(self.input_id),
            n_id=moved_values(self.n_id, move),
            features=Held({name: moved_values(values, move) for name, values in self.features.items()}),
            edge_index=moved_values(self.edge_index, move),
            e_id=moved_values(self.e_id, move),
            edge_features=Held({key: moved_values(values, move) for key, values in self.edge_features.items()}),
            edge_time=moved_values(self.edge_time, move),
            edge_weight=moved_values(self.edge_weight, move),
            batch=moved_values(self.batch, move),
            seed_columns=moved_values(self.seed_columns, move),
        )


class _Only:
    """A batch with one node type and one edge type, whose attributes need no key."""

    # These declarations are for editors and type checkers. __getattr__ reads the attributes.
    n_id: Tensor
    x: Tensor
    features: Mapping[str, Tensor]
    batch: Tensor
    num_sampled_nodes: list[int]
    edge_index: Tensor
    e_id: Tensor
    edge_attr: Tensor
    edge_features: Mapping[str, Tensor]
    edge_time: Tensor
    edge_age: Tensor
    edge_weight: Tensor
    num_sampled_edges: list[int]
    y: Tensor | None
    input_id: Tensor
    batch_size: int
    seed_time: Tensor | None
    user_ids: pa.Array

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        return f"{self._batch!r}.only"

    def ids(self) -> pa.Array:
        """Return your own keys for the nodes: [nodes], in local order."""
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
                f"`only` needs one type for {name}, but the batch has {found}; write batch.{name}[type]",
                code="several-types",
            )
        return value[next(iter(keys))]


def _named(features: Mapping[_K, Mapping[str, Tensor]], name: str, hint: str) -> Mapping[_K, Tensor]:
    """Return the feature with this name, for the types that have one."""
    return Lazy({key: _Pick(named, name) for key, named in features.items() if name in named}, hint)


@dataclass(frozen=True)
class _Pick:
    """A callable that reads one feature."""

    features: Mapping[str, Tensor]
    name: str

    def __call__(self) -> Tensor:
        return self.features[self.name]


@dataclass(frozen=True)
class _Age:
    """A callable that reads the ages of an edge type's edges."""

    batch: Batch
    key: EdgeType

    def __call__(self) -> Tensor:
        batch, time = self.batch, self.batch.edge_time[self.key]
        assert batch.seed_time is not None
        # An edge's expanded node is in the tree of the seed that defines the edge's age.
        tree = batch.batch[self.key.destination][batch.edge_index[self.key][1]]
        return torch.where(time == STATIC, FOREVER, batch.seed_time[tree] - time)


def refuse_collation(batches: list[Any], **_: Any) -> None:
    """Raise an error, because a DataLoader with a batch_size would collate several batches into one."""
    raise InputError(
        "DataLoader must not collate batches, because each batch is complete, with the number of seeds "
        "that BATCH specifies; "
        "write DataLoader(…, batch_size=None)",
        code="collate",
    )


default_collate_fn_map[Batch] = refuse_collation
