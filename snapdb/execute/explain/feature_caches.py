"""EXPLAIN SAMPLE for feature caches: their contents, and what a batch reads from the disk with and without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Int64s
from snapdb.execute.explain import details
from snapdb.execute.session import ExecutionContext
from snapdb.loading.feature_cache_plan import FixedParts, cached_features, choose_rows, region_bytes, room_bytes
from snapdb.loading.feature_rows import FeatureKey, FeatureRows, Staging
from snapdb.loading.metered import MeteredStream
from snapdb.loading.source import StreamSource
from snapdb.memory import available_memory
from snapdb.plan.plan import PlanNode
from snapdb.sampling.cache_plan import expected_visits
from snapdb.sql.printer import print_size, print_string
from snapdb.storage.array_files import PAGE
from snapdb.storage.row_file import DiskSpeed, disk_speed
from snapdb.types import Cache
from snapdb.types.text import size_words

SERVING_FEATURES = "serving cache of features"
"""The plan-node key of the feature cache that batches read."""
_SEGMENT = 128
"""The number of batches per segment for which the hint chooses the SPILL size."""
_HINT_ROOM = 4
"""The hint suggests 1 / _HINT_ROOM of the available memory."""


class _Reads(NamedTuple):
    """The amounts that a batch reads from the disk, as means over several batches."""

    cold: float
    """The number of distinct rows that are not in memory."""
    useful: float
    """The bytes of these rows."""
    packed: float
    """The bytes of these rows in a pack, where each chunk is padded to whole pages."""
    direct: float
    """The bytes of the pages that contain these rows."""
    mapped: float
    """The bytes of the pages that contain any row of the batch."""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The estimated contents and effect of a cache of a given size."""

    rows: int
    bytes: int
    hit_rate: float
    reads: _Reads
    files: int
    """The bytes of the files of all features."""
    segment: int
    """The batches per segment, or 0 without packs."""

    @property
    def batch_read(self) -> float:
        """The bytes read per batch: a pack and a share of the sweep, or without packs the pages of missing rows."""
        if not self.segment:
            return self.reads.direct
        return self.files / self.segment + self.reads.packed

    @property
    def batch_written(self) -> float:
        return self.reads.packed if self.segment else 0.0


def feature_cache_nodes(
    context: ExecutionContext, opened: StreamSource, stream: MeteredStream
) -> tuple[list[PlanNode], list[PlanNode]]:
    """Return a node for each feature cache, or a hint if there is no cache and the features do not fit in memory."""
    source = opened.feature_cache
    features = cached_features(opened.view, stream.sampler)
    if not features or (source is None and not stream.is_scarce) or not len(stream):
        return [], []
    context.step(f"estimating how often batches read the features of {stream.spec.snapshot}", None)
    traversals, counts = stream.sampler.backend.host_traversals, opened.view.node_counts
    visits = expected_visits(stream.spec, traversals, opened.seeds, counts, context.check_stopped)
    recent = stream.recent()
    batches = () if recent is None else recent.nodes
    files = sum(array.nbytes for feature in features.values() for array in feature.arrays)

    def estimate(room: int, region: int) -> _Estimate:
        fixed = FixedParts.of(features, stream.threads, room, packs=region > 0)
        tables = {key: FeatureRows(feature, Staging(0)) for key, feature in features.items()}
        try:
            chosen = choose_rows(tables, visits, room - fixed.total)
            for key, rows in chosen.items():
                tables[key].keep(rows)
            reads = _reads(tables, batches, fixed.slab)
            kept = sum(rows.size for rows in chosen.values())
            size = fixed.total - fixed.marks + sum(table.bytes for table in tables.values())
        finally:
            for table in tables.values():
                table.close()
        segment = min(len(stream), int(region / reads.packed)) if region and reads.packed else 0
        rate = _hit_rate(features, visits, chosen)
        return _Estimate(kept, size, rate, reads, files, segment)

    speed = disk_speed(_largest(features))
    if source is None:
        return [], [_hint(stream, features, estimate, files)]
    folder = source.db_dir.path
    nodes = [
        _node(
            cache,
            estimate(room_bytes(cache), region_bytes(cache.features, folder)),
            stream,
            speed,
            serves=cache == source.first and (stream.is_scarce or cache.features.always),
        )
        for cache in source.caches
        if cache.features is not None
    ]
    return nodes, []


