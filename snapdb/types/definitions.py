"""Definitions: views, macros, types, sequences and schemas, which the catalog stores as SQL text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.types.graph import Column

DefinitionKind = Literal["view", "macro", "type", "sequence", "schema", "table"]
"""The kinds of definitions. A table is always temporary: other tables have rows at each version."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A view, macro, type, sequence or schema at one version, or a temporary table."""

    kind: DefinitionKind
    name: str
    body: str
    """The SQL that defines it: the query of a view, the parameters and expressions of a macro, a type, or the options
    of a sequence."""
    names: tuple[str, ...] = ()
    """The column names that CREATE VIEW lists."""
    columns: tuple[Column, ...] = ()
    """The columns of a temporary table, or those of a view when it was created. A view of * follows its tables."""
    schema: str = ""
    """The schema that qualifies the name, or ''."""
    id: int = 0
    """The id, which is never reused. 0 before the commit, and for a temporary definition."""
    since: int = 0
    """The version that created it."""
    temporary: bool = False
    """Whether it exists only in the session that created it."""

    @property
    def key(self) -> tuple[DefinitionKind, str]:
        """The key by which catalogs contain it: the kind and the case-folded name."""
        return self.kind, self.name.lower()
