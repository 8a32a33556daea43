"""Expressions of a GRAPH_TABLE as SQL: columns of variables, and the functions and predicates of graph patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from snapdb.errors import BindError, Span
from snapdb.plan.patterns.access import Access, all_columns, ends, identity, labelled, missing, same
from snapdb.plan.patterns.checks import (
    check_aggregates,
    check_columns,
    check_names,
    no_property,
    out_of_reach,
    unknown_variable,
)
from snapdb.plan.patterns.graphs import ElementType
from snapdb.plan.patterns.paths import Patterns
from snapdb.plan.patterns.references import Expression, Reference, subqueries
from snapdb.plan.patterns.references import expression as read_expression
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import Token, partners, says
from snapdb.sql.patterns import parse_label
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import quote
from snapdb.types.text import did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class PathAccess:
    """The SQL expressions of one path variable."""

    length: str
    """The number of edges."""
    vertices: str
    """The keys of the vertices, as a list."""
    edges: str
    """The e_ids of the edges, as a list."""
    elements: str
    """The keys and e_ids, alternating."""

    def exposed(self, exposed: Callable[[str], str], functions: frozenset[str]) -> PathAccess:
        """Return the expressions as columns of a subquery, without the lists that no function reads."""
        lists = {"vertices": self.vertices, "edges": self.edges, "element_id": self.elements}
        return PathAccess(
            exposed(self.length), *(exposed(sql) if name in functions else "NULL" for name, sql in lists.items())
        )


Aggregate = Callable[[str, "Expression", int, int], str]
"""Returns the SQL of an aggregate over a group variable: the tokens of the call are those from first to last."""


@dataclass(slots=True)
class Rewriter:
    """Rewrites the expressions of one GRAPH_TABLE."""

    context: BindContext
    patterns: Patterns
    accesses: Mapping[str, Access]
    paths: Mapping[str, PathAccess] = field(default_factory=dict)
    """Case-folded name of a path variable → its expressions."""
    aggregate: Aggregate | None = None
    element_numbers: Mapping[str, str] = field(default_factory=dict)
    """Case-folded variable of ONE ROW PER → its ELEMENT_NUMBER."""
    match_number: str = "row_number() OVER ()"
    bare: bool = False
    """Whether a variable alone is its key or e_id, as in count(e)."""

    def sql(
        self, expression: Expression, *, selected: bool = False, inserted: Sequence[tuple[Span, str]] = ()
    ) -> BoundQuery:
        """Return an expression with all references replaced.

        Args:
            expression: The expression.
            selected: Whether it is the list of COLUMNS, in which `a.*` is allowed and every item has a name.
            inserted: Further replacements. Spans are relative to the expression.

        Raises:
            BindError: A variable or column does not exist, or a variable is used as a value.
        """
        tokens = expression.tokens
        done, replacements = set[int](), list[tuple[Span, str]](inserted)

        def replace(first: int, last: int, sql: str) -> None:
            replacements.append((Span(tokens[first].span.start, tokens[last].span.stop), sql))
            done.update(range(first, last + 1))

        named = list(_items(tokens)) if selected else []
        if selected:
            check_columns(expression, named)
        for first, last, sql in self._calls(expression):
            replace(first, last, sql)
        nested = subqueries(tokens)
        for reference in expression.references:
            inside = any(first <= reference.first <= last for first, last in nested)
            if reference.first not in done and not (inside and self._is_foreign(reference)):
                star = reference.column is not None and reference.column.text == "*"
                whole = any((reference.first, reference.last) == item for item in named)
                replace(reference.first, reference.last, self._reference(expression, reference, star and whole))
        for first, last in named:
            if (alias := self._alias(expression, first, last, done)) is not None:
                stop = tokens[last].span.stop
                replacements.append((Span(stop, stop), f" AS {quote(alias)}"))
        check_names(self.context, self.patterns, expression, done)
        if selected:
            check_aggregates(self.context, expression, done)
        return self.context.bind_query(expression.fragment, replacements=_joined(replacements))

    def _is_foreign(self, reference: Reference) -> bool:
        """Return whether a reference in a subquery is to a column that the variable's types do not have."""
        types = self.patterns.labelled_types(self.patterns.variables[reference.variable])
        return reference.column is not None and missing(reference.column.identifier, types)

    def _reference(self, expression: Expression, reference: Reference, starred: bool) -> str:
        span = expression.span(reference.first, reference.last)
        variable = self.patterns.variables[reference.variable]
        access, types = self.accesses.get(reference.variable), self.patterns.labelled_types(variable)
        if access is None:
            raise out_of_reach(variable, reference, span)
        if reference.column is None:
            if self.bare:
                return identity(access)
            what = "a vertex" if access.kind == "vertex" else "an edge"
            raise BindError(
                f"{variable.name} is {what}, not a value; write a column such as "
                f"{variable.name}.{all_columns(types)[0]}, or ELEMENT_ID({variable.name})",
                span=span,
                code="pattern-variable",
            )
        if starred:
            return ", ".join(f"{self._column(access, c, types)} AS {quote(c)}" for c in all_columns(types))
        column = reference.column.identifier
        if column == "*":
            raise BindError(
                f"{variable.name}.* must be an item of COLUMNS on its own; write the columns one by one",
                span=span,
                code="pattern-variable",
            )
        if missing(column, types):
            raise no_property(variable.name, column, types, expression.span(reference.last, reference.last))
        return self._column(access, column, types)

    def _column(self, access: Access, name: str, types: Mapping[str, ElementType]) -> str:
        """Return a column, which can be that of a type which satisfies the labels but does not fit the edges."""
        if not missing(name, access.types):
            return access.column(name)
        return f"CAST(NULL AS {next(c.type for t in types.values() if (c := t.column(name)) is not None)})"

    def _calls(self, expression: Expression) -> Iterator[tuple[int, int, str]]:
        """Yield the functions and predicates of graph patterns: the indexes of their tokens, and their SQL."""
        tokens, pairs = expression.tokens, partners(expression.tokens)
        at = {reference.first: reference for reference in expression.references}
        index = 0
        while index < len(tokens):
            called = self._call(expression, tokens, pairs, index)
            if called is None and index in at and at[index].column is None:
                called = self._predicate(expression, index)
            if called is None:
                index += 1
                continue
            last, sql = called
            yield index, last, sql
            index = last + 1

    def _call(
        self, expression: Expression, tokens: Sequence[Token], pairs: Mapping[int, int], index: int
    ) -> tuple[int, str] | None:
        """Return the last token and the SQL of a call of a function of patterns, or None for other tokens."""
        token = tokens[index]
        if token.kind != "word" or _text(tokens, index + 1) != "(" or (index and tokens[index - 1].text == "."):
            return None
        last = pairs[index + 1]
        arguments = tokens[index + 2 : last]
        match token.word:
            case "ELEMENT_ID" | "VERTEX_ID" | "EDGE_ID" if len(arguments) == 1 and self._path(arguments[0]) is None:
                listed = self._listed(arguments[0])
                return last, identity(self._element(expression, index + 2)) if listed is None else listed
            case "ELEMENT_ID" | "PATH_LENGTH" | "VERTICES" | "EDGES" if len(arguments) == 1:
                return last, self._of_path(expression, index)
            case "SAME" | "ALL_DIFFERENT" if self._refers(arguments):
                return last, self._compared(expression, index, last)
            case "MATCH_NUMBER" | "MATCHNUM" if not arguments:
                return last, self.match_number
            case "ELEMENT_NUMBER" if len(arguments) == 1:
                return last, self._element_number(expression, index)
            case "LABELS" if len(arguments) == 1 and self._refers(arguments):
                message = "LABELS is not supported; write IS LABELED, or ELEMENT_ID, which contains the type"
                raise BindError(message, span=expression.span(index, last), code="unknown-function")
            case "NODES" | "RELATIONSHIPS" | "LENGTH" | "LEN" if len(arguments) == 1 and self._path(arguments[0]):
                way = {"NODES": "vertices", "RELATIONSHIPS": "edges"}.get(token.word, "path_length")
                message = f"{token.text} is not a function of paths; write {way}({arguments[0].text})"
                raise BindError(message, span=expression.span(index, last), code="unknown-function")
        return self._aggregated(expression, index, _clauses_end(tokens, pairs, last))

    def _of_path(self, expression: Expression, index: int) -> str:
        tokens = expression.tokens
        path = self._path(tokens[index + 2])
        if path is None:
            raise self._not_a_path(expression, index)
        by_name = {"PATH_LENGTH": path.length, "VERTICES": path.vertices, "EDGES": path.edges}
        return by_name.get(tokens[index].word, path.elements)

    def _element_number(self, expression: Expression, index: int) -> str:
        number = self.element_numbers.get(expression.tokens[index + 2].identifier.lower())
        if number is None:
            raise BindError(
                "ELEMENT_NUMBER needs a variable of ONE ROW PER VERTEX or STEP",
                span=expression.span(index, index + 3),
                code="pattern-variable",
            )
        return number

    def _aggregated(self, expression: Expression, index: int, last: int) -> tuple[int, str] | None:
        """Return an aggregate over a group variable, or None for other calls."""
        inside = {r.variable for r in expression.references if index < r.first <= last}
        lists = [name for name in sorted(inside) if self.patterns.variables[name].depth == "group"]
        if not lists or self.aggregate is None:
            return None
        if expression.tokens[index].text.lower() not in self.context.store.sql_engine.aggregates():
            return None
        if len(inside) > 1:
            raise BindError(
                f"an aggregate over {lists[0]} cannot also refer to {', '.join(sorted(inside - {lists[0]}))}; compute "
                "the rest outside of it",
                span=expression.span(index, last),
                code="pattern-variable",
            )
        return last, self.aggregate(lists[0], expression, index, last)

    def _listed(self, token: Token) -> str | None:
        """Return the list of a group variable's elements, for ELEMENT_ID, or None for other variables."""
        name = token.identifier.lower()
        variable = self.patterns.variables.get(name)
        if variable is None or variable.depth != "group" or self.aggregate is None:
            return None
        listed = read_expression(SqlFragment(f"list(ELEMENT_ID({quote(variable.name)}))", token.span), {name})
        return self.aggregate(name, listed, 0, len(listed.tokens) - 1)

    def _predicate(self, expression: Expression, index: int) -> tuple[int, str] | None:
        """Return IS [NOT] LABELED, SOURCE OF or DESTINATION OF after a variable."""
        tokens = expression.tokens
        if not says(tokens, index + 1, "IS"):
            return None
        negated = says(tokens, index + 2, "NOT")
        place = index + 3 if negated else index + 2
        if says(tokens, place, "LABELED") or says(tokens, place, "LABELLED"):
            last, sql = self._labelled(expression, index, place + 1)
        elif (end := next((e for e in ("SOURCE", "DESTINATION") if says(tokens, place, e, "OF")), None)) is not None:
            last = place + 2
            vertex, edge = self._element(expression, index), self._element(expression, last)
            if (vertex.kind, edge.kind) != ("vertex", "edge"):
                raise BindError(
                    f"IS {end} OF compares a vertex with an edge",
                    span=expression.span(index, last),
                    code="pattern-variable",
                )
            sql = ends(vertex, edge, end.lower())
        else:
            return None
        return last, f"(NOT {sql})" if negated else sql

    def _labelled(self, expression: Expression, index: int, first: int) -> tuple[int, str]:
        access = self._element(expression, index)
        tokens, at = expression.tokens, expression.fragment.span.start
        shifted = [Token(t.kind, t.text, Span(t.span.start + at, t.span.stop + at)) for t in tokens[first:]]
        label, count = parse_label(shifted)
        names = self.patterns.graph.labelled(access.kind, label)
        return first + count - 1, labelled(access, names)

    def _compared(self, expression: Expression, index: int, last: int) -> str:
        """Return SAME (…) or ALL_DIFFERENT (…)."""
        tokens = expression.tokens
        places = [i for i in range(index + 2, last) if tokens[i].text != ","]
        elements = [self._element(expression, place) for place in places]
        if len(elements) < 2:
            raise BindError(
                f"{tokens[index].word} compares at least two variables",
                span=expression.span(index, last),
                code="pattern-variable",
            )
        if tokens[index].word == "SAME":
            return "(" + " AND ".join(same(elements[0], other) for other in elements[1:]) + ")"
        pairs = [(a, b) for i, a in enumerate(elements) for b in elements[i + 1 :]]
        return "(" + " AND ".join(f"NOT {same(a, b)}" for a, b in pairs) + ")"

    def _refers(self, arguments: Sequence[Token]) -> bool:
        return any(token.identifier.lower() in self.patterns.variables for token in arguments)

    def _element(self, expression: Expression, index: int) -> Access:
        """Return the access to the variable at a token. Raises BindError for another name or a group variable."""
        token = expression.tokens[index]
        name, span = token.identifier.lower(), expression.span(index, index)
        if name not in self.patterns.variables:
            raise unknown_variable(self.patterns, token.text, span)
        access = self.accesses.get(name)
        if access is None:
            raise out_of_reach(self.patterns.variables[name], Reference(name, None, index, index), span)
        return access

    def _path(self, token: Token) -> PathAccess | None:
        return self.paths.get(token.identifier.lower()) if token.kind in ("word", "quoted") else None

    def _not_a_path(self, expression: Expression, index: int) -> BindError:
        tokens = expression.tokens
        span = expression.span(index + 2, index + 2)
        known = did_you_mean(tokens[index + 2].identifier, list(self.paths))
        hint = known or "; name a path pattern, as in MATCH p = (a)-[e]->(b)"
        return BindError(
            f'path variable "{tokens[index + 2].text}" does not exist{hint}', span=span, code="unknown-variable"
        )

    def _alias(self, expression: Expression, first: int, last: int, done: set[int]) -> str | None:
        """Return a name for an item of COLUMNS whose own text was replaced, or None if it has one."""
        tokens = expression.tokens
        nested = any(tokens[i].word == "GRAPH_TABLE" for i in range(first, last + 1))
        if not nested and not any(i in done for i in range(first, last + 1)):
            return None
        reference = next((r for r in expression.references if r.first == first and r.last == last), None)
        if reference is not None:
            return None if reference.column is None or reference.column.text == "*" else reference.column.identifier
        before = tokens[last - 1] if last > first else None
        named = tokens[last].kind in ("word", "quoted") and tokens[last].word not in ("END", "NULL", "TRUE", "FALSE")
        if before is not None and named and last not in done:
            ended = before.word == "AS" or before.kind in ("quoted", "string", "number", "parameter")
            if ended or before.text in (")", "]", "}") or (before.kind == "word" and last - 1 in done):
                return None
        start = expression.fragment.text[tokens[first].span.start : tokens[last].span.stop]
        return " ".join(start.split()).lower() if tokens[first].kind == "word" else " ".join(start.split())


