"""SQL that is ready to run, with the views it needs. DuckDB errors are mapped back to the statement."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from snapdb.catalog import Catalog
from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES
from snapdb.errors import CorruptError, SnapdbError, Span
from snapdb.plan.variables import unfit_variable
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import Names, together
from snapdb.types.lakes import about_lake
from snapdb.types.text import did_you_mean

Parameters = Sequence[Any] | Mapping[str, Any] | None

_QUALIFIED = re.compile(r'^column "([^"]*)" does not exist in (\S+)$')
_NAMING = ("duplicate-", "folder-", "no-file", "unknown-")
"""The code prefixes of errors about a name."""
_SEARCHED = re.compile(r"\"paths \d+ rows\"")
"""The name of a path search in a query."""
_INTERNAL = re.compile(
    r"paths \d+( rows| found)?|#(match|length|vertices|path_edges|elements)\b|(?<=similar: )[^;]*\d+"
)
"""The names of the relations and columns of a path search."""
_LISTED = 8
"""The maximum number of names that a message lists."""


class _Piece(NamedTuple):
    """A part of composed SQL that is copied from the statement."""

    start: int
    """The index of its first character in the composed SQL."""
    stop: int
    place: int
    """The index of its first character in the statement's text."""


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A user's query or condition, or SQL composed of several of them."""

    text: str
    span: Span
    """The span for errors in parts that the user did not write."""
    names: Names = Names()  # noqa: RUF009  # frozen, and empty
    shapes: Names | None = None
    """The same names as views without rows, which are sufficient to describe the query without reading files, or None
    if the description requires `names`."""
    parameters: Parameters = None
    pieces: tuple[_Piece, ...] = ()

    def place(self, span: Span | None) -> Span:
        """Map a span of `text` to a span of the statement's text."""
        if span is None:
            return self.span
        piece = next((p for p in self.pieces if p.start <= span.start < p.stop), None)
        if piece is None:
            return self.span
        shift = piece.place - piece.start
        return Span(span.start + shift, min(span.stop, piece.stop) + shift)


def written(
    fragment: SqlFragment,
    names: Names | None = None,
    parameters: Parameters = None,
    replacements: Sequence[tuple[Span, str | BoundQuery]] = (),
    shapes: Names | None = None,
) -> BoundQuery:
    """Return an SQL fragment as the user wrote it, except for replacements with spans relative to the fragment.

    >>> asked = written(SqlFragment("SELECT at", Span(10, 19)), replacements=[(Span(7, 9), '"at"')])
    >>> asked.text, asked.place(Span(0, 6)), asked.place(Span(7, 11))
    ('SELECT "at"', Span(start=10, stop=16), Span(start=17, stop=19))
    """
    text, at = fragment.text, fragment.span.start
    whole = BoundQuery("", fragment.span, names or Names(), shapes, parameters)
    parts: list[str | BoundQuery] = []
    done = 0
    for span, new in sorted(replacements, key=lambda each: each[0]):
        parts.append(_copied(text[done : span.start], Span(at + done, at + span.start)))
        # An error in a replacement points to the text that it replaced.
        parts.append(new if isinstance(new, BoundQuery) else _copied(new, Span(at + span.start, at + span.stop)))
        done = span.stop
    parts.append(_copied(text[done:], Span(at + done, at + len(text)), past=1))
    joined = compose(fragment.span, *parts)
    return replace(
        joined,
        names=together((whole.names, joined.names)),
        shapes=None if shapes is None else together((shapes, joined.shapes or joined.names)),
        parameters=_merged(parameters, joined.parameters),
    )


def _copied(text: str, place: Span, past: int = 0) -> BoundQuery:
    """Return text whose positions map to a span of the statement. `past` also maps positions after its end."""
    length = min(len(text), place.stop - place.start)
    pieces = (_Piece(0, length + past, place.start),) if length + past else ()
    return BoundQuery(text, place, Names(), Names(lasting=True), None, pieces)


