"""A graph's edges as a stream of dense ids, in one pass over their table: what topologies are built from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.catalog.elements import time_expression
from snapdb.execute.graph_data import EdgeData, check_edges, end_expression
from snapdb.execute.key_lookup import NO_KEY, KeyLookup, key_lookup
from snapdb.relational import ROW_ID, Session, quote, table_rows
from snapdb.storage.arrays import STATIC
from snapdb.types import Column

_BATCH = 500_000


def edge_rows(data: EdgeData) -> str:
    """SELECT of every edge of the version, in any order, with its id, called ROW_ID."""
    return table_rows(data.rows.table, data.rows.root, row_ids=True, ordered=False)


class DenseEdges:
    """Edges as record batches of source, destination, e_id and, where there are, time, until and weight (int64s,
    weights float64), in the order of the table where that is cheap.

    Reading them raises DataError at the first edge that breaks a rule; dangling ones are left out and counted where
    the graph says SKIP.
    """

    def __init__(self, session: Session, data: EdgeData, rows: str, *, gone: bool = False) -> None:
        """Of `rows`, a SELECT like `edge_rows`.

        Args:
            gone: These edges were checked when they came; ends may be any key that there ever was.
        """
        self.skipped = 0
        self._session, self._data, self._rows, self._gone = session, data, rows, gone

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        element = self._data.rows.element
        lookups = self._lookups()
        query = _query(self._data, self._rows, [lookup is not None for lookup in lookups], self._gone)
        seen = 0
        reader = self._session.reader(query, rows=_BATCH)
        for batch in reader:
            dense = self._dense(batch, lookups)
            if dense is None:
                reader.close()  # for a look that needs the session
                del batch
                self._refuse()
            seen += batch.num_rows
            self.skipped += batch.num_rows - dense.num_rows
            yield dense
        if not all(lookups):  # a join leaves dangling edges out by itself
            (rows,) = self._session.rows(f"SELECT count(*) FROM ({self._rows})")[0]
            self.skipped += rows - seen
        if self.skipped and element.on_dangling == "ERROR" and not self._gone:
            self._refuse()

    def _lookups(self) -> list[KeyLookup | None]:
        """Of sources and of destinations; None where a join is needed."""
        element, made = self._data.rows.element, {}
        found = []
        for key, vertices in (
            (element.source_key, self._data.source),
            (element.destination_key, self._data.destination),
        ):
            column = self._data.rows.table.column(key[0])
            assert column is not None
            same = (vertices.rows.element.name, column.type)
            if same not in made:
                ever = self._gone
                made[same] = key_lookup(self._session, vertices, column.type, ever=ever) if len(key) == 1 else None
            found.append(made[same])
        return found

    def table(self) -> pa.Table:
        """All of them at once."""
        return pa.Table.from_batches(list(self))

    def _dense(self, batch: pa.RecordBatch, lookups: Sequence[KeyLookup | None]) -> pa.RecordBatch | None:
        """A batch with dense ends, those that dangle left out; None when an edge breaks another rule."""
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        if any(columns[name].null_count for name in ("time", "weight") if name in columns):
            return None
        for name, lookup in zip(("source", "destination"), lookups, strict=True):
            if lookup is not None:
                columns[name] = lookup(columns[name].fill_null(NO_KEY).to_numpy(zero_copy_only=False))
        arrays = {name: _numpy(column) for name, column in columns.items()}
        if "weight" in arrays and bool(np.isnan(arrays["weight"]).any()):
            return None
        if "until" in arrays and bool(((arrays["until"] < arrays["time"]) | (arrays["until"] == STATIC)).any()):
            return None
        dangling = (arrays["source"] < 0) | (arrays["destination"] < 0)
        if dangling.any():
            arrays = {name: values[~dangling] for name, values in arrays.items()}
        return pa.RecordBatch.from_pydict(arrays)

    def _refuse(self) -> NoReturn:
        """Say what is wrong, which takes another look."""
        check_edges(self._session, self._data, self._rows)
        raise AssertionError("unreachable: edges that break a rule in one pass break it in the next")


def _numpy(column: Any) -> npt.NDArray[Any]:
    return column if isinstance(column, np.ndarray) else column.to_numpy(zero_copy_only=False)


def _query(data: EdgeData, rows: str, looked_up: Sequence[bool], gone: bool) -> str:
    """SELECT source, destination, e_id, …; an end is its key where it is `looked_up`, else its dense id by a join."""
    element = data.rows.element
    chosen, joins = [], []
    sides = (
        ("source", "s", element.source_key, data.source),
        ("destination", "d", element.destination_key, data.destination),
    )
    for (name, alias, key, vertices), simple in zip(sides, looked_up, strict=True):
        if simple:
            chosen.append(f"TRY_CAST(e.{quote(key[0])} AS BIGINT) AS {name}")
        else:
            chosen.append(f"{alias}.dense AS {name}")
            same = " AND ".join(f"e.{quote(column)} = {alias}.k{i}" for i, column in enumerate(key))
            joins.append(f"JOIN ({vertices.known if gone else vertices.dense}) {alias} ON {same}")
    chosen.append(f"e.{quote(ROW_ID)} AS e_id")
    if data.rows.time is not None:
        chosen.append(f"{_time(data.rows.time, static=element.nulls_static)} AS time")
    if data.rows.end is not None:
        chosen.append(f"{end_expression(data.rows.end, 'e.')} AS until")
    if element.weight:
        chosen.append(f"CAST(e.{quote(element.weight)} AS DOUBLE) AS weight")
    return f"SELECT {', '.join(chosen)} FROM ({rows}) e {' '.join(joins)}"


def _time(column: Column, *, static: bool) -> str:
    time = time_expression(column, "e.")
    return f"CASE WHEN e.{quote(column.name)} IS NULL THEN {STATIC} ELSE {time} END" if static else time
