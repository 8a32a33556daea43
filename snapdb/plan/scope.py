"""What a binder may look at, and which names the SQL of an island can see."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog import Catalog, element_columns, shown_rows, tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES, Due, system_table
from snapdb.errors import BindError, CorruptError, InputError, SnapdbError, Span
from snapdb.plan.fragment_checks import check_foreign
from snapdb.plan.queries import BoundQuery, Parameters, written
from snapdb.plan.times import resolve_version
from snapdb.sql.lexer import Token, identifier, scan
from snapdb.sql.queries import TimeTravel, bare_ats, find_counts, find_travels, first_row
from snapdb.sql.syntax import SqlFragment, VersionBound
from snapdb.sql.task_bodies import WORDS_BEFORE_FILES
from snapdb.sql_engine import Names, Session, no_rows, quote, table_rows
from snapdb.sql_engine.sources import Stream
from snapdb.storage.store import Store
from snapdb.storage.tables.segments import check_table
from snapdb.types import Column, Snapshot, Table
from snapdb.types.text import did_you_mean

_PAST = 16
"""Versions whose tables are kept for the next statement, as long as nothing is written."""
_PIVOTS = frozenset(("pivot", "pivot_longer", "pivot_wider"))
_QUALIFIED = re.compile(r'^(\S+) has no column "([^"]*)"$')
_NAMING = ("duplicate-", "folder-", "no-file", "unknown-")
"""How the codes of errors about a name begin."""
_LISTED = 8
"""How many names a message tells of."""


@dataclass(frozen=True, slots=True)
class BindContext:
    """The database as a statement finds it."""

    store: Store
    catalog: Catalog
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Data that was registered, by name."""
    parameters: Parameters = None
    due: Due = field(kw_only=True)
    """When a task's schedule fires next: what knows it stands beside this room."""

    def asked(self, island: SqlFragment, *, first: Snapshot | None = None) -> BoundQuery:
        """An island with the views of every table, snapshot and source that its text mentions.

        Args:
            first: Bare names mean this snapshot's elements before they mean tables.
        """
        if first_row(island.text) is not None:
            return written(island, shapes=Names())
        every = scan(island.text)
        counts = {} if first is not None else dict(self._counted(island, every))
        tokens = [t for t in every if not any(span.start <= t.span.start < span.stop for span in counts)]
        travels = find_travels(tokens, island.text)
        words = {identifier(t).lower() for t in _outside(tokens, travels) if t.kind in ("word", "quoted")}
        if words & WORDS_BEFORE_FILES:
            check_foreign(
                self.store.sql_engine, self.store.db_dir.path, island.text, every, island.span.start, self.parameters
            )
        views = {t.name: self._table(t) for folded, t in self.catalog.tables.items() if folded in words}
        if first is not None:
            own = {name: view for name, view in self._elements(first, words).items() if name.lower() in words}
            taken = {name.lower() for name in own}
            views = own | {name: view for name, view in views.items() if name.lower() not in taken}
        schemas = {s.name: self._elements(s, words) for folded, s in self.catalog.snapshots.items() if folded in words}
        taken = {name.lower() for name in (*views, *schemas)}  # a table made since then comes first
        sources = {n: _opened(n, data) for n, data in self.sources.items() if n.lower() in words - taken}
        if SCHEMA in words:
            found, known = self.facts(words)
            schemas[SCHEMA] = {name: _View(sql) for name, sql in found.items()}
            sources |= known
        replacements = [(span, '"at"') for span in bare_ats(island.text)] if "at" in words else []
        replacements += counts.items()
        named = [t for t in every if t.kind == "parameter"]
        parameters = self._own_parameters(island, named, find_travels(every, island.text))
        for travel in travels:
            schema, table = self._travelled(island, travel)
            schemas[schema] = {**schemas.get(schema, {}), table.name: self._table(table)}
            # The table's own name stays the last part, so that columns may still be qualified by it.
            replacements.append((travel.span, f"{quote(schema)}.{travel.name.text}"))
        names, shapes = _names(views, schemas, sources)
        # What columns a PIVOT has is told by the rows.
        return written(island, names, parameters, replacements, None if words & _PIVOTS else shapes)

    def _counted(self, island: SqlFragment, tokens: Sequence[Token]) -> Iterator[tuple[Span, str]]:
        """Where all rows of a table are counted, each with the number that takes its place."""
        if not (counts := find_counts(tokens)):
            return
        travels = {travel.name.span: travel for travel in find_travels(tokens, island.text)}
        for count in counts:
            travel = travels.get(count.name.span)
            if travel is not None:
                table: Table | None = self._travelled(island, travel)[1]
            else:
                table = self.catalog.tables.get(identifier(count.name).lower())
            if table is not None:
                name = '"count_star()"' if count.alias is None else count.alias.text
                yield count.span, f"{table.rows}::BIGINT AS {name}"

    def _table(self, table: Table) -> _View:
        return _View(self.rows(table), table.columns)

    def _elements(self, snapshot: Snapshot, words: Collection[str]) -> dict[str, _View]:
        """The elements of a snapshot as views; only those among some words have rows, and need their files."""
        elements, tables = snapshot.graph.elements, self.tables_under(snapshot)
        shown = self.views(snapshot, {e.name for e in elements if e.name.lower() in words})
        return {e.name: _View(shown.get(e.name), element_columns(e, tables[e.table.lower()])) for e in elements}

    def facts(self, words: Collection[str]) -> tuple[dict[str, str], dict[str, Any]]:
        """The facts among some words as views, and what the views read."""
        named = {name: f"{SCHEMA} facts {name}" for name in SYSTEM_TABLES if name in words}
        views = {name: f"SELECT * FROM {quote(source)}" for name, source in named.items()}
        read = self.catalog, self.store.catalog_db, self.due
        rows = {source: system_table(name, *read) for name, source in named.items()}
        return views, {source: pa.Table.from_batches([batch]) for source, batch in rows.items()}

    def rows(self, table: Table, *, row_ids: bool = False, ordered: bool = True) -> str:
        """The SELECT of a table, after a look at its files."""
        check_table(self.store.db_dir, table)
        return table_rows(table, self.store.db_dir.path, row_ids=row_ids, ordered=ordered)

    def views(self, snapshot: Snapshot, names: Collection[str] | None = None) -> dict[str, str]:
        """The SELECT of elements of a snapshot, after a look at the files that it reads.

        Args:
            names: Of which elements; None: of all.
        """
        rows = snapshot_rows(snapshot, self.tables_under(snapshot), self.store.db_dir.path)
        chosen = {name: each for name, each in rows.items() if names is None or name in names}
        for table in {table.id: table for each in chosen.values() for table in each.tables}.values():
            check_table(self.store.db_dir, table)
        return {name: shown_rows(each) for name, each in chosen.items()}

    def tables_at(self, version: int) -> Mapping[str, Table]:
        """The tables of a version, by case-folded name, without what an open transaction changed."""
        past = self.catalog.past
        if (found := past.get(version)) is None:
            found = tables_at(self.store.catalog_db, version)
            if len(past) >= _PAST:
                past.clear()
            past[version] = found
        return found

    def tables_under(self, snapshot: Snapshot) -> Mapping[str, Table]:
        """The tables of a snapshot's version, by case-folded name; those of its elements are among them."""
        tables = self.tables_at(snapshot.version)
        for element in snapshot.graph.elements:
            if element.table.lower() not in tables:
                raise CorruptError(
                    f"{self.store.db_dir.catalog} is damaged: snapshot {snapshot.name} stands on table "
                    f"{element.table}, which its version has not; restore it from a backup",
                    code="damaged-catalog",
                )
        return tables

    def table_at(self, name: str, version: int) -> Table:
        """The table that had this name at a version.

        Raises:
            BindError: there was none; it says when there is one.
        """
        if (found := self.tables_at(version).get(name.lower())) is not None:
            return found
        if (now := self.catalog.tables.get(name.lower())) is None:
            self.catalog.table(name)  # raises, and knows the nearest
            raise AssertionError("unreachable")
        raise BindError(
            f"version {version} has no table {now.name}; SHOW VERSIONS OF {now.name} tells in which it is",
            code="unknown-table",
        )

    def was_table(self, name: str) -> bool:
        """Whether any version has a table of this name."""
        return bool(self.store.catalog_db.rows("SELECT 1 FROM tables WHERE folded = ? LIMIT 1", (name.lower(),)))

    def had_runs(self, name: str) -> bool:
        """Whether runs of a task of this name are on record, of one that was dropped too."""
        names = self.store.catalog_db.rows("SELECT DISTINCT name FROM runs")
        return name.lower() in {row["name"].lower() for row in names}

    def _travelled(self, island: SqlFragment, travel: TimeTravel) -> tuple[str, Table]:
        """A hidden schema for the tables of one version, and the table at that version."""
        name, at = identifier(travel.name), island.span.start
        try:
            if island.text[: travel.span.start].rstrip().endswith("."):
                raise BindError(
                    f"AT stands after a table's own name, with nothing before it: {name} AT (…); snapshots "
                    "are pinned to their version",
                    code="misplaced-at",
                )
            if name.lower() in self.catalog.snapshots:
                raise BindError(
                    f"{name} is a snapshot, which is pinned to its version; AT stands after tables", code="misplaced-at"
                )
            version = resolve_version(self, _moved(travel.bound, at))
            table = self.table_at(name, version)
        except SnapdbError as error:
            error.span = error.span or Span(travel.span.start + at, travel.span.stop + at)
            raise
        return f"snapdb version {version}", table

    def describing(self, asked: BoundQuery) -> AbstractContextManager[Session]:
        """A session that only tells of the SQL: its tables have their columns, and no rows."""
        return self.session(asked if asked.shapes is None else replace(asked, names=asked.shapes))

    @contextmanager
    def session(self, asked: BoundQuery) -> Iterator[Session]:
        """A session with the names of the SQL; what DuckDB refuses is placed in the statement, in our names."""

        def place(query: str, error: SnapdbError) -> None:
            _explain_refusal(error, asked, error.span if query == asked.text else None, self.catalog)

        with self.store.sql_engine.session(asked.names, place) as session:
            yield session

    def _own_parameters(self, island: SqlFragment, named: Sequence[Token], travels: Sequence[TimeTravel]) -> Parameters:
        """The values of parameters that an island names. Positional ones belong to the only statement that has any."""
        outside = _outside(named, travels)
        if early := [t for t in named if t not in outside and t.text.startswith("?")]:
            raise BindError(
                "AT takes $name or a value: ? counts places, and AT is read before the query",
                span=Span(*(island.span.start + place for place in early[0].span)),
                code="parameter-in-at",
            )
        marks = [t.text for t in outside]
        if not marks:
            return None
        if isinstance(self.parameters, Mapping):
            wanted = {mark[1:] for mark in marks}
            if missing := sorted(wanted - set(self.parameters)):
                raise _no_value(missing[0], outside, island, [*self.parameters])
            return {name: self.parameters[name] for name in wanted}
        if self.parameters is None:
            raise _no_value(marks[0][1:], outside, island, [])
        return self.parameters


