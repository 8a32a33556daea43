"""One mini-batch of random walks: vertices, edges, and skip-gram pairs with negatives, as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from snapdb.attribute_docs import document_attributes
from snapdb.loading import walk_audit
from snapdb.loading.batch import NO_SEED_COLUMN, refuse_collation
from snapdb.loading.lazy import Lazy, host, moved_values, pinned
from snapdb.loading.page import walk_page
from snapdb.loading.walk_rows import walk_rows, walk_schema
from snapdb.types import Temporal
from snapdb.types.text import counted

_OPTIONAL = ("pairs", "negatives", "y", "seed_time")
"""Fields that are a tensor or None."""


@document_attributes
@dataclass(frozen=True, eq=False, repr=False)
class WalkBatch:
    """One mini-batch of random walks, as tensors on the stream's device.

    Row `seed * per_seed + number` of `walks` is one of the walks of a seed. Vertices are dense ids from 0 for each
    vertex type, and `ids` returns your own keys. `pairs` and `negatives` have node numbers, which are unique over all
    vertex types: `node_offsets[type]` plus the dense id. An embedding table for them has `num_nodes` rows.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> results = db.script('''
        ...     CREATE TABLE person AS SELECT 'P' || range AS id FROM range(4);
        ...     CREATE TABLE knows AS SELECT 'P' || range AS a, 'P' || (range + 1) % 4 AS b FROM range(4);
        ...     CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
        ...       EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
        ...     CREATE SNAPSHOT now OF g;
        ... ''')
        >>> batch = db.stream("WALK FROM now SEEDS (FROM person SELECT id) AS person LENGTH 3 WINDOW 1 BATCH 2")[0]
        >>> batch
        WalkBatch((0, 0): 2 walks of 3 steps from 2 seeds of person; 12 pairs)
        >>> batch.walks.tolist()
        [[0, 1, 2, 3], [2, 3, 0, 1]]
        >>> batch.ids(0).to_pylist()
        ['P0', 'P2']
        >>> batch.pairs[:, :4].tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
        >>> db.close()
    """

    seed_type: str
    """The vertex type of the seeds."""
    batch_size: int
    """The number of seeds."""
    per_seed: int
    """The number of walks from each seed."""
    input_id: Tensor
    """[batch_size] int64: the position of each seed in the seed set, which is in canonical order."""
    walks: Tensor
    """[batch_size * per_seed, length + 1] int64 dense ids. Column 0 is the seed. -1 from where a walk cannot
    continue."""
    vertex_types: tuple[str, ...]
    """The vertex type of each column of `walks`."""
    pairs: Tensor | None
    """[2, pairs] int64 node numbers of centers (row 0) and contexts (row 1): the vertices of a walk that are at most
    WINDOW steps apart, in both orders. None without WINDOW."""
    negatives: Tensor | None
    """[pairs, n] int64 node numbers of n random vertices of the context's type for each pair. None without
    NEGATIVES."""
    node_offsets: Mapping[str, int]
    """Vertex type → the node number of its dense id 0. The types are in the order of `vertex_types`."""
    num_nodes: int
    """The number of node numbers, which is the size of an embedding table."""
    index: tuple[int, int]
    """(epoch, batch number within the epoch), both starting at 0. Batches are numbered across all ranks."""
    lineage: Mapping[str, Any]
    """The origin of the batch as plain JSON values. `snapdb.replay` rebuilds the batch from it."""
    edges: Mapping[str, Tensor]
    """The columns of the edges, read on first access: `e_id` and, if an edge type has EVENT TIME, `edge_time`."""
    user_ids: Mapping[str, pa.Array]
    """Vertex type → your own keys of the columns of that type, walk by walk, read on first access. NULL where `walks`
    has -1."""
    y: Tensor | None = None
    """[batch_size] or [batch_size, n]: the seeds' targets, int64 (-1 for NULL) or float32 (NaN for NULL), from the `y`
    column in SEEDS, otherwise from the graph's TARGET. None if there is neither."""
    seed_time: Tensor | None = None
    """[batch_size] int64 seed times, in the unit of `edge_time`. None if SEEDS has no `seed_time` column."""
    seed_columns: Mapping[str, Tensor] = field(default_factory=lambda: Lazy({}, NO_SEED_COLUMN))
    """Column → [batch_size] or [batch_size, n], bool, int64, float32 or float64: the other columns in SEEDS."""
    temporal: Temporal | None = None
    """The TEMPORAL clause, or None."""
    padding: bool = False
    """Whether the batch repeats one of the epoch's first batches, because its rank would otherwise have one batch fewer
    (`pad=True`)."""

    def __repr__(self) -> str:
        return f"WalkBatch({self.index}: {self._text()})"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks, without reading any data."""
        epoch, number = self.index
        return walk_page(self, f"Batch {number} of epoch {epoch}: {self._text()}", _OPTIONAL)

    def _text(self) -> str:
        text = (
            f"{counted(len(self.walks), 'walk')} of {counted(self.length, 'step')} from "
            f"{counted(self.batch_size, 'seed')} of {self.seed_type}"
        )
        if self.pairs is None:
            return text
        negatives = "" if self.negatives is None else f" with {counted(self.negatives.shape[1], 'negative')} each"
        return f"{text}; {counted(self.pairs.shape[1], 'pair')}{negatives}"

    @property
    def length(self) -> int:
        """The number of steps of each walk."""
        return self.walks.shape[1] - 1

    @property
    def e_id(self) -> Tensor:
        """[walks, length] int64: the id of each step's edge in its table. -1 for restarts and after the end."""
        return self.edges["e_id"]

    @property
    def edge_time(self) -> Tensor | None:
        """[walks, length] int64 event times: microseconds since 1970 UTC for dates and timestamps, otherwise integers.

        -2^63 for static edges and where there is no edge. None if no edge type of the walk has EVENT TIME.
        """
        return self.edges.get("edge_time")

    def ids(self, of: str | int) -> pa.Array:
        """Return your own keys as an Arrow array (structs for a composite key). The key of -1 is NULL.

        Args:
            of: A column of `walks`, for the [walks] keys of one step, or a vertex type, for those of all columns of
                that type, walk by walk.

        Raises:
            SnapdbError: The walks have no such vertex type. The error is also a KeyError.
            IndexError: The walks have no such column.
        """
        if isinstance(of, str):
            return self.user_ids[of]
        column = range(len(self.vertex_types))[of]
        name = self.vertex_types[column]
        own = [i for i, other in enumerate(self.vertex_types) if other == name]
        places = np.arange(len(self.walks)) * len(own) + own.index(column)
        return self.user_ids[name].take(pa.array(places))

    def to(self, device: str | torch.device, *, non_blocking: bool = False) -> WalkBatch:
        """Return the batch with all tensors on a device, including edge columns that are read later.

        Args:
            device: A device name, such as 'cpu' or 'cuda:0'.
            non_blocking: Whether copies from page-locked memory to a GPU are asynchronous, as in `torch.Tensor.to`.
        """
        return self.moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> WalkBatch:
        """Return the batch in page-locked memory, so that copies to a GPU overlap with computation."""
        return self.moved(pinned)

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return Arrow tables: `walks` with the rows of WALK as SQL returns them, and `pairs` if there is WINDOW.

        Walks are numbered within the batch.
        """
        key = next(iter(self.user_ids.values())).type
        if any(self.user_ids[name].type != key for name in self.user_ids):
            key = pa.string()
        schema = walk_schema(key)
        rows = walk_rows(schema, self.vertex_types, self.user_ids, host(self.e_id), first=0, batch=self.index[1])
        tables = {"walks": pa.Table.from_batches([rows], schema)}
        if self.pairs is not None:
            columns = {"center": pa.array(host(self.pairs[0])), "context": pa.array(host(self.pairs[1]))}
            if self.negatives is not None:
                values = pa.array(host(self.negatives).reshape(-1))
                columns["negatives"] = pa.FixedSizeListArray.from_arrays(values, self.negatives.shape[1])
            tables["pairs"] = pa.table(columns)
        return tables

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors in memory. They do not include edge columns, which are read on first access."""
        optional = (getattr(self, name) for name in _OPTIONAL)
        yield from (self.input_id, self.walks, *(tensor for tensor in optional if tensor is not None))
        yield from self.seed_columns.values()

    def audit(self) -> dict[str, int]:
        """Check the batch against the rules of its walks, as far as its content allows.

        Returns:
            The number of violations by rule name. All are 0 unless snapdb has a bug. The AUDIT WALK statement also
            checks the snapshot.
        """
        return walk_audit.audit(self)

    def moved(self, move: Callable[[Tensor], Tensor]) -> WalkBatch:
        """Return the batch with `move` applied to each tensor, and to edge columns when they are read."""
        there: dict[str, Any] = {
            name: move(tensor) for name in _OPTIONAL if (tensor := getattr(self, name)) is not None
        }
        return replace(
            self,
            **there,
            input_id=move(self.input_id),
            walks=move(self.walks),
            edges=moved_values(self.edges, move),
            seed_columns=moved_values(self.seed_columns, move),
        )

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError that names the attributes of walks, for an attribute of `Batch`."""
        if name in ("x", "n_id", "edge_index", "features", "only", "to_pyg", "to_dgl", "to_blocks"):
            raise AttributeError(
                f"a batch of random walks has no {name!r}; it has walks, pairs and negatives (SAMPLE returns "
                "neighbourhoods with features)",
                name=name,
                obj=self,
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


default_collate_fn_map[WalkBatch] = refuse_collation
