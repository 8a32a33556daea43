"""Exact layer-wise inference: each layer is computed for all nodes from the states of the previous layer.

A node's multi-hop neighbourhood, which grows with each hop, is never sampled. Instead, a layer reads batches of all
nodes with all of their neighbours, in which the feature `x` is the state after the previous layer. The cost is linear
in the number of edges and layers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.arrays import Array, Int64s
from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError
from snapdb.graph.features import ArrayFeature
from snapdb.graph.view import Feature, GraphView
from snapdb.loading.batch import Batch
from snapdb.loading.source import Sharing, StreamOptions, StreamSource
from snapdb.loading.stream import BatchStream
from snapdb.sampling import Seeds
from snapdb.storage.array_files import temporary_bytes
from snapdb.train.models import Layers
from snapdb.types import SampleSpec

ALONE = Sharing()
"""All batches of a pass, for a single process."""
_ROWS = 1 << 14
"""The number of rows per record batch."""


@document_attributes
@dataclass(frozen=True, eq=False, repr=False)
class Inferred:
    """The outputs of a model for all vertices of a type, as returned by `db.infer`.

    It is an Arrow stream, which `db.register`, polars, DuckDB and pyarrow read as a table.
    """

    node_type: str
    """The vertex type."""
    key: tuple[str, ...]
    """The names of the key columns."""
    ids: pa.Array
    """[nodes] your own keys, of the key's type, or structs for a composite key."""
    states: Tensor
    """[nodes, width] or [nodes]: the outputs in the order of `ids`. Large outputs are stored in a file, which is
    removed when the tensor is freed."""
    column: str
    """The name of the table's output column."""

    def __repr__(self) -> str:
        shape = tuple(self.states.shape)
        return f"Inferred({self.column} of {shape[0]} {self.node_type}, shape {shape}, {self.states.dtype})"

    def __len__(self) -> int:
        return len(self.states)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table: the key columns, followed by the outputs as fixed-size lists or numbers."""
        return pa.schema(self._batch(0, 0).schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return the table as a record batch reader, so that it does not have to fit in memory."""
        starts = range(0, len(self), _ROWS)
        batches: Iterator[pa.RecordBatch] = (self._batch(start, start + _ROWS) for start in starts)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def arrow(self) -> pa.Table:
        """Return the table: the key columns and the outputs."""
        return self.reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow C stream for polars, DuckDB, pyarrow and other libraries."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def _batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the rows start ≤ i < stop as a record batch."""
        ids = self.ids.slice(start, stop - start)
        keys = [ids] if len(self.key) == 1 else ids.flatten()
        return pa.record_batch([*keys, _column(self.states[start:stop])], [*self.key, self.column])


def _column(states: Tensor) -> pa.Array:
    """Return rows of numbers as an Arrow array. Half precision is converted to single precision, which SQL supports."""
    if states.dtype == torch.float16:
        states = states.float()
    values = pa.array(states.reshape(-1).numpy())
    return values if states.dim() == 1 else pa.FixedSizeListArray.from_arrays(values, states.shape[1])


_Features = Mapping[str, Mapping[str, Feature]]


class BatchStates(NamedTuple):
    """A layer's states for the seeds of one batch."""

    number: int
    """The number of the batch in its pass."""
    where: Int64s
    """[seeds] the places of the seeds: their dense ids, or for the last layer their positions."""
    states: Array | None
    """[seeds, width] or [seeds]: the states, or None if the layer returns none for the type."""


Run = Callable[[int, str, Mapping[str, Array]], Iterator[BatchStates]]
"""Runs a pass: maps the number of a layer, a node type and the previous layer's states to the states of its batches.

They can be in any order.
"""


