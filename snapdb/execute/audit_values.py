"""Values that change in time, as a batch has them, against the last ones that were known by each seed's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from snapdb.execute.evidence import seed_times
from snapdb.graph import GraphView
from snapdb.graph.features import HistoryFeature
from snapdb.sampling import Seeds
from snapdb.storage.feature_types import filling
from snapdb.storage.histories import FOREVER

if TYPE_CHECKING:
    from snapdb.loading import Batch


Int64s = npt.NDArray[np.int64]


def wrong_values(view: GraphView, seeds: Seeds, batch: Batch) -> int:
    """How many nodes have a value that is not the last one before their seed's time and the window's end."""
    found = 0
    for kind, features in view.node_features.items():
        for name, feature in features.items():
            if isinstance(feature, HistoryFeature) and kind in batch.n_id:
                ids, delivered = _array(batch.n_id[kind]), _array(batch.features[kind][name])
                expected = _known(feature, ids, _bounds(feature, batch, kind, seeds))
                found += int((_bytes(delivered) != _bytes(expected)).any(axis=1).sum())
    return found


def _bounds(feature: HistoryFeature, batch: Batch, kind: str, seeds: Seeds) -> Int64s:
    """[nodes] the moment before which each node's value must be."""
    stop = FOREVER if feature.stop is None else feature.stop
    times = seed_times(batch, seeds)
    if times is None or not batch.batch:
        return np.full(len(batch.n_id[kind]), stop)
    bounds: Int64s = np.minimum(times[_array(batch.batch[kind])], stop)
    return bounds


def _known(feature: HistoryFeature, ids: Int64s, before: Int64s) -> npt.NDArray[Any]:
    """[nodes, width] the values, by counting each node's changes before its moment instead of searching."""
    start, stop = feature.arrays.indptr[ids], feature.arrays.indptr[ids + 1]
    lengths = stop - start
    node = np.repeat(np.arange(ids.size), lengths)
    places = np.arange(node.size) - np.repeat(np.cumsum(lengths) - lengths, lengths) + start[node]
    early = feature.arrays.time[places] < before[node]
    known = np.bincount(node[early], minlength=ids.size)
    out = np.full((ids.size, feature.shape[1]), filling(feature.dtype.name, feature.default), feature.dtype)
    some = known > 0
    out[some] = feature.arrays.rows[(start + known - 1)[some]]
    return out


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """[nodes, bytes] the same, so that NaN is like NaN."""
    return np.ascontiguousarray(values).view(np.uint8)


def _array(tensor: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = tensor.cpu().numpy()
    return found
