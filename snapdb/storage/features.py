"""Features and targets as .npy files in id order, so that a row is one seek away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.feature_files import fill_features, fill_target, measure, text_of_target
from snapdb.storage.feature_types import FeatureSource, Slots, parts_of
from snapdb.storage.growth import NO_GROWTH, Growing, Growth
from snapdb.storage.sparse import index_type
from snapdb.types import FeatureSpec


def growing_of(
    source: FeatureSource, specs: Sequence[FeatureSpec], target: str | None, classes: tuple[str, ...] | None
) -> Growing:
    """What of an element's arrays grows with its table.

    Args:
        classes: Those that the graph declares of the target.
    """
    text = None if target is None or classes is not None else text_of_target(source, target)
    growing = (spec for spec in specs if spec.sparse and spec.width is None)
    return Growing(text, classes, {spec.name: parts_of(source, spec)[0].plain for spec in growing})


def write_features(
    session: Session,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    directory: Path,
    growth: Growth = NO_GROWTH,
) -> dict[str, Any]:
    """Write one array [count, width] a feature, and return their facts. Run `check_features` first.

    Sparse ones become three arrays (`storage.sparse`); features from histories are not written here.
    """
    facts = measure(session, source, specs, growth)
    fill_features(session, source, specs, facts, Slots(source.count), directory)
    return facts | {"growth": growth.facts}


def write_target(
    session: Session, source: FeatureSource, name: str, directory: Path, growth: Growth = NO_GROWTH
) -> dict[str, Any]:
    """Write `target.npy` [count]: int64 (NULL: -1), float32 (NULL: NaN), or the codes of the classes of `growth`."""
    return fill_target(session, source, name, Slots(source.count), directory, growth.classes)


def write_patch(
    session: Session,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    target: str | None,
    base_facts: Mapping[str, Any],
    directory: Path,
    growth: Growth = NO_GROWTH,
) -> dict[str, Any] | None:
    """Write the rows of `source`, those that changed or came, and return their facts; None when they do not fit a base.

    They do not when lists have another length, or where the base is of a later version that has more classes or wider
    sparse rows: then everything is to be written anew. Run `check_features` over the changed rows first.

    Args:
        source: Its rows are the changed ones only; its count is that of all ids by now.
        base_facts: What `write_features` and `write_target` returned for the base.
        growth: The classes and widths by now.
    """
    facts = measure(session, source, specs, growth, base_facts)
    if not (growth.continues(Growth.of(base_facts)) and _fits(specs, facts, base_facts)):
        return None
    ids = _ids(session, source)
    slots = Slots(ids.size, ids)
    if target is not None:
        facts |= fill_target(session, source, target, slots, directory, growth.classes)
    np.save(directory / "ids.npy", ids)
    fill_features(session, source, specs, facts, slots, directory)
    return {**facts, "growth": growth.facts, "count": source.count, "changed": int(ids.size)}


def _fits(specs: Sequence[FeatureSpec], facts: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Whether rows with this metadata can be patched onto the base's arrays."""
    if base.get("defaults") != facts["defaults"]:
        return False
    before = base.get("parts", {})
    sparse = {spec.name for spec in specs if spec.sparse}
    return all(
        name in before
        and (index_type(*before[name]) == index_type(*parts) if name in sparse else before[name] == parts)
        for name, parts in facts["parts"].items()
    )


def _ids(session: Session, source: FeatureSource) -> npt.NDArray[np.int64]:
    batches = session.reader(f"SELECT {quote(ROW_ID)} FROM ({source.rows})")
    return np.unique(np.concatenate([batch.column(0).to_numpy() for batch in batches]).astype(np.int64, copy=False))
