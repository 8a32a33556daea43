"""Features and targets as arrays: how wide they are, and where each row goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.feature_types import FeatureSource, Part, Slots, filling, is_feature_type, numbers_of, parts_of
from snapdb.storage.growth import NO_GROWTH, Growth
from snapdb.storage.map_advice import prefer_huge_pages
from snapdb.storage.sparse import write_sparse
from snapdb.types import FeatureSpec

Int64s = npt.NDArray[np.int64]

BATCH = 50_000
"""Rows that are read at once, at most."""
_NUMBERS = 1 << 23
"""Numbers that are read at once, about."""
_ID = quote(ROW_ID)


class Place(NamedTuple):
    """Where a part of a feature goes."""

    part: Part
    default: float | None
    out: npt.NDArray[Any]
    """[rows, length]"""

    def store(self, values: pa.Array, where: Int64s) -> None:
        """Write the rows of an Arrow array of `part.value` at `where`."""
        length = self.out.shape[1]
        if length == 0 or len(values) == 0:
            return
        if self.part.is_list and values.null_count:
            where = where[values.is_valid().to_numpy(zero_copy_only=False)]
        self.out[where] = numbers_of(values, self.part, self.default).reshape(-1, length)


def measure(
    session: Session,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    growth: Growth = NO_GROWTH,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The widths of features and of their parts, and their DEFAULTs, for a manifest.

    Args:
        growth: The widths of sparse features without a declared one.
        known: Such facts of rows that these are added to: they hold where these rows tell nothing.
    """
    own = [spec for spec in specs if spec.history is None]
    widths = growth.widths
    lengths = [_lengths(source, spec, widths.get(spec.name)) for spec in own]
    asked = [sql for each in lengths for sql in each if isinstance(sql, str)]
    found = iter(session.rows(f"SELECT {', '.join(asked)} FROM ({source.rows})")[0] if asked else ())
    before: Mapping[str, list[int]] = {} if known is None else known.get("parts", {})
    parts = {}
    for spec, each in zip(own, lengths, strict=True):
        now = [next(found) if isinstance(length, str) else length for length in each]
        old = before.get(spec.name, [0] * len(now))
        parts[spec.name] = [then if length is None else length for length, then in zip(now, old, strict=True)]
    return {
        "widths": {name: sum(lengths) for name, lengths in parts.items()},
        "parts": parts,
        "defaults": {spec.name: spec.default for spec in own},
    }


def fill_features(
    session: Session,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    facts: Mapping[str, Any],
    slots: Slots,
    directory: Path,
) -> None:
    """Write the arrays of features whose `facts` are measured, with the rows of `source` at their slots."""
    own = [spec for spec in specs if spec.history is None]
    for spec in own:
        if spec.sparse:
            write_sparse(session, source, spec, facts["parts"][spec.name][0], slots, directory)
    dense = (spec for spec in own if not spec.sparse)
    places = [place for spec in dense for place in _places(source, spec, facts["parts"][spec.name], slots, directory)]
    if not places:
        return
    values = ", ".join(place.part.value for place in places)
    rows = max(1, min(BATCH, _NUMBERS // max(1, sum(place.out.shape[1] for place in places))))
    for batch in session.reader(f"SELECT {_ID}, {values} FROM ({source.rows})", rows=rows):
        where = slots.at(batch.column(0).to_numpy())
        for i, place in enumerate(places, 1):
            place.store(batch.column(i), where)


def places_of(
    parts: Sequence[Part], lengths: Sequence[int], default: float | None, out: npt.NDArray[Any]
) -> list[Place]:
    """Where the parts of a feature go in its array, one beside the other."""
    ends = np.cumsum(lengths).tolist()
    each = zip(parts, lengths, ends, strict=True)
    return [Place(part, default, out[:, end - length : end]) for part, length, end in each]


def new_array(path: Path, spec: FeatureSpec, rows: int, width: int) -> npt.NDArray[Any]:
    """A new array file, full of the DEFAULT or of zeros."""
    dtype = np.dtype(spec.dtype)
    out: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(rows, width))
    prefer_huge_pages(out)
    if fill := filling(spec.dtype, spec.default):  # a new file is zeros already
        out[:] = fill
    return out


def _places(
    source: FeatureSource, spec: FeatureSpec, lengths: Sequence[int], slots: Slots, directory: Path
) -> list[Place]:
    out = new_array(directory / f"feature-{spec.name}.npy", spec, slots.count, sum(lengths))
    return places_of(parts_of(source, spec), lengths, spec.default, out)


def fill_target(
    session: Session,
    source: FeatureSource,
    name: str,
    slots: Slots,
    directory: Path,
    classes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write `target.npy` and return its facts.

    Args:
        classes: Of a target that is text all that its rows have; the code of each is its place.
    """
    kind = _target_kind(source, name)
    out = np.full(slots.count, np.nan if kind.dtype == "float32" else -1, kind.dtype)
    known = pa.array(classes or (), pa.string())
    for batch in session.reader(f"SELECT {_ID}, {kind.sql} AS y FROM ({source.rows})", rows=BATCH):
        values = batch.column(1)
        if classes is not None:
            values = pc.index_in(values, known)
        if kind.dtype == "int64":
            values = values.fill_null(-1)
        out[slots.at(batch.column(0).to_numpy())] = values.to_numpy(zero_copy_only=False)
    np.save(directory / "target.npy", out)
    return {"target": {"column": kind.name, "classes": None if classes is None else list(classes), "dtype": kind.dtype}}


def text_of_target(source: FeatureSource, name: str) -> str | None:
    """SQL of a target that is kept as the code of its text; None: it is a number."""
    kind = _target_kind(source, name)
    return kind.sql if kind.text else None


def has_lists(session: Session, source: FeatureSource, specs: Sequence[FeatureSpec], rows: str) -> bool:
    """Whether some row of `rows` has a list in each column of lists whose type does not determine their length."""
    own = [spec for spec in specs if spec.history is None and not spec.sparse]
    lists = [part.sql for spec in own for part in parts_of(source, spec) if part.fixed is None]
    return all(session.rows(f"SELECT 1 FROM ({rows}) WHERE {sql} IS NOT NULL LIMIT 1") for sql in lists)


class _Target(NamedTuple):
    """How a target is read and kept."""

    name: str
    sql: str
    dtype: str
    text: bool
    """It is kept as a code of its text."""


def _target_kind(source: FeatureSource, name: str) -> _Target:
    column = next(c for c in source.columns if c.name.lower() == name.lower())
    quoted = quote(column.name)
    if column.type in ("FLOAT", "DOUBLE") or column.type.startswith("DECIMAL"):
        return _Target(column.name, f"CAST({quoted} AS FLOAT)", "float32", False)
    if is_feature_type(column.type):
        return _Target(column.name, f"CAST({quoted} AS BIGINT)", "int64", False)
    return _Target(column.name, f"CAST({quoted} AS VARCHAR)", "int64", True)


def _lengths(source: FeatureSource, spec: FeatureSpec, width: int | None) -> list[int | str]:
    """The length of each part (of sparse rows: their width), or SQL that gives it, or NULL when no row tells."""
    parts = parts_of(source, spec)
    if spec.sparse:
        return [(width or 0) if spec.width is None else spec.width]
    return [f"max(len({part.sql}))" if part.fixed is None else part.fixed for part in parts]
