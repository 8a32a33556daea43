"""The names in the database that completion offers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapdb.sql_engine import quote

_RESERVED = frozenset(
    {
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "both",
        "case",
        "cast",
        "check",
        "collate",
        "column",
        "constraint",
        "create",
        "default",
        "deferrable",
        "desc",
        "describe",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "group",
        "having",
        "in",
        "initially",
        "intersect",
        "into",
        "key",
        "lambda",
        "lateral",
        "leading",
        "limit",
        "not",
        "null",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "pivot",
        "pivot_longer",
        "pivot_wider",
        "placing",
        "primary",
        "qualify",
        "references",
        "returning",
        "select",
        "show",
        "some",
        "summarize",
        "symmetric",
        "table",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "unpivot",
        "using",
        "variadic",
        "when",
        "where",
        "window",
        "with",
    }
)
"""Words that DuckDB or we take for no name."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LISTS = ("tables", "graphs", "snapshots", "samplers", "caches", "tasks", "tags", "functions", "types")


@dataclass(frozen=True, slots=True)
class Known:
    """Names by kind, as they were given."""

    tables: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    """DuckDB's."""
    types: tuple[str, ...] = ()
    """The elements of all graphs."""
    columns_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table, element, snapshot and element with a dot between, or `snapdb.` and table; in small letters."""
    elements_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By snapshot, or `snapdb`, in small letters: what may follow it and a dot."""

    @classmethod
    def from_names(cls, names: Mapping[str, Any]) -> Known:
        """The names that `Database.names` returned.

        >>> Known.from_names({"tables": ["t"], "columns_of": {"t": ["a"], "Now.Person": ["e_id"]}}).elements_of["now"]
        ('Person',)
        """
        columns_of: Mapping[str, Iterable[str]] = names.get("columns_of", {})
        elements: dict[str, list[str]] = {}
        for name in columns_of:
            schema, dot, element = name.partition(".")
            if dot:
                elements.setdefault(schema.lower(), []).append(element)
        return cls(
            **{kind: tuple(names.get(kind, ())) for kind in _LISTS},
            columns_of={name.lower(): tuple(columns) for name, columns in columns_of.items()},
            elements_of={schema: tuple(found) for schema, found in elements.items()},
        )

    def of(self, *kinds: str) -> list[str]:
        """The names of some kinds in that order."""
        return [name for kind in kinds for name in getattr(self, kind)]

    def edges_of(self, snapshot: str, *, vertices: bool = False) -> list[str]:
        """The edge types of a snapshot, or its vertex types; all types where there is no such snapshot.

        Only edges have a column e_id.
        """
        elements = self.elements_of.get(snapshot.lower())
        if elements is None:
            return list(self.types)
        columns = (self.columns_of[f"{snapshot}.{element}".lower()] for element in elements)
        return [e for e, names in zip(elements, columns, strict=True) if ("e_id" in names) is not vertices]

    def columns(self) -> list[str]:
        """Each column's name once, without those of the system tables."""
        own = (columns for of, columns in self.columns_of.items() if not of.startswith("snapdb."))
        return list(dict.fromkeys(name for columns in own for name in columns))


def written(name: str) -> str:
    """A name as a person would write it: in double quotes where it needs them.

    >>> written("name"), written("my person"), written("order")
    ('name', '"my person"', '"order"')
    """
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else quote(name)
