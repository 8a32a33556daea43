"""Features and targets as .npy files in id order, so that a row is one seek away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.feature_checks import check_features
from snapdb.storage.feature_files import fill_features, fill_target, measure
from snapdb.storage.feature_types import FeatureSource, Slots, is_feature_type
from snapdb.types import FeatureSpec

__all__ = ["FeatureSource", "check_features", "is_feature_type", "write_features", "write_patch", "write_target"]


def write_features(
    session: Session, source: FeatureSource, specs: Sequence[FeatureSpec], directory: Path
) -> dict[str, Any]:
    """Write one array [count, width] a feature, and return their facts. Run `check_features` first.

    Sparse ones become three arrays (`storage.sparse`); features from histories are not written here.
    """
    facts = measure(session, source, specs)
    fill_features(session, source, specs, facts, Slots(source.count), directory)
    return facts


def write_target(session: Session, source: FeatureSource, name: str, directory: Path) -> dict[str, Any]:
    """Write `target.npy` [count]: int64 (NULL: -1), float32 (NULL: NaN), or codes of the sorted distinct strings."""
    facts = fill_target(session, source, name, Slots(source.count), directory)
    assert facts is not None, "without codes that are known, no class is new"
    return facts


def write_patch(
    session: Session,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    target: str | None,
    base_facts: Mapping[str, Any],
    directory: Path,
) -> dict[str, Any] | None:
    """Write the rows of `source`, those that changed or came, and return their facts; None when they do not fit a base.

    They do not when lists have another length, a sparse row is wider and no width was said, or a class is new: then
    everything is to be written anew. Run `check_features` over the changed rows first.

    Args:
        source: Its rows are the changed ones only; its count is that of all ids by now.
        base_facts: What `write_features` and `write_target` returned for the base.
    """
    facts = measure(session, source, specs, base_facts)
    if any(base_facts.get(name) != facts[name] for name in ("parts", "defaults")):
        return None
    ids = _ids(session, source)
    slots = Slots(ids.size, ids)
    if target is not None:
        found = fill_target(session, source, target, slots, directory, base_facts.get("target", {}))
        if found is None:
            return None
        facts |= found
    np.save(directory / "ids.npy", ids)
    fill_features(session, source, specs, facts, slots, directory)
    return {**facts, "count": source.count, "changed": int(ids.size)}


def _ids(session: Session, source: FeatureSource) -> npt.NDArray[np.int64]:
    batches = session.reader(f"SELECT {quote(ROW_ID)} FROM ({source.rows})")
    return np.unique(np.concatenate([batch.column(0).to_numpy() for batch in batches]).astype(np.int64, copy=False))
