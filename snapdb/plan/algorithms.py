"""Binds calls of graph algorithms in FROM: the snapshot, edge types, options and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

from snapdb.catalog.elements import element_columns
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.algorithm_sources import AlgorithmSource, NodeQuery, NodeType
from snapdb.plan.fits import SqlType
from snapdb.plan.names import find_column, find_edge_type, find_named
from snapdb.plan.patterns.access import coalesced, key_fields
from snapdb.plan.patterns.graphs import VertexType
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.sql.algorithms import AlgorithmCall, Argument
from snapdb.sql.syntax import Name
from snapdb.sql_engine import Names, no_rows, quote
from snapdb.types import Column, EdgeElement, Snapshot
from snapdb.types.algorithms import Option
from snapdb.types.text import counted

_NUMBERS = ("integer", "FLOAT", "DOUBLE")
_NULL = '"NULL"'
"""The type of a literal NULL."""
_LARGEST = 2**63 - 1


def bind_algorithm(context: BindContext, call: AlgorithmCall) -> BoundQuery:
    """Return the name of a table with the rows of a call, and the source from which DuckDB reads them.

    Raises:
        BindError: The snapshot, an edge type or a column does not exist, or an option has a wrong type or value.
    """
    binder = _Binder(context, call, _snapshot(context, call))
    source, shown = binder.bound()
    space = f"snapdb algorithm {call.span.start}"
    name, rows = call.algorithm.name, f"{space} rows"
    selected = ", ".join(f"CAST({value} AS {column.type}) AS {quote(column.name)}" for value, column in shown)
    full = Names(schemas={space: {name: f"SELECT {selected} FROM {quote(rows)}"}}, sources={rows: source})
    bare = Names(schemas={space: {name: no_rows([column for _, column in shown])}}, lasting=True)
    # The function's name remains the last part, so that columns can be qualified with it.
    return BoundQuery(f"{quote(space)}.{quote(name)}", call.span, full, bare)


def _snapshot(context: BindContext, call: AlgorithmCall) -> Snapshot:
    fragment, catalog, what = call.snapshot, context.catalog, call.algorithm.name
    value = context.value_of(fragment)
    if not isinstance(value, str):
        raise BindError(
            f"the first argument of {what} is the name of a snapshot, {what}('june'), found {_shown(value)}",
            span=fragment.span,
            code="algorithm-option",
        )
    if value.lower() not in catalog.snapshots and (graph := catalog.graphs.get(value.lower())) is not None:
        raise BindError(
            f'{what} reads a snapshot, and "{value}" is a property graph; write CREATE SNAPSHOT s OF {graph.name}, '
            f"and then {what}('s')",
            span=fragment.span,
            code="unknown-snapshot",
        )
    return find_named(catalog.snapshot, Name(value, fragment.span))


@dataclass(slots=True)
class _Binder:
    """Binds the options of a call on a snapshot."""

    context: BindContext
    call: AlgorithmCall
    snapshot: Snapshot

    def bound(self) -> tuple[AlgorithmSource, list[tuple[str, Column]]]:
        """Return the source, and the columns that the query sees: their SQL over the source's rows, name and type."""
        values = {o.name: o.default for o in self.call.algorithm.options if o.kind not in ("nodes", "pairs")}
        for argument in self.call.arguments:
            if not argument.is_query:
                values[argument.name.text.lower()] = self._value(argument)
        if self.call.argument("seeds") and self.call.argument("samples"):
            raise BindError(
                "seeds are the sources, and samples draws them; keep one of them",
                span=self._span("samples"),
                code="clauses-clash",
            )
        names: Any = values.pop("edges")
        edges = self._edges(names)
        weight = values.pop("weight", None)
        for edge in edges if weight is not None else ():
            self._check_weight(edge, str(weight))
        types = self._vertex_types(edges)
        queries = {
            argument.name.text.lower(): self._query(argument, types)
            for argument in self.call.arguments
            if argument.is_query
        }
        raw, shown = self._columns(types, queries, weighted=weight is not None)
        if "direction" in values:
            values["direction"] = str(values["direction"]).upper()
        source = AlgorithmSource(
            self.call.algorithm,
            self.snapshot,
            tuple(NodeType(each.name, each.key) for each in types.values()),
            tuple(edge.name for edge in edges),
            None if weight is None else str(weight),
            values,
            queries,
            raw,
            self.call.span,
            {each.name.text.lower(): each.value.span for each in self.call.arguments},
        )
        return source, shown

    def _span(self, name: str) -> Span:
        argument = self.call.argument(name)
        return self.call.span if argument is None else argument.value.span

    def _value(self, argument: Argument) -> Any:
        """Evaluate an option, and check its type and range."""
        option = self.call.algorithm.option(argument.name.text)
        assert option is not None, "the parser looks up options"
        value = self.context.value_of(argument.value)
        plain = float(value) if isinstance(value, Decimal) and option.kind == "number" else value
        if not _fits(option, plain):
            raise BindError(
                f"{option.name} of {self.call.algorithm.name} must be {option.type}, found {_shown(value)}",
                span=argument.value.span,
                code="algorithm-option",
            )
        if not _in_range(option, plain):
            raise BindError(
                f"{option.name} of {self.call.algorithm.name} must be {option.range}, found {_shown(value)}",
                span=argument.value.span,
                code="algorithm-option",
            )
        return float(plain) if option.kind == "number" else plain

    def _edges(self, names: str | Sequence[str] | None) -> list[EdgeElement]:
        """Return the edge types in graph order."""
        span = self._span("edges")
        if names is None:
            chosen = list(self.snapshot.graph.edges)
            empty = f"snapshot {self.snapshot.name} has no edge type; create it of a graph with EDGE TABLES"
        else:
            listed = [names] if isinstance(names, str) else names
            wanted = {find_edge_type(self.context, self.snapshot, Name(n, span)).name for n in listed}
            chosen = [edge for edge in self.snapshot.graph.edges if edge.name in wanted]
            empty = "edges is an empty list; name an edge type, or leave the option out for all of them"
        if not chosen:
            raise BindError(empty, span=span, code="unknown-edge-type")
        return chosen

    def _check_weight(self, edge: EdgeElement, column: str) -> None:
        """Raise an error unless an edge type has a numeric column with this name."""
        table = self.context.tables_under(self.snapshot)[edge.table.lower()]
        found = find_column(table, Name(column, self._span("weight")))
        if not _is_number(found.type):
            raise BindError(
                f"weight {edge.name}.{found.name} has type {found.type}; it must be a number",
                span=self._span("weight"),
                code="column-type",
            )

    def _vertex_types(self, edges: Sequence[EdgeElement]) -> dict[str, VertexType]:
        """Return the vertex types at the ends of edges by case-folded name, in graph order."""
        ends = {name.lower() for edge in edges for name in (edge.source, edge.destination)}
        tables = self.context.tables_under(self.snapshot)
        return {
            vertex.name.lower(): VertexType(vertex, "", element_columns(vertex, tables[vertex.table.lower()]))
            for vertex in self.snapshot.graph.vertices
            if vertex.name.lower() in ends
        }

    def _columns(
        self, types: Mapping[str, VertexType], queries: Mapping[str, NodeQuery], *, weighted: bool
    ) -> tuple[tuple[Column, ...], list[tuple[str, Column]]]:
        """Return the columns of the source's rows, and those that the query sees."""
        algorithm = self.call.algorithm
        type_ = "DOUBLE" if weighted and algorithm.name == "degree" else algorithm.type
        value = Column(algorithm.name, type_)
        if algorithm.pairs:
            own = queries["pairs"].columns
            raw = [Column(f"#{i}", column.type) for i, column in enumerate(own)]
            shown = [(quote(column.name), each) for column, each in zip(raw, own, strict=True)]
        else:
            raw, shown = [], []
            if len(types) > 1:
                raw.append(Column("#type", "VARCHAR"))
                shown.append((quote("#type"), Column("type", "VARCHAR")))
            for field in key_fields(types):
                parts = []
                for own_name, vertex in types.items():
                    for i, column in enumerate(vertex.key):
                        if column.name.lower() == field.name.lower():
                            parts.append((quote(f"{own_name} {i}"), column.type))
                shown.append((coalesced(parts), field))
            raw += [Column(f"{n} {i}", c.type) for n, vertex in types.items() for i, c in enumerate(vertex.key)]
        names = [column.name.lower() for _, column in shown]
        if twice := next((name for i, name in enumerate([*names, value.name]) if name in names[:i]), None):
            raise BindError(
                f'the rows of {algorithm.name} would have two columns "{twice}"; '
                + ("rename one with AS" if algorithm.pairs else "rename the column of the key in its table"),
                span=self._span("pairs"),
                code="duplicate-name",
            )
        return (*raw, Column("#value", type_)), [*shown, (quote("#value"), value)]

    def _query(self, argument: Argument, types: Mapping[str, VertexType]) -> NodeQuery:
        """Bind a SELECT of vertices, and check its columns."""
        query = self.context.bind_query(argument.value, first=self.snapshot)
        with self.context.describing(query) as session:
            try:
                columns = session.describe(query.text, query.parameters)
            except SnapdbError as error:
                error.span = error.span or query.span
                raise
        fields = [*key_fields(types)]
        if len(types) > 1:
            fields = [Column("type", "VARCHAR"), *fields]
        name = argument.name.text.lower()
        each = 2 if name == "pairs" else 1
        can_weigh = name == "seeds" and self.call.algorithm.name == "pagerank"
        self._check_columns(argument, columns, fields * each, can_weigh=can_weigh)
        return NodeQuery(query, tuple(fields), each, len(columns) > len(fields) * each, tuple(columns))

    def _check_columns(
        self, argument: Argument, columns: Sequence[Column], wanted: Sequence[Column], *, can_weigh: bool
    ) -> None:
        name, span = argument.name.text.lower(), argument.value.span
        listed = ", ".join(column.name for column in wanted)
        if name == "pairs":
            listed = f"the keys of two vertices ({listed})"
        if not len(wanted) <= len(columns) <= len(wanted) + can_weigh:
            last = ", and optionally a weight" if can_weigh else ""
            raise BindError(
                f"{name} must return {listed}{last}; found {counted(len(columns), 'column')}",
                span=span,
                code="seed-columns",
            )
        for given, key in zip(columns, wanted, strict=False):
            if given.type == _NULL:
                continue
            families = SqlType(given.type).key_family(), SqlType(key.type).key_family()
            if families[0] != families[1] and families != ("VARCHAR", "UUID"):
                raise BindError(
                    f'column "{given.name}" of {name} has type {given.type}, but {key.name} has {key.type}; cast it',
                    span=span,
                    code="seed-type",
                )
        if len(columns) > len(wanted) and not _is_number(columns[-1].type):
            raise BindError(
                f'column "{columns[-1].name}" of {name} has type {columns[-1].type}; a weight must be a number',
                span=span,
                code="seed-type",
            )


def _is_number(type_: str) -> bool:
    return SqlType(type_).key_family() in _NUMBERS or type_.startswith("DECIMAL")


def _fits(option: Option, value: Any) -> bool:
    """Return whether a value has the type of an option."""
    match option.kind:
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "names":
            return isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    return isinstance(value, str)


def _in_range(option: Option, value: Any) -> bool:
    """Return whether a value of the right type is in the range of an option."""
    if option.kind == "direction":
        return str(value).lower() in ("out", "in", "both")
    if option.kind not in ("number", "integer"):
        return True
    if not isfinite(value) or abs(value) > _LARGEST:
        return False
    above_low = option.low is None or (value > option.low if option.above else value >= option.low)
    return above_low and (option.high is None or value <= option.high)


def _shown(value: Any) -> str:
    """Return a value as it is written in SQL, shortened.

    >>> _shown("a"), _shown(None), _shown([1])
    ("'a'", 'NULL', '[1]')
    """
    if value is None:
        return "NULL"
    return repr(value)[:60] if isinstance(value, str | list) else str(value)[:60].lower()
