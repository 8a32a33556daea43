"""The views that a query reads, with their columns, so that a query can be described without reading files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from snapdb.sql_engine import Names, no_rows
from snapdb.types import Column


class View(NamedTuple):
    """The definition of a name as a view."""

    sql: str | None
    """The SELECT, or None if the query does not mention the name."""
    columns: tuple[Column, ...] | None = None
    """The columns, or None if describing the SELECT costs no more than running it."""

    @property
    def shape(self) -> str:
        """A SELECT of the same columns without rows, which does not read any files."""
        if self.columns is None:
            assert self.sql is not None, "what has no columns is named"
            return self.sql
        return no_rows(self.columns)


def names_of(
    views: Mapping[str, View], schemas: Mapping[str, Mapping[str, View]], sources: Mapping[str, object]
) -> tuple[Names, Names]:
    """Return the names with their rows, and the same names without rows."""
    full = Names(_read(views), {s: _read(own) for s, own in schemas.items()}, sources)
    bare = Names(
        {n: v.shape for n, v in views.items()},
        {s: {n: v.shape for n, v in own.items()} for s, own in schemas.items()},
        sources,
        True,
    )
    return full, bare


def _read(views: Mapping[str, View]) -> dict[str, str]:
    return {name: view.sql for name, view in views.items() if view.sql is not None}
