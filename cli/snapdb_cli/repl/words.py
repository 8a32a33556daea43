"""The keywords and database names that completion offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from snapdb.sql.lexer import READS

if TYPE_CHECKING:
    from snapdb.catalog.vocabulary import Vocabulary


def phrases(text: str) -> tuple[str, ...]:
    """Return the comma-separated words and phrases of a text."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


RELATION = frozenset(phrases("FROM, JOIN, INTO, TABLE, DESCRIBE, SUMMARIZE, PIVOT, UNPIVOT"))
"""Keywords that precede a table name."""
CLAUSES = RELATION.union(
    phrases("SELECT, WHERE, ON, USING, BY, HAVING, QUALIFY, LIMIT, OFFSET, VALUES, WITH, SET, OVER")
)
AFTER_TABLE = phrases(
    """
    AS, ASOF JOIN, AT (VERSION =>, AT (TAG =>, AT (TIMESTAMP =>, CROSS JOIN, EXCEPT, FULL JOIN, GROUP BY, HAVING,
    INNER JOIN, INTERSECT, JOIN, LEFT JOIN, LIMIT, OFFSET, ON, ORDER BY, QUALIFY, RIGHT JOIN, SEMI JOIN, UNION ALL,
    USING, USING SAMPLE, WHERE, WINDOW
    """
)
AFTER_VALUE = phrases(
    """
    AND, AS, ASC, BETWEEN, DESC, ELSE, END, EXCEPT, EXCLUDE, FILTER, FROM, GROUP BY, HAVING, ILIKE, IN, INTERSECT,
    IS NOT NULL, IS NULL, JOIN, LEFT JOIN, LIKE, LIMIT, NOT IN, NOT LIKE, NULLS FIRST, NULLS LAST, OFFSET, ON, OR,
    ORDER BY, OVER, PARTITION BY, QUALIFY, REPLACE, THEN, UNION ALL, USING, WHEN, WHERE, WINDOW
    """
)
IN_VALUE = phrases(
    """
    ALL, ANY, CASE, CAST, DATE, DISTINCT, EXISTS, FALSE, INTERVAL, NOT, NULL, SELECT, TIMESTAMP, TRUE, TRY_CAST,
    WHEN, ORDER BY, PARTITION BY, COLUMNS
    """
)
SQL_TYPES = phrases(
    """
    BIGINT, BLOB, BOOLEAN, DECIMAL, DOUBLE, FLOAT, HUGEINT, INTEGER, SMALLINT, TIME, TIMESTAMPTZ, TINYINT, UBIGINT,
    UINTEGER, UUID, VARCHAR
    """
)
SQL_WORDS = frozenset(
    word
    for phrase in (*AFTER_TABLE, *AFTER_VALUE, *IN_VALUE, *SQL_TYPES, *CLAUSES, *READS)
    for word in phrase.split()
    if word.isalpha()
)
"""The DuckDB SQL keywords that are offered."""


class CandidateGroup(NamedTuple):
    """Candidates of one kind."""

    kind: str
    """The kind, which is displayed next to the candidates."""
    texts: Sequence[str]
    form: Literal["name", "word", "text"]
    """How the texts are inserted: names are quoted if necessary, words adopt the case of the typed text, and texts are
    unchanged."""
    eager: bool = True
    """Whether the candidates are offered before anything is typed."""


_LISTS = ("tables", "views", "graphs", "snapshots", "samplers", "caches", "tasks", "tags", "functions", "types")


@dataclass(frozen=True, slots=True)
class DatabaseNames:
    """Names by kind, in their original case."""

    tables: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    """The functions of DuckDB."""
    types: tuple[str, ...] = ()
    """The elements of all graphs."""
    columns_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns by table, element, `snapshot.element` or `snapdb.table`, in lower case."""
    elements_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps each snapshot and `snapdb`, in lower case, to the names that may follow it and a dot."""

    @classmethod
    def from_names(cls, names: Vocabulary) -> DatabaseNames:
        """Convert the names that `Database.names` returned.

        >>> names = DatabaseNames.from_names({"columns_of": {"t": ["a"], "Now.Person": ["e_id"]}})
        >>> names.elements_of["now"]
        ('Person',)
        """
        columns_of = names["columns_of"]
        lists = cast("Mapping[str, list[str]]", names)
        elements: dict[str, list[str]] = {}
        for name in columns_of:
            schema, dot, element = name.partition(".")
            if dot:
                elements.setdefault(schema.lower(), []).append(element)
        return cls(
            **{kind: tuple(lists.get(kind, ())) for kind in _LISTS},
            columns_of={name.lower(): tuple(columns) for name, columns in columns_of.items()},
            elements_of={schema: tuple(names) for schema, names in elements.items()},
        )

    def of(self, *kinds: str) -> list[str]:
        """Return the names of the given kinds, in that order."""
        return [name for kind in kinds for name in getattr(self, kind)]

    def edges_of(self, snapshot: str, *, vertices: bool = False) -> list[str]:
        """Return the edge types of a snapshot, or its vertex types, or all types if there is no such snapshot.

        Only edges have an e_id column.
        """
        elements = self.elements_of.get(snapshot.lower())
        if elements is None:
            return list(self.types)
        columns = (self.columns_of[f"{snapshot}.{element}".lower()] for element in elements)
        return [e for e, names in zip(elements, columns, strict=True) if ("e_id" in names) is not vertices]

    def columns(self) -> list[str]:
        """Return the distinct names of all columns, except those of the system tables."""
        own = (columns for of, columns in self.columns_of.items() if not of.startswith("snapdb."))
        return list(dict.fromkeys(name for columns in own for name in columns))