class _View(NamedTuple):
    """What stands behind a name."""

    sql: str | None
    """None where the query does not name it."""
    columns: tuple[Column, ...] | None = None
    """None where nothing is spared by not reading."""

    @property
    def shape(self) -> str:
        """The SELECT of the same columns that reads no file."""
        if self.columns is None:
            assert self.sql is not None, "what has no columns is named"
            return self.sql
        return no_rows(self.columns)


def _names(
    views: Mapping[str, _View], schemas: Mapping[str, Mapping[str, _View]], sources: Mapping[str, Any]
) -> tuple[Names, Names]:
    """The names with their rows, and without."""
    full = Names(_read(views), {s: _read(own) for s, own in schemas.items()}, sources)
    bare = Names(
        {n: v.shape for n, v in views.items()},
        {s: {n: v.shape for n, v in own.items()} for s, own in schemas.items()},
        sources,
        True,
    )
    return full, bare


def _read(views: Mapping[str, _View]) -> dict[str, str]:
    return {name: view.sql for name, view in views.items() if view.sql is not None}


def _no_value(name: str, tokens: Sequence[Token], island: SqlFragment, given: list[str]) -> BindError:
    """The error for a parameter, whose name is '' where ? stands for it, that nothing was given for."""
    mark = f"${name}" if name else "?"
    (start, stop) = next(t.span for t in tokens if t.text == mark or (not name and t.text.startswith("?")))
    there = did_you_mean(name, given) or (f"; there are: {', '.join(given)}" if given else "; none was given at all")
    place = Span(island.span.start + start, island.span.start + stop)
    return BindError(f"no value was given for parameter {mark}{there}", span=place, code="parameter-missing")


