"""Sources of a query that are computed when it is opened, such as path searches and graph algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol, TypeAlias

from snapdb.errors import SnapdbError
from snapdb.sql_engine import Names


class ComputedSource:
    """What a query reads as a table, before it is opened. Each kind of source is a subclass."""

    __slots__ = ()


class ComputedRows(Protocol):
    """The rows of an open source, which DuckDB reads through Arrow's C stream interface."""

    @property
    def error(self) -> BaseException | None:
        """The error that ended the stream, or None."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    def close(self) -> None:
        """End the stream soon, because the remaining rows are not needed."""


OpenSource: TypeAlias = "Callable[[ComputedSource], AbstractContextManager[ComputedRows]]"
"""Opens the rows of a source."""


@contextmanager
def opened_sources(names: Names, open_source: OpenSource) -> Iterator[Mapping[str, ComputedRows]]:
    """Open the computed sources of a query. Their errors replace those of the query."""
    sources = {name: each for name, each in names.sources.items() if isinstance(each, ComputedSource)}
    with ExitStack() as stack:
        opened = {name: stack.enter_context(open_source(each)) for name, each in sources.items()}
        try:
            yield opened
        except SnapdbError as error:
            # DuckDB reports only the text of an error in a stream that it reads.
            causes = [rows.error for rows in opened.values() if rows.error is not None]
            if causes and error.code != "interrupted":
                raise causes[0] from error
            raise
