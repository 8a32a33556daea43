"""The binding context, which also resolves the names in embedded SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from snapdb.catalog import Catalog, element_columns, shown_rows, tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.catalog.state import VersionHistory, definitions_at
from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES, Due, system_table
from snapdb.errors import BindError, CorruptError, InputError, SnapdbError, Span
from snapdb.on_first_use import module_on_first_use
from snapdb.plan.computed import ComputedRows, ComputedSource, opened_sources
from snapdb.plan.defined_names import DefinedNames, bind_definitions, in_schema, reads_row_ids
from snapdb.plan.fragment_checks import check_foreign
from snapdb.plan.parameters import numbered_parameters, own_parameters
from snapdb.plan.queries import BoundQuery, Parameters, explain_refusal, written
from snapdb.plan.row_ids import stars_without_row_ids
from snapdb.plan.sequences import advance_sequences
from snapdb.plan.times import LAST
from snapdb.plan.variables import named_variables, variable_source
from snapdb.plan.views import View, names_of
from snapdb.sql.algorithms import find_algorithms, parse_algorithm
from snapdb.sql.lexer import Token, scan
from snapdb.sql.pattern_tokens import PatternPlace, find_patterns, outermost
from snapdb.sql.patterns import parse_pattern
from snapdb.sql.queries import TimeTravel, bare_ats, find_counts, find_travels, first_row
from snapdb.sql.syntax import SqlFragment, Statement, VersionBound
from snapdb.sql.task_bodies import WORDS_BEFORE_FILES
from snapdb.sql_engine import ROW_ID, Names, SqlSession, quote, table_rows, temporary_name, together
from snapdb.sql_engine.sources import Stream
from snapdb.storage.store import Store
from snapdb.storage.tables.segments import check_table
from snapdb.types import Column, Definition, Period, Snapshot, Table, TimeUnit

if TYPE_CHECKING:
    from snapdb.plan import algorithms, patterns
else:
    algorithms = module_on_first_use("snapdb.plan.algorithms")  # only queries that call algorithms need it
    patterns = module_on_first_use("snapdb.plan.patterns")  # only queries with GRAPH_TABLE need it


Computes = Callable[["BindContext", ComputedSource], AbstractContextManager[ComputedRows]]
"""Opens the rows of a computed source."""

_PAST = 16
"""The maximum number of versions whose tables are cached until the next commit."""
_PIVOTS = frozenset(("pivot", "pivot_longer", "pivot_wider"))
_NAMING_FUNCTIONS = frozenset(("pragma_table_info", "pragma_show"))
"""Functions that name tables in strings."""
_WHOLE = re.compile(r"[0-9][0-9_]*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DATE = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
_LITERAL = re.compile(rf"(?:DATE\s*'({_DATE})'|TIMESTAMP\s*'({_DATE}(?: {_TIME})?)')", re.IGNORECASE)
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_SQL_PARTS = """
    SELECT CAST(datepart('year', i) * 12 + datepart('month', i) AS BIGINT), CAST(datepart('day', i) AS BIGINT),
           CAST(datepart('hour', i) * 3_600_000_000 + datepart('minute', i) * 60_000_000 + datepart('microsecond', i)
                AS BIGINT)
    FROM (SELECT CAST(("""


class _NamesOfQuery(NamedTuple):
    """What the names in a query refer to."""

    names: Names
    shapes: Names
    """The same names, over tables without rows."""
    edits: list[tuple[Span, str]]
    """The replacements of table references with AT."""


@dataclass(frozen=True, slots=True)
class BindContext:
    """The database and the parameters with which a statement is bound."""

    store: Store
    catalog: Catalog
    sources: Mapping[str, object] = field(default_factory=dict)
    """Registered data by name."""
    parameters: Parameters = None
    due: Due = field(kw_only=True)
    """Returns a task's next scheduled run. It is passed in because the `schedule` package is in the same layer."""
    places: Mapping[int, str] = field(default_factory=dict, kw_only=True)
    """The position of each ? in the statement → the name of its value in `parameters`, for a query with patterns, whose
    parts are evaluated in another order than they are written."""
    prepared: Mapping[str, Statement] = field(default_factory=dict, kw_only=True)
    """The prepared statements of the session, by case-folded name."""
    taken: dict[int, int] = field(default_factory=dict, kw_only=True)
    """The last value that the session took from each sequence, by the id of its definition."""
    reading: frozenset[tuple[str, str]] = field(default_factory=frozenset, kw_only=True)
    """The keys of definitions that are being created, which no text can name yet."""
    in_definition: bool = field(default=False, kw_only=True)
    """Whether the text of a definition is being bound, whose own definitions are bound with those of the query."""
    row_ids: bool = field(default=False, kw_only=True)
    """Whether the tables of all parts of the query have the column rowid, because one of the parts names it."""
    views_stored: bool = field(default=False, kw_only=True)
    """Whether the rows of the views of graphs have been stored for the statement."""
    computes: Computes | None = field(default=None, kw_only=True)
    """Opens the rows of a computed source. It is passed in because the packages that compute are in a layer above."""

    def bind_query(
        self, fragment: SqlFragment, *, first: Snapshot | None = None, replacements: Sequence[tuple[Span, str]] = ()
    ) -> BoundQuery:
        """Bind an SQL fragment: define views for all tables, snapshots and sources that its text mentions.

        Args:
            fragment: The fragment.
            first: The snapshot whose elements take precedence over tables.
            replacements: Texts that replace parts of the fragment. They refer to no tables. Spans are relative to the
                fragment.
        """
        # A VALUES list of literals does not refer to any names, so the text of a large INSERT is not tokenized.
        if first_row(fragment.text) is not None:
            return written(fragment, shapes=Names(), replacements=replacements)
        every = scan(fragment.text)
        places = outermost(find_patterns(every), find_algorithms(every))
        if places and isinstance(self.parameters, Sequence):
            values, marks = numbered_parameters(every, fragment.span.start, self.parameters)
            context = replace(self, parameters=values, places=marks)
            return context.bind_query(fragment, first=first, replacements=replacements)
        computed = self._computed(fragment, every, places)
        hidden = [span for span, _ in (*computed, *replacements)]
        # The rows of a whole table are counted only where a table follows FROM, not the alias of a hidden part.
        counts = {} if first is not None else dict(self._counted(fragment, every))
        counts = {span: text for span, text in counts.items() if not _within(span, hidden)}
        every = tuple(t for t in every if not _within(t.span, hidden))
        tokens = [t for t in every if not _within(t.span, counts)]
        travels = find_travels(tokens, fragment.text)
        words = {t.identifier.lower() for t in _outside(tokens, travels) if t.kind in ("word", "quoted")}
        if not words.isdisjoint(_NAMING_FUNCTIONS):
            words |= {t.string_value.lower() for t in tokens if t.kind == "string"}
        # Only queries with these words can open files, so no other query is checked.
        if words & WORDS_BEFORE_FILES:
            check_foreign(
                self.store.sql_engine,
                self.store.db_dir.path,
                fragment.text,
                every,
                fragment.span.start,
                self.parameters,
            )
        named = [t for t in every if t.kind == "parameter"]
        if self.places:
            # The context of a query with patterns has all positional parameters by name.
            named = [t._replace(text=f"${self.places[t.span.start + fragment.span.start]}") for t in named]
        outside = _outside(named, find_travels(every, fragment.text))
        parameters = own_parameters(fragment, named, outside, self.parameters)
        named_tables = self._named_tables(words)
        asks = self.row_ids or "rowid" in words or reads_row_ids(self.catalog, words)
        row_ids = asks and all(t.column("rowid") is None for t in named_tables)
        found = self._names(fragment, tokens, travels, words, first, row_ids=row_ids)
        edits: list[tuple[Span, str | BoundQuery]] = [*computed, *replacements, *counts.items(), *found.edits]
        if row_ids and (named_tables or travels):
            edits += stars_without_row_ids(every, hidden)
        if "at" in words:
            edits += [(span, '"at"') for span in bare_ats(fragment.text, every)]
        edits += [(t.span, t.text) for t in named if self.places]
        # The columns of a PIVOT depend on the rows, so views without rows cannot describe it.
        return written(fragment, found.names, parameters, edits, None if words & _PIVOTS else found.shapes)

    def _named_tables(self, words: Collection[str]) -> list[Table]:
        """Return the tables that a query names. A table with the name of a view contains its rows for graphs."""
        return [t for folded, t in self.catalog.tables.items() if folded in words and not self.is_view(folded)]

    def _names(
        self,
        fragment: SqlFragment,
        tokens: Sequence[Token],
        travels: Sequence[TimeTravel],
        words: set[str],
        first: Snapshot | None,
        *,
        row_ids: bool,
    ) -> _NamesOfQuery:
        """Return what the names in a query refer to: first elements of `first`, then tables and views, then sources."""
        bound = bind_definitions(replace(self, row_ids=row_ids), tokens, words)
        defined = [] if bound is None else [bound]
        views = {t.name: self._table(t, row_ids=row_ids) for t in self._named_tables(words)}
        for (kind, folded), one in self.catalog.definitions.items():
            if kind == "table" and folded in words:
                views[one.name] = View(f"SELECT * FROM {temporary_name(one.name)}", one.columns)
        if first is not None:
            own = {name: view for name, view in self.elements(first, words).items() if name.lower() in words}
            taken = {name.lower() for name in own}
            views = own | {name: view for name, view in views.items() if name.lower() not in taken}
        schemas = {s.name: self.elements(s, words) for folded, s in self.catalog.snapshots.items() if folded in words}
        for schema in self.schemas():
            if schema.lower() in words:
                schemas[schema] = self._schema_tables(schema, words, row_ids=row_ids)
        # A table takes precedence over a source of the same name, even if it was created after the registration.
        own_views = (key.name for each in defined for key in each.names.definitions if key.kind == "view")
        taken = {name.lower() for name in (*views, *schemas, *own_views)}
        sources = {n: _opened(n, data) for n, data in self.sources.items() if n.lower() in words - taken}
        if free := words - taken - {name.lower() for name in sources}:
            variables = named_variables(tokens)
            sources |= {n: _opened(n, variable_source(data)) for n, data in variables.items() if n.lower() in free}
        if SCHEMA in words:
            tables, known = self.facts(words)
            schemas[SCHEMA] = {name: View(sql) for name, sql in tables.items()}
            sources |= known
        edits = []
        for travel in (self._qualified(tokens, travel) for travel in travels):
            schema, table = self._travelled(fragment, travel)
            if isinstance(table, DefinedNames):
                defined.append(table)
            else:
                own_name = table.name.rpartition(".")[2] if travel.schema else table.name
                schemas[schema] = {**schemas.get(schema, {}), own_name: self._table(table, row_ids=row_ids)}
            # The table name remains the last part, so that columns can still be qualified with it.
            edits.append((travel.span, f"{quote(schema)}.{travel.name.text}"))
        names, shapes = names_of(views, schemas, sources)
        if defined:
            # The names of this query take precedence, because they may have row ids.
            names = together((*(one.names for one in defined), names))
            shapes = together((*(one.shapes for one in defined), shapes))
        return _NamesOfQuery(names, shapes, edits)

    def _computed(
        self, fragment: SqlFragment, tokens: Sequence[Token], places: Sequence[PatternPlace]
    ) -> list[tuple[Span, BoundQuery]]:
        """Return each GRAPH_TABLE and call of an algorithm in a fragment, with the item of FROM that replaces it."""
        if not places:
            return []
        # Spans of the parts refer to the statement, so that their errors and those of the grammar do too.
        at = fragment.span.start
        moved = tuple(Token(t.kind, t.text, Span(t.span.start + at, t.span.stop + at)) for t in tokens)
        source = " " * at + fragment.text
        within = any(token.word == "WITH" for token in tokens)
        bound = []
        for first, last in places:
            part = moved[first : last + 1]
            if part[0].word == "GRAPH_TABLE":
                query = patterns.bind_graph_table(self, parse_pattern(part, source), has_ctes=within)
            else:
                query = algorithms.bind_algorithm(self, parse_algorithm(part, source))
            bound.append((Span(tokens[first].span.start, tokens[last].span.stop), query))
        return bound

    def _counted(self, fragment: SqlFragment, tokens: Sequence[Token]) -> Iterator[tuple[Span, str]]:
        """Yield the span of each count(*) over a whole table, with the number of rows, which the catalog records."""
        if not (counts := find_counts(tokens)):
            return
        travels = {travel.name.span: travel for travel in find_travels(tokens, fragment.text)}
        for count in counts:
            travel = travels.get(count.name.span)
            if travel is not None:
                table: Table | DefinedNames | None = self._travelled(fragment, travel)[1]
            else:
                table = self.catalog.tables.get(count.name.identifier.lower())
            if isinstance(table, Table) and not self.is_view(count.name.identifier.lower()):
                # DuckDB names the column count_star() without an alias, so the constant needs the same name.
                name = '"count_star()"' if count.alias is None else count.alias.text
                yield count.span, f"{table.rows}::BIGINT AS {name}"

    def _table(self, table: Table, *, row_ids: bool = False) -> View:
        if not row_ids:
            return View(self.rows(table), table.columns)
        sql = f"SELECT * RENAME ({quote(ROW_ID)} AS rowid) FROM ({self.rows(table, row_ids=True)})"
        return View(sql, (*table.columns, Column("rowid", "BIGINT")))

    def elements(self, snapshot: Snapshot, words: Collection[str] | None = None) -> dict[str, View]:
        """Return the elements of a snapshot as views. Only views whose names are in `words` have a SELECT."""
        elements, tables = snapshot.graph.elements, self.tables_under(snapshot)
        shown = self.views(snapshot, {e.name for e in elements if words is None or e.name.lower() in words})
        return {e.name: View(shown.get(e.name), element_columns(e, tables[e.table.lower()])) for e in elements}

    def facts(self, words: Collection[str]) -> tuple[dict[str, str], dict[str, object]]:
        """Return the system tables whose names are in `words` as views, and the data that the views read."""
        named = {name: f"{SCHEMA} facts {name}" for name in SYSTEM_TABLES if name in words}
        views = {name: f"SELECT * FROM {quote(source)}" for name, source in named.items()}
        read = self.catalog, self.store.catalog_db, self.due
        rows = {source: system_table(name, *read) for name, source in named.items()}
        return views, {source: pa.Table.from_batches([batch]) for source, batch in rows.items()}

    def rows(self, table: Table, *, row_ids: bool = False, ordered: bool = True) -> str:
        """Return the SELECT of a table after checking that its files exist."""
        check_table(self.store.db_dir, table)
        return table_rows(table, self.store.db_dir.path, row_ids=row_ids, ordered=ordered)

    def views(self, snapshot: Snapshot, names: Collection[str] | None = None) -> dict[str, str]:
        """Return the SELECTs of elements of a snapshot after checking that their files exist.

        Args:
            snapshot: The snapshot.
            names: The names of the elements, or None for all.
        """
        rows = snapshot_rows(snapshot, self.tables_under(snapshot), self.store.db_dir.path)
        chosen = {name: each for name, each in rows.items() if names is None or name in names}
        for table in {table.id: table for each in chosen.values() for table in each.tables}.values():
            check_table(self.store.db_dir, table)
        return {name: shown_rows(each) for name, each in chosen.items()}

    def tables_at(self, version: int) -> Mapping[str, Table]:
        """Return the tables at a version by case-folded name, without the changes of an open transaction."""
        past = self.catalog.past
        if (tables := past.get(version)) is None:
            tables = tables_at(self.store.catalog_db, version)
            # Every commit also clears the cache, so tracking the use of its entries is not worthwhile.
            if len(past) >= _PAST:
                past.clear()
            past[version] = tables
        return tables

    def tables_under(self, snapshot: Snapshot) -> Mapping[str, Table]:
        """Return the tables at a snapshot's version by case-folded name. Raises CorruptError if a table is missing."""
        tables = self.tables_at(snapshot.version)
        for element in snapshot.graph.elements:
            if element.table.lower() not in tables:
                raise CorruptError(
                    f"{self.store.db_dir.catalog} is damaged: snapshot {snapshot.name} refers to table "
                    f"{element.table}, which does not exist at its version; restore it from a backup",
                    code="damaged-catalog",
                )
        return tables

    def table_at(self, name: str, version: int) -> Table:
        """Return the table that had this name at a version.

        Raises:
            BindError: The table did not exist. The message suggests how to find the versions at which it existed.
        """
        if (table := self.tables_at(version).get(name.lower())) is not None:
            return table
        if (view := self.catalog.view(name)) is not None:
            raise BindError(
                f"view {view.name} does not exist at version {version}; version {view.since} created it",
                code="unknown-table",
            )
        if (now := self.catalog.tables.get(name.lower())) is None:
            self.catalog.table(name)  # raises an error with the nearest name
            raise AssertionError("unreachable")
        raise BindError(
            f"table {now.name} does not exist at version {version}; SHOW VERSIONS OF {now.name} lists its versions",
            code="unknown-table",
        )

    def was_table(self, name: str) -> bool:
        """Return whether any version has a table with this name."""
        return bool(self.store.catalog_db.rows("SELECT 1 FROM tables WHERE folded = ? LIMIT 1", (name.lower(),)))

    def had_runs(self, name: str) -> bool:
        """Return whether runs of a task with this name are recorded, including runs of dropped tasks."""
        # SQLite's lower() folds only ASCII, so names are folded in Python.
        names = self.store.catalog_db.rows("SELECT DISTINCT name FROM runs")
        return name.lower() in {row["name"].lower() for row in names}

    def is_view(self, folded: str) -> bool:
        """Return whether a case-folded name is that of a view. Its rows for graphs are in a table of the same name."""
        return ("view", folded) in self.catalog.definitions

    def schemas(self) -> list[str]:
        """Return the names of the schemas."""
        return [one.name for one in self.catalog.definitions.values() if one.kind == "schema"]

    def _schema_tables(self, schema: str, words: Collection[str], *, row_ids: bool) -> dict[str, View]:
        """Return the tables of a schema whose names are in `words`, by their last name."""
        prefix = f"{schema.lower()}."
        named = {
            t.name[len(prefix) :]: t
            for folded, t in self.catalog.tables.items()
            if folded.startswith(prefix) and folded[len(prefix) :] in words and not self.is_view(folded)
        }
        return {name: self._table(table, row_ids=row_ids) for name, table in named.items()}

    def sequence_value(self, sequence: Definition, start: int) -> int:
        """Return the next value of a sequence, or `start` if it belongs only to this session."""
        rows = self.store.catalog_db.rows("SELECT next FROM sequences WHERE id = ?", (sequence.id,))
        return int(rows[0]["next"]) if rows else start

    def at_version(self, version: int) -> BindContext:
        """Return a context in which queries read the tables and definitions of a version."""
        definitions = definitions_at(self.store.catalog_db, version)
        catalog = replace(self.catalog, tables=self.tables_at(version), definitions=definitions)
        return replace(self, catalog=catalog, parameters=None, places={}, in_definition=False)

    def _view_at(self, name: str, version: int) -> DefinedNames | None:
        """Return the view that had this name at a version, over the tables of the version, or None."""
        then = self.at_version(version)
        if (view := then.catalog.view(name)) is None:
            return None
        bound = bind_definitions(then, scan(quote(view.name)), set(view.name.lower().split(".")))
        assert bound is not None, "the view exists at that version"
        schema = f"snapdb version {version}"
        return DefinedNames(in_schema(bound.names, schema), in_schema(bound.shapes, schema))

    def _qualified(self, tokens: Sequence[Token], travel: TimeTravel) -> TimeTravel:
        """Return a reference with the schema before it, if there is one."""
        before = [token for token in tokens if token.span.stop <= travel.span.start][-2:]
        if len(before) < 2 or before[1].text != ".":
            return travel
        schema = before[0]
        if ("schema", schema.identifier.lower()) not in self.catalog.definitions:
            return travel
        return travel._replace(schema=schema.identifier, span=Span(schema.span.start, travel.span.stop))

    def _travelled(self, fragment: SqlFragment, travel: TimeTravel) -> tuple[str, Table | DefinedNames]:
        """Return the table or view at the version in AT, and the hidden schema for the tables of that version."""
        name, at = travel.name.identifier, fragment.span.start
        if travel.schema:
            name = f"{travel.schema}.{name}"
        try:
            if not travel.schema and fragment.text[: travel.span.start].rstrip().endswith("."):
                raise BindError(
                    f"AT must follow a table's unqualified name, {name} AT (…); snapshots are pinned to their version",
                    code="misplaced-at",
                )
            if name.lower() in self.catalog.snapshots:
                raise BindError(
                    f"AT must follow a table's name; {name} is a snapshot, which is pinned to its version",
                    code="misplaced-at",
                )
            version = self.resolve_version(_moved(travel.bound, at))
            if travel.schema and self.is_view(name.lower()):
                raise BindError(
                    f"AT cannot follow a view in a schema; write the query of {name} with AT after its tables",
                    code="misplaced-at",
                )
            table = self._view_at(name, version) or self.table_at(name, version)
        except SnapdbError as error:
            error.span = error.span or Span(travel.span.start + at, travel.span.stop + at)
            raise
        return f"snapdb {f'{travel.schema} ' * bool(travel.schema)}version {version}", table

    def describing(self, query: BoundQuery) -> AbstractContextManager[SqlSession]:
        """Open a session that only describes the SQL: its tables have columns but no rows."""
        return self.session(query if query.shapes is None else replace(query, names=query.shapes))

    @contextmanager
    def session(self, bound: BoundQuery) -> Iterator[SqlSession]:
        """Open a session that defines the SQL's names. DuckDB's errors are mapped to the statement and its names."""

        broken: dict[str, str] = {}

        def place(query: str, error: SnapdbError) -> None:
            known = re.match(r'\w+(?: or \w+)? "([^"]*)" does not exist', error.message) if broken else None
            if known is not None and known[1].lower() in broken:
                error.message, error.code = broken[known[1].lower()], "broken-definition"
            explain_refusal(error, bound, error.span if query == bound.text else None, self.catalog)

        with self.opened_sources(bound) as opened:
            names = replace(bound.names, sources={**bound.names.sources, **opened}) if opened else bound.names
            with self.store.sql_engine.session(names, place, broken) as session:
                # DuckDB closes a result only after its stream has ended.
                closing = tuple(rows.close for rows in opened.values())
                yield replace(session, closing=closing) if closing else session
                advance_sequences(self, session, names)

    def opened_sources(self, bound: BoundQuery) -> AbstractContextManager[Mapping[str, ComputedRows]]:
        """Open the computed sources of a query. Their errors replace those of the query."""
        assert self.computes is not None, "a context that runs queries opens computed sources"
        return opened_sources(bound.names, partial(self.computes, self))

    def resolve_version(self, at: VersionBound) -> int:
        """Return the version specified by AT (VERSION => n | TIMESTAMP => t | TAG => 'name').

        Raises:
            BindError: The version or tag does not exist.
        """
        try:
            match at.kind:
                case "TIMESTAMP":
                    return VersionHistory(self.store.catalog_db).version_at(self._moment(self.bind_query(at.value)))
                case "TAG":
                    return VersionHistory(self.store.catalog_db).version_of_tag(self._text(at.value))
        except SnapdbError as error:
            error.span = error.span or at.value.span
            raise
        head = self.catalog.version
        version = self.time_value(at.value, "integer", "a version must be an integer")
        if not 1 <= version <= head:
            known = f"the versions are 1 to {head}" if head else "nothing has been committed yet"
            raise BindError(f"version {version} does not exist; {known}", span=at.value.span, code="unknown-version")
        return version

    def time_value(self, fragment: SqlFragment, unit: TimeUnit | None, why: str | None = None) -> int:
        """Return a window bound as an integer in the graph's time unit."""
        # Literals are the common case, and do not require a round trip to DuckDB.
        if (plain := _plain(fragment.text, unit)) is not None:
            return plain
        query = self.bind_query(fragment)
        is_integer = self.type_of(query) in INTEGERS
        if unit == "integer" and not is_integer:
            why = why or "this graph's event times are integers"
            raise BindError(
                f"{why}: write a bare number, not {self.type_of(query)}", span=fragment.span, code="time-kind"
            )
        if unit == "timestamp" and is_integer:
            why = why or "this graph's event times are timestamps"
            raise BindError(
                f"{why}: write TIMESTAMP '2026-01-31 12:00' or DATE '2026-01-31'", span=fragment.span, code="time-kind"
            )
        return self.whole(query) if is_integer else self._moment(query)

    def duration(self, fragment: SqlFragment) -> int:
        """Return an INTERVAL in microseconds. A month counts as 30 days."""
        return self.number(self.bind_query(fragment), "SELECT epoch_us(CAST((", ") AS INTERVAL))")

    def type_of(self, query: BoundQuery) -> str:
        """Return the type of an expression without evaluating it."""
        with self.describing(query) as session:
            return session.describe(query.text, query.parameters, around=("SELECT (", ")"))[0].type

    def whole(self, query: BoundQuery) -> int:
        """Evaluate an integer expression once. The expression can read tables."""
        return self.number(_widened(query), "SELECT CAST((", ") AS HUGEINT)")

    def number(self, query: BoundQuery, before: str, after: str) -> int:
        """Evaluate an expression with SQL around it as a 64-bit integer. Errors have the expression's span."""
        value = self._value(query, before, after)
        if value is None:
            raise BindError("the value must be finite, found NULL or infinity", span=query.span, code="not-finite")
        if not -(2**63) <= value <= LAST:
            raise BindError(
                "the value is out of range; event times and versions are 64-bit integers",
                span=query.span,
                code="not-finite",
            )
        return int(value)

    def _moment(self, query: BoundQuery) -> int:
        """Evaluate an expression as microseconds since 1970. Values without a zone are in UTC."""
        return self.number(query, "SELECT epoch_us(CAST((", ") AS TIMESTAMPTZ))")

    def _text(self, fragment: SqlFragment) -> str:
        value = self._value(self.bind_query(fragment), "SELECT CAST((", ") AS VARCHAR)")
        if value is None:
            raise BindError("the name must not be NULL", span=fragment.span, code="null-name")
        return str(value)

    def value_of(self, fragment: SqlFragment) -> Any:
        """Return the value of an expression, which can read tables and parameters."""
        return self._value(self.bind_query(fragment), "SELECT (", ")")

    def _value(self, query: BoundQuery, before: str, after: str) -> Any:
        """Evaluate a query. Errors that DuckDB raises only at run time also point to the expression."""
        try:
            with self.session(query) as session:
                return session.wrap(before, query.text, after, query.parameters)[0][0]
        except SnapdbError as error:
            error.span = error.span or query.span
            raise

    def period(self, query: BoundQuery) -> Period | None:
        """Return the parts of an INTERVAL expression, or None if it is NULL or zero, or has a negative part.

        Raises:
            BindError: DuckDB cannot evaluate the expression. The error has its span.
        """
        try:
            with self.session(query) as session:
                ((months, days, rest),) = session.wrap(_SQL_PARTS, query.text, ") AS INTERVAL) AS i)", query.parameters)
        except SnapdbError as error:
            error.span = error.span or query.span
            raise
        return _positive_period(months, days, rest)

    def period_of_text(self, text: str, span: Span) -> Period | None:
        """Return the parts of an interval in a text such as '36 hours'.

        Raises:
            BindError: The text is not an interval, or has no unit.
        """
        stripped = text.strip()
        try:
            with self.store.sql_engine.session() as session:
                ((months, days, rest),) = session.rows(f"{_SQL_PARTS}?) AS INTERVAL) AS i)", [stripped])
        except SnapdbError as error:
            raise BindError(
                f"'{stripped[:40]}' is not a valid duration; write one such as '30 minutes' or '2 hours'",
                span=span,
                code="bad-length",
            ) from error
        # DuckDB accepts a bare number, but its unit would be a guess.
        if stripped.isdecimal():
            raise BindError(
                f"'{stripped[:40]}' has no unit; write a duration such as '{stripped[:9]} minutes'",
                span=span,
                code="bad-length",
            )
        return _positive_period(months, days, rest)


def _within(span: Span, others: Iterable[Span]) -> bool:
    """Return whether a span starts inside one of the others."""
    return any(other.start <= span.start < other.stop for other in others)


def _outside(tokens: Iterable[Token], travels: Sequence[TimeTravel]) -> list[Token]:
    """Return the tokens outside table references with AT."""
    spans = [travel.span for travel in travels]
    return [t for t in tokens if not any(span.start <= t.span.start < span.stop for span in spans)]


def _opened(name: str, source: Any) -> Any:
    """Return the object from which DuckDB reads a source. A stream that was already read is an error."""
    if not isinstance(source, Stream):
        return source
    if source.started:
        raise InputError(
            f"the stream {name} has already been read, and a stream can be read only once; register it again",
            code="consumed-source",
        )
    return source.reader()


def _moved(bound: VersionBound, by: int) -> VersionBound:
    """Shift the spans of a bound from an SQL fragment to the statement's text."""
    value = SqlFragment(bound.value.text, Span(bound.value.span.start + by, bound.value.span.stop + by))
    return VersionBound(bound.kind, value, Span(bound.span.start + by, bound.span.stop + by))


def _plain(text: str, unit: TimeUnit | None) -> int | None:
    """Return the value of a literal as DuckDB would evaluate it, or None for any other expression.

    >>> _plain("DATE '2026-01-31'", "timestamp"), _plain("1 + 2", "integer")
    (1769817600000000, None)
    """
    if unit == "integer":
        return int(text) if _DIGITS.fullmatch(text) else None
    if unit != "timestamp" or (match := _LITERAL.fullmatch(text)) is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1] or match[2])
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def _widened(query: BoundQuery) -> BoundQuery:
    """Widen integer arithmetic to 128 bits. DuckDB literals have 32 bits, so 86400000 * 30 would overflow."""
    tokens = scan(query.text)
    if len(tokens) < 2 or any(token.kind not in ("number", "mark") for token in tokens):
        return query
    wide = [(token.span, f"{token.text}::HUGEINT") for token in tokens if _WHOLE.fullmatch(token.text)]
    changed = written(SqlFragment(query.text, query.span), replacements=wide)
    return replace(query, text=changed.text, pieces=changed.pieces if query.pieces else ())


def _positive_period(months: int | None, days: int | None, rest: int | None) -> Period | None:
    if months is None or days is None or rest is None or min(months, days, rest) < 0 or not (months or days or rest):
        return None
    return Period(months, days, rest)
