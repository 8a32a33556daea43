"""The rows of an algorithm as an Arrow stream, which a query reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from snapdb.algorithms.graph import Run, Values
from snapdb.algorithms.methods import METHODS
from snapdb.algorithms.needs import needed_bytes
from snapdb.algorithms.nodes import Nodes
from snapdb.algorithms.opening import EdgeRows
from snapdb.builders.context import BuildContext
from snapdb.errors import InputError, SnapdbError
from snapdb.graph import open_snapshot
from snapdb.graph.layout import SnapshotLayout, raise_if_snapshot_replaced, read_layout
from snapdb.memory import usable_memory
from snapdb.plan.algorithm_sources import AlgorithmSource
from snapdb.plan.scope import BindContext
from snapdb.sql_engine import no_rows
from snapdb.types.text import size_words

_ROWS = 1 << 17
"""The number of rows per batch."""
_SHARE = 0.5
"""The share of the usable memory for the arrays of an algorithm. DuckDB uses at most 35 % besides."""


@dataclass(slots=True)
class AlgorithmRows:
    """The rows of an algorithm as an Arrow stream. The first reader computes the values."""

    context: BuildContext
    bind_context: BindContext
    source: AlgorithmSource
    schema: pa.Schema
    threads: int
    error: BaseException | None = None
    """The error that ended the stream. DuckDB reports only its text."""
    values: Values | None = None
    """The values, once they are computed."""
    rows: int = 0
    """The number of rows read."""
    seconds: float = 0.0
    """The time of the computation, without that of the reader."""
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _closing: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """End the stream soon, because the remaining rows are not needed."""
        self._closing.set()

    def release(self) -> None:
        """Free the values, and let go of the database."""
        self._batches = []
        del self.context, self.bind_context

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._read())
        return reader.__arrow_c_stream__(requested_schema)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of nodes and edges."""
        layout = self._layout()
        names = {vertex.name for vertex in self.source.vertices}
        nodes = sum(vertex.count for vertex in layout.vertices if vertex.name in names)
        return nodes, sum(edge.edges for edge in layout.edges if edge.name in self.source.edges)

    @property
    def bytes(self) -> int:
        """The expected memory of the arrays."""
        nodes, edges = self.size
        needed = needed_bytes(self.source.algorithm.name, nodes, edges, self.source.options, self.threads)
        # Rows of several types are merged, and rows that are not stored as such are copied.
        layout = [edge for edge in self._layout().edges if edge.name in self.source.edges]
        plain = all(edge.form in ("full", "materialized") and edge.patch is None for edge in layout)
        merged = len(layout) > 1 or len(self.source.vertices) > 1
        needed += 0 if plain and not merged else 4 * edges + 8 * nodes
        return needed + (16 * edges if self.source.weight is not None else 0)

    def _layout(self) -> SnapshotLayout:
        with raise_if_snapshot_replaced(self.context.store.catalog_db, self.source.snapshot):
            return read_layout(self.context.store.db_dir, self.source.snapshot)

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. They are computed by the first of several readers."""
        try:
            if self.values is None:
                started = time.perf_counter()
                self.values, self._batches = self._computed()
                self.seconds = time.perf_counter() - started
            self.rows = 0
            for batch in self._batches:
                self.rows += batch.num_rows
                yield batch
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, SnapdbError) and error.code != "interrupted":
                error.span = error.span or self.source.span
            self.error = error
            raise

    def _computed(self) -> tuple[Values, list[pa.RecordBatch]]:
        """Compute the values and their rows.

        Raises:
            InputError: The arrays would need too much memory.
            QueryError: A stop was requested, or the algorithm did not converge.
        """
        self._check_memory()
        context, source = self.context, self.source
        what = f"computing {source.algorithm.name}"
        run = Run(self.threads, lambda share: context.report(what, share), context.check_stopped, closing=self._closing)
        run.step()
        opened = open_snapshot(context.store.catalog_db, source.snapshot, lambda element: False)
        nodes = Nodes(context, self.bind_context, source, opened)
        edges = EdgeRows(nodes)
        try:
            pairs = nodes.pairs()
            options = {**source.options, "seeds": nodes.seeds(), "pairs": None if pairs is None else pairs[1]}
            values = METHODS[source.algorithm.name](edges.graph(self.size[1]), options, run)
            run.step(1.0)
            if pairs is not None:
                table = pairs[0].append_column("#value", [_array(values, slice(None))])
                return values, self._table(table)
            return values, [*self._node_batches(nodes, values)]
        finally:
            edges.release()
            opened.lease.release()

    def _check_memory(self) -> None:
        needed, limit = self.bytes, int(usable_memory() * _SHARE)
        if needed > limit:
            nodes, edges = self.size
            raise InputError(
                f"{self.source} needs {size_words(needed)} for {nodes:,} nodes and {edges:,} edges, and may use "
                f"{size_words(limit)}, {_SHARE:.0%} of the memory; use fewer edge types, a snapshot with WHERE or a "
                "window, or a machine with more memory",
                code="memory",
            )

    def _table(self, table: pa.Table) -> list[pa.RecordBatch]:
        columns = [column.cast(f.type) for column, f in zip(table.columns, self.schema, strict=True)]
        batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=self.schema).to_batches(_ROWS)
        return batches

    def _node_batches(self, nodes: Nodes, values: Values) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the vertices in the snapshot, in the order of node numbers."""
        vertices = self.source.vertices
        for vertex in vertices:
            ids = nodes.living(vertex)
            for start in range(0, ids.size, _ROWS):
                part = ids[start : start + _ROWS]
                columns = [] if len(vertices) == 1 else [pa.array([vertex.name] * part.size, pa.string())]
                for other in vertices:
                    own = other is vertex
                    columns += nodes.keys(vertex, part) if own else [pa.nulls(part.size)] * len(other.key)
                columns.append(_array(values, part + nodes.offsets[vertex.name]))
                cast = [column.cast(f.type) for column, f in zip(columns, self.schema, strict=True)]
                yield pa.RecordBatch.from_arrays(cast, schema=self.schema)


def _array(values: Values, at: slice | np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
    """Return the values at given positions, with NULL where there is none."""
    return pa.array(values.values[at], mask=None if values.valid is None else ~values.valid[at])


@contextmanager
def opened_algorithm(
    context: BuildContext, bind_context: BindContext, source: AlgorithmSource, threads: int | None
) -> Iterator[AlgorithmRows]:
    """Open the rows of an algorithm. Nothing is computed before the first row is read."""
    with context.store.sql_engine.session() as session:
        schema = session.table(no_rows(source.columns)).schema
    rows = AlgorithmRows(context, bind_context, source, schema, threads or os.cpu_count() or 1)
    try:
        yield rows
    finally:
        # DuckDB holds the rows, which hold the engine, and Python's garbage collector does not see through DuckDB.
        rows.release()
