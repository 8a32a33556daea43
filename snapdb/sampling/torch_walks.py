"""Relations on a torch device: logical rows as flat arrays, with the columns that draws look at, sent there once."""

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
from snapdb.sampling.walks import Walk, damaged, open_walks
from snapdb.types import Fanout, Relation, SampleSpec


@dataclass(frozen=True, slots=True)
class TorchWalk:
    """One relation as a torch sampler walks it. Columns are by position; those that no draw needs are None."""

    walk: Walk
    """Of the flat rows, in the host's memory."""
    indptr: Tensor
    indices: Tensor
    time: Tensor | None
    until: Tensor | None
    edge_id: Tensor | None
    weight: Tensor | None
    outward: Tensor | None
    born: Tensor | None
    """By dense id of the neighbours, not by position."""
    turn: Tensor | None
    """For BOTH only: [nodes] where the OUT edges of each row begin."""
    steps: int
    """The number of steps of a binary search in the longest row."""

    @property
    def relation(self) -> Relation:
        return self.walk.relation

    @property
    def fanout(self) -> Fanout:
        return self.walk.fanout

    @property
    def skips_zeros(self) -> bool:
        return self.walk.skips_zeros

    @property
    def adjacency(self) -> Adjacency:
        """The flat rows, where a batch's positions are read."""
        return self.walk.adjacency

    def count(self, hop: int) -> int:
        return self.walk.count(hop)

    @property
    def held(self) -> int:
        """How many positions there are."""
        return self.indices.numel()


def open_torch_walks(
    view: GraphView, spec: SampleSpec, device: torch.device, room: int | None
) -> tuple[TorchWalk, ...]:
    """The relations of a sampler in sampling order, on the device, where they may take `room` bytes.

    Raises:
        BindError: two fanouts lead to the same key of a batch, or an edge type has no weights.
        CorruptError: a relation's rows or columns are not those of its nodes.
        DataError: weights are not finite, or negative.
        InputError: there is less room than they need.
        ValueError: a fanout is negative and not FULL.
    """
    walks = open_walks(replace(view, adjacency=lambda relation: _flat(view.adjacency(relation))), spec)
    arrays = [_needed(walk, spec, view.node_counts[walk.relation.reaches]) for walk in walks]
    size = sum(values.nbytes for columns in arrays for values in columns.values() if values is not None)
    if room is not None and size > room:
        raise InputError(
            f"the edges that this statement walks take {size:,} bytes on {device}, but only {room:,} may be taken "
            "there; leave WITH torch out, and numba samples on the host",
            code="device",
        )
    return tuple(_send(walk, columns, device) for walk, columns in zip(walks, arrays, strict=True))


def tensor_on(values: Array, device: torch.device) -> Tensor:
    """The array on the device; in the same memory where that is the host's, so only to be read."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def _flat(stored: Adjacency) -> Adjacency:
    """The logical rows in one piece; columns that no draw reads are built at first access."""
    outward = None
    if stored.outward is not None:
        parts = [stored.outward[part.positions] for part in logical_parts(stored.rows)]
        outward = np.concatenate([np.empty(0, np.bool_), *parts])
    return rows_adjacency(stored.flatten(), outward=outward)


def _needed(walk: Walk, spec: SampleSpec, far: int) -> dict[str, Array | None]:
    """What draws by the sampler look at, by the names of TorchWalk's fields."""
    arrays = walk.arrays
    indptr, indices = arrays.rows.indptr, arrays.rows.indices
    if not are_rows(indptr[:-1], indptr[1:], indices, far):
        raise damaged(walk.relation)
    both = walk.relation.direction == "BOTH"
    timed = walk.adjacency.time is not None and (spec.disjoint or spec.drawing.method == "LATEST")
    return {
        "indptr": indptr,
        "indices": indices,
        "time": arrays.times.base if timed else None,
        "until": arrays.ends.base if walk.adjacency.until is not None and spec.disjoint else None,
        "edge_id": arrays.ids.base if spec.drawing.scores_edges(walk.relation) else None,
        "weight": arrays.weights.base if arrays.weights.base.size else None,
        "outward": arrays.outward if both else None,
        "born": arrays.born if arrays.born.size else None,
        "turn": _turns(indptr, arrays.outward) if both else None,
    }


def _send(walk: Walk, columns: Mapping[str, Array | None], device: torch.device) -> TorchWalk:
    sent: dict[str, Any] = {n: None if values is None else tensor_on(values, device) for n, values in columns.items()}
    return TorchWalk(walk, **sent, steps=int(np.diff(walk.arrays.rows.indptr).max(initial=0)).bit_length())


def _turns(indptr: Int64s, outward: Bools) -> Int64s:
    """Where the OUT edges of each row begin."""
    upto = np.zeros(outward.size + 1, np.int64)
    np.cumsum(outward, out=upto[1:])
    turns: Int64s = indptr[1:] - (upto[indptr[1:]] - upto[indptr[:-1]])
    return turns


with warnings.catch_warnings():
    # Once a process torch warns of an array that may not be written. Memory maps are such, nothing here writes to
    # tensors of theirs, and threads could not hold the warning back later: so it is spent here.
    warnings.simplefilter("ignore")
    torch.from_numpy(np.broadcast_to(np.zeros(1), 1))
