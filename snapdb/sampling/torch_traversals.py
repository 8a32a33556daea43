"""Relations on a torch device: logical rows as flat arrays, and the columns that draws read, all copied once."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snapdb.arrays import Array, Bools, Int64s
from snapdb.errors import InputError
from snapdb.graph.adjacency import rows_adjacency
from snapdb.graph.view import Adjacency, GraphView
from snapdb.kernels.adjacency.rows import are_rows, logical_parts
from snapdb.sampling.traversals import Traversal, damaged, open_traversals
from snapdb.types import Fanout, Relation, SampleSpec


@dataclass(frozen=True, slots=True)
class TorchTraversal:
    """One relation, prepared for a torch sampler. Columns are indexed by position, or None if no draw reads them."""

    traversal: Traversal
    """The traversal over the flat rows, in host memory."""
    indptr: Tensor
    """[nodes + 1] the start of each row."""
    indices: Tensor
    """[positions] dense ids of neighbours."""
    time: Tensor | None
    """[positions] event times."""
    until: Tensor | None
    """[positions] end times."""
    edge_id: Tensor | None
    """[positions] edge ids."""
    weight: Tensor | None
    """[positions] weights."""
    outward: Tensor | None
    """[positions] whether the edge is traversed from its source, for direction BOTH."""
    born: Tensor | None
    """[neighbours] the birth time of each neighbour, by dense id."""
    turn: Tensor | None
    """[nodes] the start of the OUT edges in each row, for direction BOTH."""
    steps: int
    """The number of steps of a binary search in the longest row."""

    @property
    def relation(self) -> Relation:
        return self.traversal.relation

    @property
    def fanout(self) -> Fanout:
        return self.traversal.fanout

    @property
    def skips_zeros(self) -> bool:
        return self.traversal.skips_zeros

    @property
    def adjacency(self) -> Adjacency:
        """The flat rows, to which a batch's positions refer."""
        return self.traversal.adjacency

    def count(self, hop: int) -> int:
        return self.traversal.count(hop)

    @property
    def held(self) -> int:
        """The number of positions."""
        return self.indices.numel()


def open_torch_traversals(
    view: GraphView, spec: SampleSpec, device: torch.device, room: int | None
) -> tuple[TorchTraversal, ...]:
    """Open the relations of a sampler in sampling order on the device, where they may use `room` bytes.

    Raises:
        BindError: Two fanouts have the same key in a batch, or an edge type has no weights.
        CorruptError: A relation's rows or columns do not match its nodes.
        DataError: A weight is negative or not finite.
        InputError: The rows need more than `room` bytes.
        ValueError: A fanout is negative and not FULL.
    """
    traversals = open_traversals(replace(view, adjacency=lambda relation: _flat(view.adjacency(relation))), spec)
    arrays = [_needed(traversal, spec, view.node_counts[traversal.relation.reaches]) for traversal in traversals]
    size = sum(values.nbytes for columns in arrays for values in columns.values() if values is not None)
    if room is not None and size > room:
        raise InputError(
            f"the edges of this statement need {size:,} bytes on {device}, but only {room:,} are available; "
            "leave WITH torch out to sample with numba on the host",
            code="device",
        )
    return tuple(_send(traversal, columns, device) for traversal, columns in zip(traversals, arrays, strict=True))


def tensor_on(values: Array, device: torch.device) -> Tensor:
    """Return the array as a tensor on the device. On the CPU, it shares the array's memory and must not be written."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def _flat(stored: Adjacency) -> Adjacency:
    """Return the logical rows as a single base. Columns that no draw reads are built at first access."""
    outward = None
    if stored.outward is not None:
        parts = [stored.outward[part.positions] for part in logical_parts(stored.rows)]
        outward = np.concatenate([np.empty(0, np.bool_), *parts])
    return rows_adjacency(stored.flatten(), outward=outward)


def _needed(traversal: Traversal, spec: SampleSpec, far: int) -> dict[str, Array | None]:
    """Return the arrays that the sampler's draws read, by the names of TorchTraversal's fields."""
    arrays = traversal.arrays
    indptr, indices = arrays.rows.indptr, arrays.rows.indices
    # Check once, on the host: on a GPU, an out-of-range index fails late, with an assertion that destroys the CUDA
    # context.
    if not are_rows(indptr[:-1], indptr[1:], indices, far):
        raise damaged(traversal.relation)
    both = traversal.relation.direction == "BOTH"
    timed = traversal.adjacency.time is not None and (spec.disjoint or spec.drawing.method == "LATEST")
    return {
        "indptr": indptr,
        "indices": indices,
        "time": arrays.times.base if timed else None,
        "until": arrays.ends.base if traversal.adjacency.until is not None and spec.disjoint else None,
        "edge_id": arrays.ids.base if spec.drawing.scores_edges(traversal.relation) else None,
        "weight": arrays.weights.base if arrays.weights.base.size else None,
        "outward": arrays.outward if both else None,
        "born": arrays.born if arrays.born.size else None,
        "turn": _turns(indptr, arrays.outward) if both else None,
    }


def _send(traversal: Traversal, columns: Mapping[str, Array | None], device: torch.device) -> TorchTraversal:
    """Return the traversal with its columns on the device."""
    sent: dict[str, Any] = {n: None if values is None else tensor_on(values, device) for n, values in columns.items()}
    return TorchTraversal(
        traversal, **sent, steps=int(np.diff(traversal.arrays.rows.indptr).max(initial=0)).bit_length()
    )


def _turns(indptr: Int64s, outward: Bools) -> Int64s:
    """Return [nodes], the start of the OUT edges in each row."""
    upto = np.zeros(outward.size + 1, np.int64)
    np.cumsum(outward, out=upto[1:])
    turns: Int64s = indptr[1:] - (upto[indptr[1:]] - upto[indptr[:-1]])
    return turns


with warnings.catch_warnings():
    # torch warns once per process about a read-only array. Memory maps are read-only, and nothing here writes to their
    # tensors. A filter set later would not be thread-safe, so the warning is triggered here.
    warnings.simplefilter("ignore")
    torch.from_numpy(np.broadcast_to(np.zeros(1), 1))
