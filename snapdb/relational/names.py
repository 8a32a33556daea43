"""The names that a session's SQL may use, and what stands behind each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapdb.relational.quote import quote
from snapdb.types import Column


@dataclass(frozen=True, slots=True)
class Names:
    """What a session's SQL may name."""

    views: Mapping[str, str] = field(default_factory=dict)
    """Table name → SELECT."""
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Schema (snapshot) name → element name → SELECT."""
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Name → Arrow table, for data that a caller registered."""
    lasting: bool = False
    """Whether the views read nothing that could change, so that they may stay for the next who wants the same."""

    @property
    def statements(self) -> tuple[str, ...]:
        """What makes the views."""
        made = [f"CREATE VIEW {quote(name)} AS {select}" for name, select in self.views.items()]
        for schema, views in self.schemas.items():
            made.append(f"CREATE SCHEMA {quote(schema)}")
            made += [f"CREATE VIEW {quote(schema)}.{quote(name)} AS {select}" for name, select in views.items()]
        return tuple(made)


def together(parts: Iterable[Names]) -> Names:
    """All names of several parts of one query; lasting where those of every part are.

    >>> together([Names({"a": "SELECT 1"}), Names({"b": "SELECT 2"})]).views
    {'a': 'SELECT 1', 'b': 'SELECT 2'}
    """
    views: dict[str, str] = {}
    schemas: dict[str, Mapping[str, str]] = {}
    sources: dict[str, Any] = {}
    lasting = True
    for part in parts:
        views |= part.views
        for name, elements in part.schemas.items():
            schemas[name] = {**schemas.get(name, {}), **elements}
        sources |= part.sources
        lasting = lasting and part.lasting
    return Names(views, schemas, sources, lasting)


def no_rows(columns: Iterable[Column]) -> str:
    """The SELECT of no rows with these columns: it tells names and types, and reads nothing.

    >>> no_rows([Column("a", "INTEGER"), Column("b c", "DATE")])
    'SELECT CAST(NULL AS INTEGER) AS "a", CAST(NULL AS DATE) AS "b c" WHERE false'
    """
    return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {quote(c.name)}' for c in columns)} WHERE false"
