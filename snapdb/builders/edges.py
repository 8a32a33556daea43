"""The edges of a graph as a stream of dense ids, read in one pass over their table."""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array
from snapdb.builders.graph_data import EdgeData, check_edges, end_expression
from snapdb.builders.key_lookups import NO_KEY, KeyLookup, key_lookup
from snapdb.catalog.elements import time_expression
from snapdb.sql_engine import ROW_ID, SqlSession, quote, table_rows
from snapdb.storage.array_files import STATIC
from snapdb.types import Column

_BATCH = 500_000
"""The number of rows per read."""


# Edges with dense ids, from which topologies are built.


def edge_rows(data: EdgeData) -> str:
    """Return a SELECT of every edge of the version, in any order, with the edge id as ROW_ID."""
    return table_rows(data.rows.table, data.rows.root, row_ids=True, ordered=False)


class DenseEdges:
    """Edges as record batches of source, destination, e_id and, if they exist, time, until and weight.

    All columns are int64, except for weights, which are float64. Rows are in table order if that is cheap. Iteration
    raises DataError at the first edge that violates a rule. Under ON DANGLING SKIP, dangling edges are skipped and
    counted.
    """

    def __init__(self, session: SqlSession, data: EdgeData, rows: str, *, gone: bool = False) -> None:
        """Read the edges of `rows`, a SELECT like that of `edge_rows`.

        Args:
            session: The session that reads the edges.
            data: The edge type.
            rows: The SELECT.
            gone: Whether the edges were removed. Removed edges were checked when they were added, and their ends can be
                keys of any version.
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
                reader.close()  # the check needs the session
                del batch
                self._refuse()
            seen += batch.num_rows
            self.skipped += batch.num_rows - dense.num_rows
            yield dense
        if not all(lookups):  # a join omits dangling edges, which are detected by the row count
            (rows,) = self._session.rows(f"SELECT count(*) FROM ({self._rows})")[0]
            self.skipped += rows - seen
        if self.skipped and element.on_dangling == "ERROR" and not self._gone:
            self._refuse()

    def _lookups(self) -> list[KeyLookup | None]:
        """Return the lookups for sources and for destinations. A lookup is None if a join is needed."""
        element, joined = self._data.rows.element, {}
        lookups = []
        for key, vertices in (
            (element.source_key, self._data.source),
            (element.destination_key, self._data.destination),
        ):
            column = self._data.rows.table.column(key[0])
            assert column is not None
            same = (vertices.rows.element.name, column.type)
            if same not in joined:
                ever = self._gone
                joined[same] = key_lookup(self._session, vertices, column.type, ever=ever) if len(key) == 1 else None
            lookups.append(joined[same])
        return lookups

    def table(self) -> pa.Table:
        """Return all edges as one table."""
        return pa.Table.from_batches(list(self))

    def _dense(self, batch: pa.RecordBatch, lookups: Sequence[KeyLookup | None]) -> pa.RecordBatch | None:
        """Return a batch with dense ends and without dangling edges, or None if an edge violates another rule."""
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        if any(columns[name].null_count for name in ("time", "weight") if name in columns):
            return None
        for name, lookup in zip(("source", "destination"), lookups, strict=True):
            if lookup is not None:
                columns[name] = lookup(columns[name].fill_null(NO_KEY).to_numpy(zero_copy_only=False))
        arrays = {name: _numpy(column) for name, column in columns.items()}
        if "weight" in arrays and bool(np.isnan(arrays["weight"]).any()):
            return None
        # The arrays only show that some edge is invalid. SQL determines which edge, for the error message.
        if "until" in arrays and bool(((arrays["until"] < arrays["time"]) | (arrays["until"] == STATIC)).any()):
            return None
        dangling = (arrays["source"] < 0) | (arrays["destination"] < 0)
        if dangling.any():
            arrays = {name: values[~dangling] for name, values in arrays.items()}
        return pa.RecordBatch.from_pydict(arrays)

    def _refuse(self) -> NoReturn:
        """Raise the error with examples. A second query finds them, because the fast path counts nothing."""
        check_edges(self._session, self._data, self._rows)
        raise AssertionError("unreachable: edges that break a rule in one pass break it in the next")


def _numpy(column: Any) -> Array:
    """Return a column as a numpy array."""
    return column if isinstance(column, np.ndarray) else column.to_numpy(zero_copy_only=False)


def _query(data: EdgeData, rows: str, looked_up: Sequence[bool], gone: bool) -> str:
    """Return a SELECT of source, destination, e_id, … An end is a key if `looked_up`, or a dense id from a join."""
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
    """Return SQL for an edge's time. Under NULLS STATIC, the time of an edge with NULL is STATIC."""
    time = time_expression(column, "e.")
    return f"CASE WHEN e.{quote(column.name)} IS NULL THEN {STATIC} ELSE {time} END" if static else time
