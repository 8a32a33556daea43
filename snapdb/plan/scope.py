"""What a binder may look at, and which names the SQL of an island can see."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from snapdb.catalog import Catalog, snapshot_views, tables_at
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.logical import Asked, Parameters
from snapdb.relational import Names, Relational, Session, table_rows
from snapdb.sql.ast import Island
from snapdb.sql.tokens import identifier, scan
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.segments import check_table
from snapdb.types import Snapshot, Table
from snapdb.types.suggest import did_you_mean

__all__ = ["Context"]


@dataclass(frozen=True, slots=True)
class Context:
    """The database as a statement finds it."""

    home: Home
    ledger: Ledger
    relational: Relational
    catalog: Catalog
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Arrow tables that were registered, by name."""
    parameters: Parameters = None

    def asked(self, island: Island, *, first: Snapshot | None = None) -> Asked:
        """An island with the views of every table, snapshot and source that its text mentions.

        Args:
            first: Bare names mean this snapshot's elements before they mean tables.
        """
        words = {identifier(t).lower() for t in scan(island.text) if t.kind in ("word", "quoted")}
        views = {t.name: self._rows(t) for folded, t in self.catalog.tables.items() if folded in words}
        if first is not None:
            own = {name: sql for name, sql in self.views(first).items() if name.lower() in words}
            taken = {name.lower() for name in own}
            views = own | {name: sql for name, sql in views.items() if name.lower() not in taken}
        schemas = {s.name: self.views(s) for folded, s in self.catalog.snapshots.items() if folded in words}
        taken = {name.lower() for name in (*views, *schemas)}  # a table made since then comes first
        sources = {n: data for n, data in self.sources.items() if n.lower() in words and n.lower() not in taken}
        return Asked(island, Names(views, schemas, sources), self._own_parameters(island))

    def views(self, snapshot: Snapshot) -> dict[str, str]:
        """The SELECT of every element of a snapshot."""
        tables = tables_at(self.ledger, snapshot.version)
        for element in snapshot.graph.elements:
            check_table(self.home, tables[element.table.lower()])
        return snapshot_views(snapshot, tables, self.home.path)

    @contextmanager
    def session(self, asked: Asked) -> Iterator[Session]:
        """A session with the island's names; what DuckDB refuses is placed in the statement, in our names."""

        def place(query: str, error: SnapdbError) -> None:
            island = asked.island
            inner = error.span if asked.verbatim and query == island.text else None
            if error.code == "unknown-table":
                said = island.text[inner.start : inner.stop] if inner else ""
                error.message = _unknown_table(error.message, said, self.catalog)
            at = island.span.start
            error.span = Span(at + inner.start, at + inner.stop) if inner else error.span and island.span

        with self.relational.session(asked.names, place) as session:
            yield session

    def _rows(self, table: Table) -> str:
        check_table(self.home, table)
        return table_rows(table, self.home.path)

    def _own_parameters(self, island: Island) -> Parameters:
        """The parameters that this island names. Positional ones belong to the only island that has any."""
        marks = [t.text for t in scan(island.text) if t.kind == "parameter"]
        if not marks:
            return None
        if isinstance(self.parameters, Mapping):
            named = {mark[1:] for mark in marks}
            missing = sorted(named - set(self.parameters))
            if missing or "?" in marks:
                raise BindError(f"no value was given for parameter {missing[0] if missing else '?'}", span=island.span)
            return {name: self.parameters[name] for name in named}
        if self.parameters is None:
            raise BindError(f"the statement has parameters ({marks[0]}), but none were given", span=island.span)
        return self.parameters


def _unknown_table(message: str, said: str, catalog: Catalog) -> str:
    name = (re.findall('"(.*)"', message) or [""])[0]
    schema, dot, element = said.partition(".")
    if dot and (snapshot := catalog.snapshots.get(schema.strip('"').lower())) is not None:
        known = [e.name for e in snapshot.graph.elements]
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        return f"snapshot {snapshot.name} has no element {element}{hint}"
    if (kind := catalog.kind_of(name)) == "snapshot":
        first = catalog.snapshot(name).graph.vertices[0].name
        return f'"{name}" is a snapshot: read one of its elements, e.g. {name}.{first}'
    if kind == "graph":
        return f'"{name}" is a graph: read its tables, or CREATE SNAPSHOT s OF {name} and read s.<element>'
    return message + did_you_mean(name, catalog.names())