@document_attributes
@dataclass(frozen=True)
class Passes:
    """Layer-wise inference: one pass over a snapshot's nodes per layer and node type. `db.infer` runs it."""

    view: GraphView
    """The snapshot as arrays."""
    spec: SampleSpec
    """The sampler for a layer's batches. Its seeds are ignored."""
    layers: Layers
    """The layers of the model."""
    folder: Path
    """The directory for the state files. They have no names, and the system removes them when they are closed."""
    transform: Callable[[Any], Any] | None
    """A function that is applied to the features before the first layer, or None."""
    threads: int | None
    """The number of threads that build batches, or None for one per core, but at most `most` threads."""
    most: int | None
    """The maximum number of threads if `threads` is None. None means the number of cores."""
    device: str | None
    """The device of the batches, or None for the device of the model's weights."""
    step: Callable[[str, float], None]
    """Called with the current step and the share of completed work, from 0 to 1. It may raise an error to stop."""

    def states(self, node_type: str, run: Run | None = None) -> Tensor:
        """Return the last layer's states for all nodes of a type, by dense id: [nodes, width] or [nodes].

        Args:
            node_type: The type.
            run: Runs the passes, for example on other machines. Defaults to `results`.

        Raises:
            InputError: The type has no nodes, or a layer does not return one row per seed.
            DatabaseError: The disk does not have enough space for the states.
        """
        plan = self._needed(node_type)
        total = sum(self._batches(kind) for kinds in plan for kind in kinds)
        fresh: dict[str, Array] = {}
        done = 0
        # No dropout and no gradients, so that inference is deterministic and stores no activations.
        with self.layers.at_rest():
            for number, kinds in enumerate(plan):
                # Earlier layers' states are freed with their files, because a pass reads one layer and writes the next.
                before, fresh = fresh, {}
                for kind in kinds:
                    rows = self._pass(number, kind, before, done, total, run or self.results)
                    fresh |= {} if rows is None else {kind: rows}
                    done += self._batches(kind)
        if node_type not in fresh:
            raise InputError(
                f"no states of {node_type} exist: the snapshot has no such nodes, or the last layer returns no states",
                code="layer-states",
            )
        return torch.from_numpy(fresh[node_type])

    def nodes(self, kind: str) -> Int64s:
        """Return the dense ids of all nodes of a type in ascending order: [nodes] int64."""
        alive = self.view.alive[kind]
        return np.arange(self.view.node_counts[kind]) if alive is None else np.flatnonzero(alive)

    def _needed(self, node_type: str) -> list[list[str]]:
        """Return, for each layer, the node types whose states later layers read."""
        relations = [relation for fanout in self.spec.fanouts for relation in fanout.relations]
        kinds, plan = [node_type], [[node_type]]
        # Backwards from the last layer: a type is needed if a hop from a needed type reaches it.
        for _ in self.layers.functions[1:]:
            for _ in range(self.spec.hops):
                kinds = [*kinds, *(r.reaches for r in relations if r.expands in kinds)]
            kinds = list(dict.fromkeys(kinds))
            plan.insert(0, kinds)
        return plan

    def _pass(
        self, number: int, kind: str, before: Mapping[str, Array], done: int, total: int, run: Run
    ) -> Array | None:
        """Compute one layer's states for all nodes of a type, or return None if the layer returns none."""
        last, what = number + 1 == len(self.layers.functions), f"inferring {kind}, {self._layer(number)}"
        rows: Array | None = None
        for count, (batch, where, states) in enumerate(run(number, kind, before)):
            self.step(what, (done + count) / total)
            if rows is None:
                if states is None:
                    return None
                size = self.nodes(kind).size if last else self.view.node_counts[kind]
                rows = _kept((size, *states.shape[1:]), states.dtype, self.folder)
            self._check_alike(number, f"({kind}, batch {batch})", rows, states)
            rows[where] = states
        return rows

    def results(
        self, number: int, kind: str, before: Mapping[str, Array], sharing: Sharing = ALONE
    ) -> Iterator[BatchStates]:
        """Yield a layer's states for the batches of all nodes of a type.

        Args:
            number: The number of the layer.
            kind: The node type.
            before: Node type → the previous layer's states by dense id. Empty for the first layer.
            sharing: The batches of a pass to compute, if several processes share it.
        """
        last = number + 1 == len(self.layers.functions)
        ids = self.nodes(kind)
        # In id order, so that rows are written sequentially.
        seeds = Seeds(kind, ids, y=None, query_order=np.arange(ids.size))
        view = replace(
            self.view, node_features=self._features(before) if number else self.view.node_features, targets={}
        )
        spec = replace(self.spec, seed_type=kind)
        options = StreamOptions(threads=self.threads, max_threads=self.most, device=self._device, sharing=sharing)
        with BatchStream(StreamSource(view, seeds, spec), options) as stream:
            for batch in stream:
                states = self._applied(number, batch)
                # The last layer's states are returned without gaps. The states of other layers are looked up by dense
                # id.
                where = batch.input_id if last else batch.n_id[kind][: batch.batch_size]
                yield BatchStates(batch.index[1], where.cpu().numpy(), states)

    def _applied(self, number: int, batch: Batch) -> Array | None:
        """Return a layer's states for a batch's seeds, or None if it returns none for their type."""
        states = self._called(number, batch)
        if isinstance(states, Mapping):
            states = states.get(batch.seed_type)
            if states is None:
                return None
        if not isinstance(states, Tensor) or states.dim() not in (1, 2) or len(states) < batch.batch_size:
            shape = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
            raise self._unfit(
                number, _place(batch), f"returned {shape} for {batch.batch_size} seeds; it must return one row per seed"
            )
        if states.dtype == torch.bfloat16:
            raise self._unfit(
                number, _place(batch), "returned bfloat16, which numpy does not support; return states.float()"
            )
        return states[: batch.batch_size].detach().cpu().numpy()

    def _called(self, number: int, batch: Batch) -> Any:
        """Call a layer. An error in the layer gets a note with the layer and the batch."""
        x = dict(batch.x) if len(batch.n_id) > 1 else batch.x.get(batch.seed_type)
        try:
            if number == 0 and self.transform is not None:
                x = self.transform(x)
            return self.layers.functions[number](batch, x)
        except Exception as error:
            error.add_note(f"The error occurred in {self._layer(number)} {_place(batch)}.")
            raise

    def _check_alike(self, number: int, place: str, rows: Array, states: Array | None) -> None:
        """Raise InputError if the shape or dtype of states differs from that of earlier batches."""
        if states is None:
            raise self._unfit(number, place, "returned no states, but returned some in previous batches")
        if (states.shape[1:], states.dtype) != (rows.shape[1:], rows.dtype):
            before = f"but {rows.shape[1:]} {rows.dtype} in previous batches"
            raise self._unfit(number, place, f"returned rows of {states.shape[1:]} {states.dtype}, {before}")

    def _unfit(self, number: int, place: str, what: str) -> InputError:
        """Return the error for a layer's result for the batch at a place."""
        return InputError(f"{self._layer(number)} {what} {place}", code="layer-states")

    def _layer(self, number: int) -> str:
        """Return the name of a layer for messages."""
        return f"layer {number + 1} of {len(self.layers.functions)}"

    def _features(self, before: Mapping[str, Array]) -> _Features:
        """Return the features of a layer's batches: the previous layer's states as x, and all others unchanged."""
        features: dict[str, Mapping[str, Feature]] = {}
        for kind in self.view.node_counts:
            own = {name: f for name, f in self.view.node_features.get(kind, {}).items() if name != "x"}
            features[kind] = own | ({"x": ArrayFeature(before[kind])} if kind in before else {})
        return features

    def _batches(self, kind: str) -> int:
        """Return the number of batches in a pass over a type."""
        alive = self.view.alive[kind]
        count = self.view.node_counts[kind] if alive is None else int(np.count_nonzero(alive))
        return -(-count // self.spec.batch_size)

    @property
    def _device(self) -> str:
        return self.layers.device if self.device is None else self.device


def _place(batch: Batch) -> str:
    """Return the description of a batch for messages."""
    return f"({batch.seed_type}, batch {batch.index[1]})"


def _kept(shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path) -> Array:
    """Return rows of zeros in an unnamed file, which can be larger than memory.

    Raises:
        DatabaseError: The disk does not have enough space for the rows.
    """
    what = f"the states of {shape[0]:,} nodes"
    values = temporary_bytes(
        folder, int(np.prod(shape)) * dtype.itemsize, what, "return narrower states from the layers"
    )
    return values.view(dtype).reshape(shape)