def feature_cache_numbers(stats: Mapping[str, Any], batches: int) -> dict[str, Any]:
    """Return the measured counterparts of the estimates for an epoch, from the statistics of a stream."""
    read, many = stats["hits"] + stats["misses"], max(1, batches)
    return {
        "rows": stats["filled"],
        "bytes": stats["bytes"],
        "hit_rate": round(stats["hits"] / read, 3) if read else 0.0,
        "cold": round(stats["misses"] / many),
        "segments": stats["segments"],
        "batch_read": round(stats["bytes_read"] / many),
        "batch_written": round(stats["bytes_written"] / many),
        "batch_useful": round(stats["bytes_useful"] / many),
        "direct": stats["direct"],
        "waited": round(stats["waited"], 4),
    }


def _node(cache: Cache, found: _Estimate, stream: MeteredStream, speed: DiskSpeed | None, *, serves: bool) -> PlanNode:
    """Return the plan node of a cache."""
    numbers: dict[str, Any] = {
        "rows": found.rows,
        "bytes": found.bytes,
        "hit_rate": round(found.hit_rate, 3),
        "cold": round(found.reads.cold),
    }
    if found.segment:
        numbers |= {
            "segment": found.segment,
            "segments": -(-len(stream) // found.segment),
            "spill": round(2 * found.segment * found.reads.packed),
        }
    numbers |= {
        "batch_read": round(found.batch_read),
        "batch_written": round(found.batch_written),
        "batch_useful": round(found.reads.useful),
    }
    if speed is not None:
        direct = found.reads.direct / PAGE / speed.requests
        packed = found.batch_read / speed.bytes + found.batch_written / speed.bytes
        numbers |= {
            **({"batch_seconds": round(packed, 4)} if found.segment else {}),
            "direct_seconds": round(direct, 4),
            "mapped_seconds": round(found.reads.mapped / PAGE / speed.requests, 4),
        }
        if found.segment and direct > packed:
            numbers["break_even"] = round(found.files / speed.bytes / (direct - packed), 1)
    detail = details.feature_cache(cache, serves=serves, fits=not stream.is_scarce)
    return PlanNode("Cache", detail, estimates=numbers, key=SERVING_FEATURES if serves else None)


def _hint(stream: MeteredStream, features: Mapping[FeatureKey, Any], estimate: Any, files: int) -> PlanNode:
    """Return the node that suggests a cache."""
    room = _rounded(available_memory() // _HINT_ROOM)
    found: _Estimate = estimate(room, 1 << 62)
    spill = _rounded(round(2 * min(_SEGMENT, len(stream)) * found.reads.packed))
    found = replace(found, segment=min(_SEGMENT, len(stream)))
    before = size_words(round(found.reads.mapped))
    return PlanNode(
        "Hint",
        f"the features ({size_words(files)}) do not fit in memory ({size_words(available_memory())} available); with "
        f"CREATE CACHE … FEATURES IN MEMORY {print_string(print_size(room))} SPILL {print_string(print_size(spill))}, "
        f"a batch would read {size_words(round(found.batch_read))} instead of {before} or more",
    )


def _reads(tables: Mapping[FeatureKey, FeatureRows], batches: Sequence[Mapping[str, Any]], slab: int) -> _Reads:
    """Return the mean reads of several batches, given the nodes of each type."""
    totals = np.zeros(5)
    for nodes in batches:
        for (kind, _), table in tables.items():
            rows = table.feature.find(np.asarray(nodes[kind]), strict=False)
            missing = table.find_missing(rows)
            totals += (
                missing.size,
                missing.size * table.width,
                table.packed_bytes(missing, slab),
                table.page_bytes(missing),
                table.page_bytes(np.unique(rows[rows >= 0])),
            )
    return _Reads(*(totals / max(1, len(batches))).tolist())


def _hit_rate(
    features: Mapping[FeatureKey, Any], visits: Mapping[str, Any], chosen: Mapping[FeatureKey, Int64s]
) -> float:
    """Return the share of rows that batches are expected to find in memory."""
    hits = total = 0.0
    for key, feature in features.items():
        expected = visits[key[0]]
        rows = feature.find(np.arange(expected.size), strict=False)
        kept = np.zeros(sum(array.shape[0] for array in feature.arrays), np.bool_)
        kept[chosen[key]] = True
        hits += float(expected[rows >= 0] @ kept[rows[rows >= 0]])
        total += float(expected.sum())
    return hits / total if total else 0.0


def _largest(features: Mapping[FeatureKey, Any]) -> Any:
    """Return the largest feature array, whose file is used to measure the disk."""
    arrays = [array for feature in features.values() for array in feature.arrays]
    return max(arrays, key=lambda array: array.nbytes)


def _rounded(size: int) -> int:
    """Return a size rounded to two significant digits.

    >>> _rounded(536_870_912), _rounded(7)
    (540000000, 7)
    """
    unit: int = 10 ** max(0, len(str(size)) - 2)
    return round(size / unit) * unit