def _outside(tokens: Iterable[Token], travels: Sequence[TimeTravel]) -> list[Token]:
    """The tokens that are no part of a time travel."""
    spans = [travel.span for travel in travels]
    return [t for t in tokens if not any(span.start <= t.span.start < span.stop for span in spans)]


def _opened(name: str, source: Any) -> Any:
    """What DuckDB is given of a source; a stream that was read before would give no rows."""
    if not isinstance(source, Stream):
        return source
    if source.started:
        raise InputError(
            f"the stream {name} was read before, and can be read once; register it again", code="consumed-source"
        )
    return source.reader()


def _moved(bound: VersionBound, by: int) -> VersionBound:
    """A bound whose places count in an island, with places that count in the statement's text."""
    value = SqlFragment(bound.value.text, Span(bound.value.span.start + by, bound.value.span.stop + by))
    return VersionBound(bound.kind, value, Span(bound.span.start + by, bound.span.stop + by))


def _explain_refusal(error: SnapdbError, asked: BoundQuery, inner: Span | None, catalog: Catalog) -> None:
    """The error with what the catalog knows about its name, and its place in the statement.

    Args:
        error: Of the run of `asked`; it is changed.
        inner: Where in its text DuckDB says that the mistake is, if it says so.
    """
    if error.code == "interrupted" or isinstance(error, CorruptError):
        error.span = None
        return
    named = _mentioned(asked.text, error.message) if error.code.startswith(_NAMING) else None
    if inner is None or (named is not None and not (inner.start <= named.start < inner.stop)):
        inner = named or inner
    if error.code == "unknown-table":
        said = asked.text[inner.start : inner.stop] if inner else ""
        error.message = _unknown_table(error.message, said, catalog, asked.text)
    elif error.code == "unknown-column" and (found := _QUALIFIED.search(error.message)):
        known = sorted(set(_columns(asked, catalog)))
        error.message += did_you_mean(found[2], known)
    error.span = asked.place(inner)


