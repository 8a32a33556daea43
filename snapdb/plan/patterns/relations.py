"""The rows of a path search as a relation: its columns, the views joined to it, and aggregates over its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from snapdb.errors import Span
from snapdb.plan.patterns.access import Access, coalesced, identity_columns, key_fields
from snapdb.plan.patterns.expressions import PathAccess, Rewriter
from snapdb.plan.patterns.graphs import ElementType, Kind
from snapdb.plan.patterns.joins import joined_element
from snapdb.plan.patterns.paths import BoundPath, Patterns
from snapdb.plan.patterns.references import Condition, Expression, expression
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import Output, PathSearch
from snapdb.sql.lexer import partners
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import Names, no_rows, quote, text_literal
from snapdb.types import Column

_ORDERED = frozenset(
    [
        "array_agg",
        "list",
        "listagg",
        "string_agg",
        "group_concat",
        "first",
        "last",
        "any_value",
        "arbitrary",
        "json_group_array",
    ]
)
"""The aggregates whose results depend on the order of rows, which is the order along the path."""


def output_columns(output: Output, elements: Mapping[str, ElementType], keys: str) -> list[Column]:
    """Return the columns of an output, in order.

    Args:
        output: The output.
        elements: Its types by case-folded name.
        keys: A suffix of the types: '[]' for lists.
    """
    name = output.variable
    match output.kind:
        case "match":
            return [Column("#match", "BIGINT")]
        case "length":
            return [Column("#length", "INTEGER")]
        case "node" | "nodes" | "edge" | "edges":
            columns = [Column(f"{name} type", f"VARCHAR{keys}")] if len(elements) != 1 else []
            for own, element in elements.items():
                columns += [
                    Column(f"{name} {own} {i}", f"{c.type}{keys}") for i, c in enumerate(identity_columns(element))
                ]
            return columns
    return [Column(f"#{output.kind}", f"{_struct_type(elements, mixed=output.kind == 'elements')}[]")]


def _struct_type(elements: Mapping[str, ElementType], *, mixed: bool) -> str:
    """Return the SQL type of an element's identity in a list."""
    columns = [c for element in elements.values() for c in identity_columns(element)]
    if mixed and len(columns) == 2 and {c.type for c in columns} == {"BIGINT"}:
        return "BIGINT"
    if not mixed and len(elements) == 1:
        if len(columns) == 1:
            return columns[0].type
        return f"STRUCT({', '.join(f'{quote(c.name)} {c.type}' for c in columns)})"
    fields = [Column("type", "VARCHAR"), *key_fields(elements)]
    return f"STRUCT({', '.join(f'{quote(c.name)} {c.type}' for c in fields)})"


@dataclass(slots=True)
class _Group:
    """The aggregates over one group variable."""

    variable: str
    calls: list[tuple[BoundQuery, str]] = field(default_factory=list)
    """The SQL of each call, and the name of its column."""


