"""Batch audit: checks a batch's edges and targets against its own rules for seed times, windows and exclusions.

The audit reads only the batch: edge times from the edge columns, and trees and pairs from the index tensors. The AUDIT
SAMPLE statement also reads the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from snapdb.arrays import Array, Bools, Int64s
from snapdb.storage.array_files import STATIC
from snapdb.types import EdgeType, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch


_SILENT: dict[str, Any] = {"exclude": "NONE", "known": None, "both": [], "lasting": None}
"""The rules for a batch whose lineage does not record any."""


class _Traversals(Protocol):
    """The part of a sampler from which rules are read. It is the same for both back ends."""

    @property
    def spec(self) -> SampleSpec: ...
    @property
    def traversals(self) -> Any: ...


def rules(sampler: _Traversals) -> dict[str, Any]:
    """Return the rules for a sampler's batches, except seed times, as plain JSON values (`rules` in their lineage)."""
    link = sampler.spec.link
    negatives = None if link is None else link.negatives
    return {
        "exclude": "NONE" if link is None else link.exclude,
        # A batch can be checked only against its own seed edges.
        "known": negatives.known
        if link is not None and negatives is not None and link.edge in link.known_types
        else None,
        "both": sorted(
            {traversal.relation.edge.edge for traversal in sampler.traversals if traversal.relation.direction == "BOTH"}
        ),
        "lasting": sorted(
            {traversal.relation.edge.edge for traversal in sampler.traversals if traversal.adjacency.until is not None}
        ),
    }


def audit(batch: Batch) -> dict[str, int]:
    """Count the violations of each rule that can be checked from the batch. In a correct engine, all counts are 0.

    'time': edges outside the time bounds of their tree's seed, or between two trees. 'snapshot': edges outside the
    snapshot's window. 'exclusion': seed pairs among the edges or the negatives. 'target horizon': targets of nodes
    other than seeds. Rules that the lineage does not record in `rules` are not checked.
    """
    said = _SILENT | dict(batch.lineage.get("rules", {}))
    return {
        "time": sum(int(_untimely(batch, key, said).sum()) for key in batch.edge_index),
        "snapshot": sum(int(_outside(batch, key, said).sum()) for key in batch.edge_index),
        "exclusion": _seen_pairs(batch, said) + _known_negatives(batch, said),
        "target horizon": 0 if batch.y is None else max(0, len(batch.y) - batch.batch_size),
    }


def _untimely(batch: Batch, key: EdgeType, said: Mapping[str, Any]) -> Bools:
    """Return an [edges] mask of the edges that are outside their tree's time bounds or connect two trees."""
    index = _array(batch.edge_index[key])
    if batch.temporal is None or batch.seed_time is None:
        return np.zeros(index.shape[1], np.bool_)
    far, near = _array(batch.batch[key.source])[index[0]], _array(batch.batch[key.destination])[index[1]]
    wrong: Bools = far != near
    if key in batch.edge_time:
        inclusive, within = batch.temporal.inclusive, batch.temporal.within
        time, seed = _array(batch.edge_time[key]), _array(batch.seed_time)[near]
        late = time > seed if inclusive else time >= seed
        # The lower bound is clamped because seed - within can be less than the smallest int64.
        if within is not None and not _lasts(key, said["lasting"]):
            late |= time < np.maximum(seed, STATIC + within) - within
        wrong |= late & (time != STATIC)
    return wrong


def _outside(batch: Batch, key: EdgeType, said: Mapping[str, Any]) -> Bools:
    """Return an [edges] mask of the edges outside the snapshot's window."""
    start, stop = batch.lineage.get("window") or (None, None)
    if key not in batch.edge_time or (start is None and stop is None):
        return np.zeros(batch.edge_index[key].shape[1], np.bool_)
    time = _array(batch.edge_time[key])
    out: Bools = np.zeros(time.size, np.bool_) if stop is None else time >= stop
    if start is not None and not _lasts(key, said["lasting"]):
        out |= time < start
    out &= time != STATIC
    return out


def _seen_pairs(batch: Batch, said: Mapping[str, Any]) -> int:
    """Return the number of edges that connect the ends of a seed edge, if such edges are excluded."""
    if batch.edge_label_index is None or said["exclude"] == "NONE":
        return 0
    seed = EdgeType(*batch.seed_type)
    pairs = _codes(batch, seed, *_array(batch.edge_label_index)[:, : batch.batch_size])
    violations = 0
    for key, source, destination, either in _oriented(batch, seed, said):
        seen = np.isin(_codes(batch, seed, source, destination), pairs)
        if said["exclude"] == "BOTH" and seed.source == seed.destination:
            seen |= np.isin(_codes(batch, seed, destination, source), pairs)
        elif either:  # a row of both directions can contain the reverse edge, which EXCLUDE SEEDS does not exclude
            continue
        if batch.temporal is not None and batch.seed_time is not None:
            near = _array(batch.batch[key.destination])[_array(batch.edge_index[key])[1]]
            seen &= _not_before(batch, key, _array(batch.seed_time)[near])
        violations += int(seen.sum())
    return violations


def _oriented(batch: Batch, seed: EdgeType, said: Mapping[str, Any]) -> Iterator[tuple[EdgeType, Int64s, Int64s, bool]]:
    """Yield the edges of the seeds' type: the batch's key, sources, destinations, and whether they can be swapped."""
    back = EdgeType(seed.destination, f"rev_{seed.edge}", seed.source)
    if seed in batch.edge_index:
        far, near = _array(batch.edge_index[seed])
        yield seed, far, near, seed.edge in said["both"]
    if back in batch.edge_index and back != seed:
        far, near = _array(batch.edge_index[back])
        yield back, near, far, False


def _not_before(batch: Batch, key: EdgeType, seed: Int64s) -> Bools:
    """Return an [edges] mask of the edges that have no time, or a time that is not before their seed's.

    Edges before the seed's time are its past.
    """
    if key not in batch.edge_time:
        return np.ones(seed.size, np.bool_)
    time = _array(batch.edge_time[key])
    late: Bools = (time >= seed) | (time == STATIC)
    return late


def _known_negatives(batch: Batch, said: Mapping[str, Any]) -> int:
    """Return the number of negatives that are seed edges in the same batch, if known edges are never drawn."""
    if batch.edge_label_index is None or said["known"] != "EVER":
        return 0
    seed, ends = EdgeType(*batch.seed_type), _array(batch.edge_label_index)
    codes = _codes(batch, seed, ends[0], ends[1])
    return int(np.isin(codes[batch.batch_size :], codes[: batch.batch_size]).sum())


def _codes(batch: Batch, seed: EdgeType, source: Int64s, destination: Int64s) -> Int64s:
    """Return [pairs], one integer per pair of local ids.

    Local ids differ between disjoint trees, so pairs from different trees differ.
    """
    width = max(len(batch.n_id[seed.source]), len(batch.n_id[seed.destination]))
    codes: Int64s = source * np.int64(width) + destination
    return codes


def _lasts(key: EdgeType, names: list[str] | None) -> bool:
    """Return whether edges of this type can have end times.

    The batch does not contain end times. Edges with an end time can begin before the window.
    """
    return names is None or key.edge in names or key.edge.removeprefix("rev_") in names


def _array(tensor: Any) -> Array:
    """Return the tensor as a numpy array in host memory."""
    values: Array = tensor.cpu().numpy()
    return values
