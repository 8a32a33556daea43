"""The rows of a path search as an Arrow stream, which a query reads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from snapdb.builders.context import BuildContext
from snapdb.graph import open_snapshot
from snapdb.paths.arrays import SearchArrays, search_arrays
from snapdb.paths.groups import SourceGroups
from snapdb.paths.methods import find_paths
from snapdb.paths.numbering import Numbering
from snapdb.paths.rows import PathRows
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import PathSearch
from snapdb.sql_engine import no_rows


@dataclass(slots=True)
class SearchRows:
    """The rows of a path search as an Arrow stream, which is computed whenever it is read."""

    numbering: Numbering
    search: PathSearch
    schema: pa.Schema
    threads: int
    error: BaseException | None = None
    """The error that ended the stream. DuckDB reports only its text."""
    rows: int = 0
    """The number of rows read."""
    seconds: float = 0.0
    """The time until the last row was read, which contains that of the reader."""
    _arrays: SearchArrays | None = None
    _groups: SourceGroups | None = None

    @property
    def sources(self) -> int:
        """The number of vertices from which paths were searched."""
        return 0 if self._arrays is None else self._arrays.sources.size

    def close(self) -> None:
        """End the stream soon, because the remaining rows are not needed."""
        if self._groups is not None:
            self._groups.closing.set()

    def release(self) -> None:
        """Free the arrays of the search, and let go of the database."""
        self._arrays = self._groups = None
        del self.numbering

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        started = time.perf_counter()
        try:
            if self._arrays is None:
                self._arrays = search_arrays(self.numbering, self.search, ends_only=self.search.ends_only)
            rows = PathRows(self.numbering, self.search, self.schema, self._arrays.real)
            self._groups = SourceGroups(self.numbering.context, self.threads)
            self.rows = 0
            for paths in find_paths(self.search, self._arrays, self._groups):
                batch = rows.batch(paths)
                self.rows += batch.num_rows
                yield batch
            self.seconds = time.perf_counter() - started
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


@contextmanager
def opened_search(
    context: BuildContext, bind_context: BindContext, search: PathSearch, threads: int | None
) -> Iterator[SearchRows]:
    """Open the rows of a path search. The files of its snapshot are kept during the block."""
    with context.store.sql_engine.session() as session:
        schema = session.table(no_rows(search.columns)).schema
    opened = None
    if search.snapshot is not None:
        opened = open_snapshot(context.store.catalog_db, search.snapshot, lambda element: False)
    numbering = Numbering(context, bind_context, search, opened)
    rows = SearchRows(numbering, search, schema, threads or os.cpu_count() or 1)
    try:
        yield rows
    finally:
        # DuckDB holds the rows, which hold the engine, and Python's garbage collector does not see through DuckDB.
        rows.release()
        if opened is not None:
            opened.lease.release()