@dataclass(slots=True, eq=False)
class SearchRelation:
    """A path search in the FROM clause of a GRAPH_TABLE."""

    context: BindContext
    patterns: Patterns
    bound: BoundPath
    search: PathSearch
    conditions: Sequence[Condition]
    """The conditions of the path pattern that apply to the search's rows."""
    groups: dict[str, _Group] = field(default_factory=dict)
    """The group variables that aggregates read."""
    binds: set[str] = field(default_factory=set)
    """The variables whose columns are read from this search, and not from an earlier pattern."""

    @property
    def alias(self) -> str:
        return quote(f"{self.search.name} rows")

    def _view(self, variable: str, own: str) -> str:
        """Return the alias of the view that is joined for the columns of a variable's type."""
        return quote(f"{self.search.name} {variable} {own}")

    def _elements(self, output: Output) -> dict[str, ElementType]:
        graph = self.patterns.graph
        return {
            name: element for name in output.types if (element := graph.vertices.get(name) or graph.edges.get(name))
        }

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the search's rows."""
        return tuple(
            column
            for output in self.search.outputs
            for column in output_columns(
                output, self._elements(output), "[]" if output.kind in ("nodes", "edges") else ""
            )
        )

    def accesses(self, needed: Mapping[str, Sequence[str]]) -> dict[str, Access]:
        """Return the accesses to the elements of the path, whose views are joined if more than the key is read."""
        return {
            output.variable: self._access(output, needed.get(output.variable, ()))
            for output in self.search.outputs
            if output.kind in ("node", "edge")
        }

    def _access(self, output: Output, needed: Sequence[str]) -> Access:
        elements, name = self._elements(output), output.variable
        keys = {
            own: tuple(f"{self.alias}.{quote(f'{name} {own} {i}')}" for i, _ in enumerate(identity_columns(element)))
            for own, element in elements.items()
        }
        optional = self.patterns.variable(name).depth == "optional"
        tag = f"{self.alias}.{quote(f'{name} type')}"
        if len(elements) == 1:
            ((own, key),) = keys.items()
            tag = f"CASE WHEN {key[0]} IS NOT NULL THEN {text_literal(own)} END" if optional else text_literal(own)

        def column(wanted: str) -> str:
            values = list[tuple[str, str]]()
            for own, element in elements.items():
                found = element.column(wanted)
                own_keys = [c.name.lower() for c in identity_columns(element)]
                if found is not None and wanted.lower() in own_keys:
                    values.append((keys[own][own_keys.index(wanted.lower())], found.type))
                elif found is not None:
                    values.append((f"{self._view(name, own)}.{quote(found.name)}", found.type))
            return coalesced(values)

        kind: Kind = "vertex" if output.kind == "node" else "edge"
        return Access(kind, elements, tag, keys, column)

    @property
    def path(self) -> PathAccess:
        """The expressions of the path variable."""
        return PathAccess(
            *(f"{self.alias}.{quote(f'#{name}')}" for name in ("length", "vertices", "path_edges", "elements"))
        )

    def joined(self, needed: Mapping[str, Sequence[str]] | None = None) -> BoundQuery:
        """Return the FROM item: the rows with the views whose columns are read, and the aggregates over lists."""
        span = self.bound.span
        source = self.alias if self.groups else quote(self.search.name)
        parts: list[str | BoundQuery] = [f"{source} AS {self.alias}"]
        for output in self.search.outputs:
            if output.kind not in ("node", "edge"):
                continue
            for own, element in self._elements(output).items():
                keys = identity_columns(element)
                names = {c.name.lower() for c in keys}
                read = [c for c in (needed or {}).get(output.variable, ()) if element.column(c) and c not in names]
                if not read:
                    continue
                alias = self._view(output.variable, own)
                on = " AND ".join(
                    f"{alias}.{quote(c.name)} = {self.alias}.{quote(f'{output.variable} {own} {i}')}"
                    for i, c in enumerate(keys)
                )
                parts.append(f" LEFT JOIN {element.relation} AS {alias} ON ({on})")
        for group in self.groups.values():
            alias = quote(f"{group.variable} lists")
            parts += [
                " LEFT JOIN ",
                self._grouped(group),
                f" AS {alias} ON ({alias}.match = {self.alias}.{quote('#match')})",
            ]
        return compose(span, *parts)

    def materialized(self) -> str:
        """Return the common table expression of the rows, for a FROM item that reads them several times."""
        return f"{self.alias} AS MATERIALIZED (SELECT * FROM {quote(self.search.name)})"

    def _grouped(self, group: _Group) -> BoundQuery:
        """Return the aggregates over a group variable's lists, one row per match with at least one element."""
        output = next(o for o in self.search.outputs if o.variable == group.variable)
        lists = output_columns(output, self._elements(output), "")
        unnested = ", ".join(f"unnest({quote(c.name)}) AS {quote(c.name)}" for c in lists)
        first = quote(lists[0].name)
        rows = (
            f"SELECT {quote('#match')} AS match, {unnested}, generate_subscripts({first}, 1) AS place FROM {self.alias}"
        )
        parts: list[str | BoundQuery] = [f"(SELECT {quote('list')}.match"]
        for call, name in group.calls:
            parts += [", ", call, f" AS {name}"]
        parts.append(f" FROM ({rows}) AS {quote('list')}")
        for own, element in self._elements(output).items():
            alias = quote(f"{group.variable} {own}")
            on = " AND ".join(
                f"{alias}.{quote(c.name)} = {quote('list')}.{quote(f'{group.variable} {own} {i}')}"
                for i, c in enumerate(identity_columns(element))
            )
            parts.append(f" LEFT JOIN {element.relation} AS {alias} ON ({on})")
        parts.append(f" GROUP BY {quote('list')}.match)")
        return compose(self.bound.span, *parts)

    def aggregate(self, variable: str, each: Expression, first: int, last: int) -> str:
        """Return the SQL of an aggregate over a group variable, and add it to the FROM item."""
        words = [token.text.lower() for token in each.tokens[first : last + 1]]
        if words[:2] == ["count", "("] and words[3:] == [")"]:
            if variable == self.bound.only_step:
                return self.path.length
            output = next(o for o in self.search.outputs if o.variable == variable)
            lists = output_columns(output, self._elements(output), "[]")
            return f"len({self.alias}.{quote(lists[0].name)})"
        group = self.groups.setdefault(variable, _Group(variable))
        column = f"value{len(group.calls)}"
        call = self._call(variable, each, first, last)
        group.calls.append((call, column))
        value = f"{quote(f'{variable} lists')}.{column}"
        # An aggregate over an empty list is that over no rows: NULL, or 0 for counts.
        counts = each.tokens[first].word in ("COUNT", "COUNT_STAR", "COUNT_IF", "REGR_COUNT", "APPROX_COUNT_DISTINCT")
        return f"coalesce({value}, 0)" if counts else value

    def _call(self, variable: str, each: Expression, first: int, last: int) -> BoundQuery:
        at = each.fragment.span.start
        start, stop = each.tokens[first].span.start, each.tokens[last].span.stop
        call = expression(SqlFragment(each.fragment.text[start:stop], Span(start + at, stop + at)), {variable})
        output = next(o for o in self.search.outputs if o.variable == variable)
        inserted = list[tuple[Span, str]]()
        words = {token.word for token in call.tokens}
        if call.tokens[0].text.lower() in _ORDERED and not words & {"ORDER", "DISTINCT"}:
            end = call.tokens[partners(call.tokens)[1]].span.start
            inserted.append((Span(end, end), f" ORDER BY {quote('list')}.place"))
        rewriter = Rewriter(self.context, self.patterns, {variable: self._group_access(output)}, bare=True)
        return rewriter.sql(call, inserted=inserted)

    def _group_access(self, output: Output) -> Access:
        elements, name = self._elements(output), output.variable
        kind: Kind = "vertex" if output.kind == "nodes" else "edge"
        joined = {own: joined_element(self.patterns.graph, kind, f"{name} {own}", own) for own in elements}
        tag = f"{quote('list')}.{quote(f'{name} type')}" if len(elements) != 1 else text_literal(next(iter(elements)))
        keys = {own: access.keys[own] for own, access in joined.items()}

        def column(wanted: str) -> str:
            return coalesced(
                [
                    (access.column(wanted), found.type)
                    for own, access in joined.items()
                    if (found := elements[own].column(wanted)) is not None
                ]
            )

        return Access(kind, elements, tag, keys, column)

    def named(self) -> BoundQuery:
        """Return the names that the FROM item reads: a view of the search's rows with the types of its columns."""
        name, columns = self.search.name, self.columns
        rows = f"{name} found"
        cast = ", ".join(f"CAST({quote(c.name)} AS {c.type}) AS {quote(c.name)}" for c in columns)
        full = Names({name: f"SELECT {cast} FROM {quote(rows)}"}, sources={rows: replace(self.search, columns=columns)})
        return BoundQuery("", self.bound.span, full, Names({name: no_rows(columns)}, lasting=True))