def _merged(one: Parameters, other: Parameters) -> Parameters:
    """Return the parameters of two parts of a query."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other}
    return one if other is None else other


def compose(span: Span, *parts: str | BoundQuery) -> BoundQuery:
    """Concatenate SQL from snapdb and from the user. The parts share the parameters of one statement.

    >>> compose(Span(0, 9), "SELECT ", written(SqlFragment("a + 1", Span(4, 9)))).place(Span(11, 12))
    Span(start=8, stop=9)
    """
    text = ""
    pieces: list[_Piece] = []
    parameters: Parameters = None
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        pieces += [_Piece(p.start + len(text), p.stop + len(text), p.place) for p in part.pieces]
        text += part.text
        if isinstance(part.parameters, Mapping):
            parameters = {**(parameters if isinstance(parameters, Mapping) else {}), **part.parameters}
        elif part.parameters is not None:
            parameters = part.parameters
    queries = [part for part in parts if isinstance(part, BoundQuery)]
    names = together(part.names for part in queries)
    shapes = together(part.shapes or part.names for part in queries)
    return BoundQuery(text, span, names, shapes, parameters, tuple(pieces))


def conjunction(conditions: Sequence[str | BoundQuery], word: str = " WHERE ") -> list[str | BoundQuery]:
    """Return a clause of conditions that must all hold, as parts of a query, or nothing without conditions.

    >>> "".join(conjunction(["a > 1", "b"]))
    ' WHERE (a > 1) AND (b)'
    """
    parts: list[str | BoundQuery] = []
    for condition in conditions:
        parts += [" AND (" if parts else f"{word}(", condition, ")"]
    return parts


def explain_refusal(error: SnapdbError, query: BoundQuery, inner: Span | None, catalog: Catalog) -> None:
    """Add suggestions from the catalog and the position in the statement to a DuckDB error.

    Args:
        error: The error from running `query`. It is modified in place.
        query: The query.
        inner: The span in the query's text that DuckDB reports, or None.
        catalog: The catalog.
    """
    if error.code == "interrupted" or isinstance(error, CorruptError):
        error.span = None
        return
    # For unknown names, DuckDB can report the position of another part of the query. The quoted name is more reliable.
    named = _mentioned(query.text, error.message) if error.code.startswith(_NAMING) else None
    if inner is None or (named is not None and not (inner.start <= named.start < inner.stop)):
        inner = named or inner
    if error.code == "unknown-table":
        fragment = query.text[inner.start : inner.stop] if inner else ""
        error.message = _unknown_table(error.message, fragment, catalog, query.text)
    elif error.code == "unknown-column" and (match := _QUALIFIED.search(error.message)):
        known = sorted(set(_columns(query, catalog)))
        error.message += did_you_mean(match[1], known)
    elif error.code == "unknown-column" and inner is not None and query.text[inner.start : inner.start + 1] == '"':
        text = query.text[inner.start + 1 : inner.stop - 1].replace('""', '"').replace("'", "''")
        if "did you mean" not in error.message:
            error.message = f"{error.message.split(';')[0]}; write strings in single quotes, '{text[:40]}'"
    if _SEARCHED.search(query.text) and _INTERNAL.search(error.message):
        # The relations of a search have names that the user did not write.
        error.message = f"{error.message.split(';')[0]}; columns of patterns are written as variable.column"
        error.message = _INTERNAL.sub("the patterns", error.message)
    error.span = query.place(inner)


def _mentioned(text: str, message: str) -> Span | None:
    """Return the span of the first quoted name in the message if it occurs exactly once in the text."""
    name = re.search(r'"([^"]+)"', message)
    places = [] if name is None else [*islice(_words(text, name[1]), 2)]
    return Span(places[0], places[0] + len(name[1])) if name is not None and len(places) == 1 else None


def _words(text: str, word: str) -> Iterator[int]:
    """Yield the positions of a word. A regular expression for a long word would be slow to compile."""
    place = text.find(word)
    while place >= 0:
        stop = place + len(word)
        alone = not (_is_letter(text[place - 1 : place]) or _is_letter(text[stop : stop + 1]))
        if alone:
            yield place
        place = text.find(word, stop if alone else place + 1)


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _columns(query: BoundQuery, catalog: Catalog) -> Iterator[str]:
    """Yield the columns of all tables that the query mentions, including the tables of its snapshots' elements."""
    tables = {name.lower() for name in query.names.views}
    for schema, views in query.names.schemas.items():
        if (snapshot := catalog.snapshots.get(schema.lower())) is not None:
            tables |= {element.table.lower() for element in snapshot.graph.elements}
        tables |= {name.lower() for name in views}
    for name in tables & catalog.tables.keys():
        yield from (column.name for column in catalog.tables[name].columns)


