"""Features that change in time: per vertex its values in the order of their times, so that none is read too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError, DataError
from snapdb.kernels.history import last_before
from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.disk import map_array
from snapdb.storage.feature_checks import Rule, check_features, check_rules
from snapdb.storage.feature_files import BATCH, measure, new_array, places_of
from snapdb.storage.feature_types import FeatureSource, parts_of
from snapdb.types import FeatureSpec

Int64s = npt.NDArray[np.int64]
Shown = Callable[[Int64s], Sequence[object]]
"""Gives ids as a person knows them."""

FOREVER = 2**63 - 1
"""Every time is before it."""

_ID, _TIME, _ORDER = quote(ROW_ID), quote("snapdb time"), quote("snapdb order")
_CHUNK = 1 << 20


class HistoryArrays(NamedTuple):
    """Vertex v has the rows indptr[v] up to indptr[v + 1]."""

    indptr: Int64s
    """[vertices + 1]"""
    time: Int64s
    """Since when each row holds; ascending within a vertex."""
    rows: npt.NDArray[Any]
    """[rows, width] the values."""


def write_history(session: Session, source: FeatureSource, spec: FeatureSpec, directory: Path) -> dict[str, Any]:
    """Write the rows of a history by (vertex, time, row id), and return their facts: of one time the last row counts.

    Args:
        source: Its rows have the feature's columns and those of `key`, the vertex's dense id as `ROW_ID`, "snapdb
            time" (BIGINT) and "snapdb order" (the row id); its count is that of vertices; its element names the table.

    Raises:
        DataError: a row has no time, or a value is missing or does not fit; it counts them and shows three.
    """
    assert spec.history is not None
    spec = replace(spec, history=None)
    _check_times(session, source, spec)
    facts = measure(session, source, [spec])
    lengths = facts["parts"][spec.name]
    (count,) = session.rows(f"SELECT count(*) FROM ({source.rows})")[0]
    out = new_array(directory / f"feature-{spec.name}.npy", spec, int(count), sum(lengths))
    time = np.lib.format.open_memmap(directory / "time.npy", mode="w+", dtype=np.int64, shape=(int(count),))
    counts = np.zeros(source.count + 1, np.int64)
    places = places_of(parts_of(source, spec), lengths, spec.default, out)
    values = ", ".join(place.part.value for place in places)
    query = f"SELECT {_ID}, {_TIME}, {values} FROM ({source.rows}) ORDER BY {_ID}, {_TIME}, {_ORDER}"
    at = 0
    for batch in session.reader(query, rows=BATCH):
        where = np.arange(at, at + batch.num_rows)
        at += batch.num_rows
        np.add.at(counts, batch.column(0).to_numpy() + 1, 1)
        time[where] = batch.column(1).to_numpy()
        for i, place in enumerate(places, 2):
            place.store(batch.column(i), where)
    np.save(directory / "indptr.npy", np.cumsum(counts))
    return {**facts, "rows": int(count), "count": source.count}


def _check_times(session: Session, source: FeatureSource, spec: FeatureSpec) -> None:
    late = "delete them or give them a time"
    check_rules(session, source, [Rule(f"{_TIME} IS NULL", "NULL or infinity as event time", late)])
    check_features(session, source, [spec])


def read_history(directory: Path, name: str) -> HistoryArrays:
    """The arrays that `write_history` wrote, memory-mapped.

    Raises:
        CorruptError: one is missing, or of another type or length than the others need. Values are not looked at.
    """
    files = ("indptr.npy", "time.npy", f"feature-{name}.npy")
    found = HistoryArrays(*(map_array(directory / file) for file in files))
    fits = (
        found.indptr.dtype == found.time.dtype == np.int64
        and (found.indptr.ndim, found.time.ndim, found.rows.ndim) == (1, 1, 2)
        and found.indptr.size > 0
        and found.time.size == found.rows.shape[0]
    )
    if not fits:
        raise CorruptError(
            f"{directory} holds no history of {name}; restore it from a backup or create the snapshot again",
            code="damaged-snapshot",
        )
    return found


def check_history(
    directory: Path,
    alive: npt.NDArray[np.bool_] | None,
    stop: int | None,
    element: str,
    name: str,
    shown: Shown = list,
) -> None:
    """Nothing when every vertex has a value before the window's end; said where there is no DEFAULT.

    Args:
        alive: [vertices] which are in the snapshot; None: all are.
        shown: Gives ids as a person knows them.

    Raises:
        DataError: it counts the vertices without one and shows three.
    """
    arrays = read_history(directory, name)
    count = arrays.indptr.size - 1
    missing, first = 0, np.empty(0, np.int64)
    for low in range(0, count, _CHUNK):
        ids = np.arange(low, min(low + _CHUNK, count))
        if alive is not None:
            ids = ids[alive[ids]]
        bounds = np.full(ids.size, FOREVER if stop is None else stop)
        without = ids[last_before(arrays.indptr, arrays.time, ids, bounds) < 0]
        missing += without.size
        first = np.concatenate([first, without[: 3 - first.size]])
    if missing:
        raise missing_values(element, name, missing, shown(first))


def missing_values(element: str, name: str, count: int, shown: Sequence[object]) -> DataError:
    """The error of vertices that have no value yet."""
    who = f"1 vertex of {element} has" if count == 1 else f"{count} vertices of {element} have"
    ids = ", ".join(str(id_) for id_ in shown)
    return DataError(
        f"{who} no value of feature {name} before the time asked for (ids {ids}); "
        "add rows to its history, or say DEFAULT in the graph",
        code="missing-feature",
    )