def _mentioned(text: str, message: str) -> Span | None:
    """The place of the first quoted name of the message, where the text has it just once."""
    name = re.search(r'"([^"]+)"', message)
    places = [] if name is None else [*islice(_words(text, name[1]), 2)]
    return Span(places[0], places[0] + len(name[1])) if name is not None and len(places) == 1 else None


def _words(text: str, word: str) -> Iterator[int]:
    """Where a word stands by itself; it may be long, and a regular expression of it would be long in the making."""
    place = text.find(word)
    while place >= 0:
        stop = place + len(word)
        alone = not (_is_letter(text[place - 1 : place]) or _is_letter(text[stop : stop + 1]))
        if alone:
            yield place
        place = text.find(word, stop if alone else place + 1)


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _columns(asked: BoundQuery, catalog: Catalog) -> Iterator[str]:
    """The columns of all tables that the query mentions, and of the elements of its snapshots."""
    tables = {name.lower() for name in asked.names.views}
    for schema, views in asked.names.schemas.items():
        if (snapshot := catalog.snapshots.get(schema.lower())) is not None:
            tables |= {element.table.lower() for element in snapshot.graph.elements}
        tables |= {name.lower() for name in views}
    for name in tables & catalog.tables.keys():
        yield from (column.name for column in catalog.tables[name].columns)


def _unknown_table(message: str, said: str, catalog: Catalog, query: str) -> str:
    name = (re.findall('"(.*)"', message) or [""])[0]
    if said.startswith("'"):
        return f"no file {said}, or its name does not tell its format; say read_csv({said}), read_json or read_parquet"
    schema, dot, element = said.partition(".")
    if dot and schema.strip('"').lower() == SCHEMA:
        there = did_you_mean(name, SYSTEM_TABLES) or f"; there are {_facts_named()}"
        return f"no table {SCHEMA}.{name}{there}"
    if dot and (snapshot := catalog.snapshots.get(schema.strip('"').lower())) is not None:
        known = [e.name for e in snapshot.graph.elements]
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        return f"snapshot {snapshot.name} has no element {element}{hint}"
    if (kind := catalog.kind_of(name)) == "snapshot":
        first = catalog.snapshot(name).graph.vertices[0].name
        whole = f", or write SUMMARIZE SNAPSHOT {name}" if query.upper().startswith("SUMMARIZE") else ""
        return f'"{name}" is a snapshot: read one of its elements, e.g. {name}.{first}{whole}'
    if kind == "graph":
        return f'"{name}" is a graph: read its tables, or CREATE SNAPSHOT s OF {name} and read s.<element>'
    if name.lower() == SCHEMA:
        return f'"{name}" is the schema of what there is: read one of its tables, {_facts_named()}'
    if (sampler := catalog.samplers.get(name.lower())) is not None:
        return f'"{name}" is a sampler: write SAMPLE USING {sampler.name}'
    if (cache := catalog.caches.get(name.lower())) is not None:
        return f'"{name}" is a cache: write DESCRIBE CACHE {cache.name}'
    if (task := catalog.tasks.get(name.lower())) is not None:
        return f'"{name}" is a task: write DESCRIBE TASK {task.name}, or SHOW TASK RUNS OF {task.name}'
    names = catalog.names()
    return message + (did_you_mean(name, names) or _there_are(names))


def _facts_named() -> str:
    return ", ".join(f"{SCHEMA}.{name}" for name in SYSTEM_TABLES)


def _there_are(names: list[str]) -> str:
    more = ", …" if len(names) > _LISTED else ""
    return f"; there are: {', '.join(names[:_LISTED])}{more}" if names else "; there is none yet"