def _unknown_table(message: str, fragment: str, catalog: Catalog, query: str) -> str:
    name = (re.findall('"(.*)"', message) or [""])[0]
    if fragment.startswith("'"):
        folder = Path(fragment[1:-1])
        marks = {"delta": folder / "_delta_log", "iceberg": folder / "metadata"}
        if lake := next((about_lake(name) for name, mark in marks.items() if mark.is_dir()), ""):
            return f"{fragment} is a folder of a table format that is not supported: {lake}"
        readers = f"read_csv({fragment}), read_json or read_parquet"
        return f"file {fragment} does not exist, or its format is unknown; for other formats write {readers}"
    schema, dot, element = fragment.partition(".")
    if dot and schema.strip('"').lower() == SCHEMA:
        there = did_you_mean(name, SYSTEM_TABLES) or f"; available: {_facts_named()}"
        return f"table {SCHEMA}.{name} does not exist{there}"
    if dot and (snapshot := catalog.snapshots.get(schema.strip('"').lower())) is not None:
        known = [e.name for e in snapshot.graph.elements]
        hint = did_you_mean(name, known) or f"; the snapshot has {', '.join(known)}"
        return f"element {element} does not exist in snapshot {snapshot.name}{hint}"
    if (kind := catalog.kind_of(name)) == "snapshot":
        first = catalog.snapshot(name).graph.vertices[0].name
        whole = f", or write SUMMARIZE SNAPSHOT {name}" if query.upper().startswith("SUMMARIZE") else ""
        return f'"{name}" is a snapshot: read one of its elements, such as {name}.{first}{whole}'
    if kind == "graph":
        graph = catalog.graph(name)
        tables = list(dict.fromkeys(element.table for element in graph.elements))
        listed = ", ".join(tables[:_LISTED]) + ", …" * (len(tables) > _LISTED)
        return (
            f'"{name}" is a property graph: its tables are {listed}; to query a snapshot of it, '
            f"write CREATE SNAPSHOT s OF {graph.name} and read s.{graph.vertices[0].name}"
        )
    if name.lower() == SCHEMA:
        return f'"{name}" is the schema of system tables: read one of them, {_facts_named()}'
    if (sampler := catalog.samplers.get(name.lower())) is not None:
        what = "walks" if sampler.verb == "WALK" else "edges"
        return f'"{name}" is a sampler: write {sampler.verb} USING {sampler.name} to read its {what}'
    if (cache := catalog.caches.get(name.lower())) is not None:
        return f'"{name}" is a cache: write DESCRIBE CACHE {cache.name}'
    if (task := catalog.tasks.get(name.lower())) is not None:
        return f'"{name}" is a task: write DESCRIBE TASK {task.name}, or SHOW TASK RUNS OF {task.name}'
    if (unfit := unfit_variable(name)) is not None:
        return f"{message}; {unfit}"
    names = catalog.names()
    return message + (did_you_mean(name, names) or _there_are(names))


def _facts_named() -> str:
    return ", ".join(f"{SCHEMA}.{name}" for name in SYSTEM_TABLES)


def _there_are(names: list[str]) -> str:
    more = ", …" if len(names) > _LISTED else ""
    return f"; available: {', '.join(names[:_LISTED])}{more}" if names else "; none exists yet"
