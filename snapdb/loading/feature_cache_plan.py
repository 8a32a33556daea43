"""The plan of a feature cache: the features and rows it holds, and the memory and disk space it uses."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.graph.features import RowReader
from snapdb.graph.view import GraphView
from snapdb.loading.feature_rows import FeatureKey, FeatureRows, is_in_files
from snapdb.memory import available_memory
from snapdb.sampling import NeighborSampler
from snapdb.storage.array_files import PAGE
from snapdb.types import Cache, CachedFeatures

_SLAB = 32 << 20
"""The bytes of a file that are read at once. A slab of twice this size evicted the topology from memory."""
_STAGE = 16 << 20
"""The bytes of a thread's buffer for missing rows: 4096 pages."""
_LISTS = 64 << 20
"""The bytes of memory for the lists of the rows that are packed together."""
_LEAST_SLAB, _LEAST_STAGE, _LEAST_LISTS = 1 << 20, 1 << 18, 1 << 20
"""The minimum sizes of these buffers, for small caches."""
_SHARE = 8
"""The threads' buffers together take at most an eighth of the cache, and so do two slabs, above the minimum sizes."""
_IDS = 1 << 20
"""The number of ids whose rows are looked up at once."""


@dataclass(frozen=True, slots=True)
class FixedParts:
    """The sizes in bytes of the parts of a cache that do not hold rows."""

    slab: int
    """The part of a file that is read at once. There are two slabs: one is read while the other is used."""
    out: int
    """A buffer for packed rows, or 0 without packs. There are two buffers: one is written while the other is filled."""
    lists: int
    """The lists of the rows to pack, or 0 without packs."""
    stage: int
    """The buffer of one thread for missing rows."""
    threads: int
    marks: int
    """The bitmaps that locate rows in memory, and padding to whole pages."""

    @property
    def total(self) -> int:
        return 2 * self.slab + 2 * self.out + self.lists + self.threads * self.stage + self.marks

    @staticmethod
    def of(features: Mapping[FeatureKey, RowReader], threads: int, room: int, *, packs: bool) -> FixedParts:
        """Return the sizes of the parts in a cache of `room` bytes. Small caches have smaller buffers."""
        rows = sum(array.shape[0] for feature in features.values() for array in feature.arrays)
        longest = max((_row_bytes(feature) for feature in features.values()), default=0)
        # Each buffer must hold at least one row, including all of its first and last page.
        least = -(-longest // PAGE) * PAGE + 2 * PAGE

        def share(most: int, fewest: int, parts: int) -> int:
            return max(least, min(most, max(fewest, room // parts // PAGE * PAGE)))

        slab = share(_SLAB, _LEAST_SLAB, 2 * _SHARE)
        out, lists = (slab, share(_LISTS, _LEAST_LISTS, 2 * _SHARE)) if packs else (0, 0)
        stage = share(_STAGE, _LEAST_STAGE, _SHARE * threads)
        # The rows in memory are rounded up to whole pages for each feature. The bitmaps may grow by an eighth, so that
        # the rows still fit when an incremental refresh has appended the changed ones.
        marks = 16 * (rows * 9 // 8 // 64 + len(features)) + PAGE * len(features)
        return FixedParts(slab, out, lists, stage, threads, marks)


def cached_features(view: GraphView, sampler: NeighborSampler) -> dict[FeatureKey, RowReader]:
    """Return the features of a sampler's node types that a cache can hold: dense features whose rows are in files."""
    return {
        (kind, name): feature
        for kind in sampler.node_types
        for name, feature in view.node_features.get(kind, {}).items()
        if isinstance(feature, RowReader) and is_in_files(feature)
    }


def room_bytes(cache: Cache) -> int:
    """Return the bytes of memory that a cache may use."""
    return available_memory() // _SHARE if cache.room is None else cache.room


def region_bytes(features: CachedFeatures, folder: Path, sharers: int = 1) -> int:
    """Return the size in bytes of each of the two regions for packs, or 0 without packs."""
    if features.spill is None:
        return 0
    spill = shutil.disk_usage(folder).free // 4 if features.spill == "AUTO" else features.spill
    return spill // sharers // 2 // PAGE * PAGE


def choose_rows(
    tables: Mapping[FeatureKey, FeatureRows], visits: Mapping[str, Float64s], room: int
) -> dict[FeatureKey, Int64s]:
    """Return the rows of each feature to keep in `room` bytes, ascending: those with the most expected visits per byte.

    Args:
        tables: The features.
        visits: Vertex type → [nodes] the expected number of times each node is in a batch.
        room: The bytes of memory for rows.
    """
    worth = {key: _worth(table, visits[key[0]]) for key, table in tables.items()}
    widths = {key: table.width for key, table in tables.items()}

    def taken(least: int) -> int:
        """Return the bytes of all rows whose worth is at least `least`."""
        return sum(int(np.count_nonzero(rows >= least)) * widths[key] for key, rows in worth.items())

    # The bits of positive floats have the same order as the floats, so 31 bisections find the exact threshold.
    low, high = 1, 1 << 31
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(middle) <= room else (middle + 1, high)
    room -= taken(low)
    chosen = {}
    for key, rows in worth.items():
        kept = rows >= low
        # As many rows of the next lower worth as still fit.
        more = np.flatnonzero(rows == low - 1)[: max(0, room) // widths[key]] if low > 1 else np.empty(0, np.int64)
        room -= more.size * widths[key]
        kept[more] = True
        chosen[key] = np.flatnonzero(kept)
    return chosen


def _worth(table: FeatureRows, visits: Float64s) -> Array:
    """Return [rows] the expected visits of each row per byte, as the bits of a float32."""
    worth = np.zeros(table.rows, np.float32)
    for first in range(0, visits.size, _IDS):
        some = visits[first : first + _IDS]
        rows = table.feature.find(np.arange(first, first + some.size), strict=False)
        worth[rows[rows >= 0]] = some[rows >= 0] / table.width
    return worth.view(np.int32)


def _row_bytes(feature: RowReader) -> int:
    array = feature.arrays[0]
    return int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