def _clauses_end(tokens: Sequence[Token], pairs: Mapping[int, int], last: int) -> int:
    """Return the index of the last token of a call with the FILTER (…) and WITHIN GROUP (…) after it."""
    while True:
        opened = last + (2 if says(tokens, last + 1, "FILTER", "(") else 3)
        if opened not in pairs or not (
            says(tokens, last + 1, "FILTER", "(") or says(tokens, last + 1, "WITHIN", "GROUP", "(")
        ):
            return last
        last = pairs[opened]


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if index < len(tokens) else ""


def _items(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the first and last token of each item of COLUMNS."""
    pairs, first, index = partners(tokens), 0, 0
    while index < len(tokens):
        if tokens[index].text == "," and tokens[index].kind == "mark":
            if index > first:
                yield first, index - 1
            first = index + 1
        index = pairs.get(index, index) + 1
    if first < len(tokens):
        yield first, len(tokens) - 1


def _joined(replacements: Sequence[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """Return replacements in order, with an insertion at the end of another one appended to it."""
    ordered: list[tuple[Span, str]] = []
    for span, text in sorted(replacements, key=lambda each: (each[0].start, each[0].stop)):
        if ordered and span.start == span.stop == ordered[-1][0].stop:
            ordered[-1] = (ordered[-1][0], ordered[-1][1] + text)
        else:
            ordered.append((span, text))
    return ordered
