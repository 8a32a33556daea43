"""Checks of the names in expressions of a GRAPH_TABLE, with the nearest name or the place where it belongs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from snapdb.errors import BindError, Span
from snapdb.plan.patterns.access import all_columns, missing
from snapdb.plan.patterns.graphs import ElementType
from snapdb.plan.patterns.paths import Patterns, Variable
from snapdb.plan.patterns.references import Expression, Reference, bare_names, qualifiers
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import partners, says
from snapdb.types.text import did_you_mean


def check_names(context: BindContext, patterns: Patterns, expression: Expression, done: Collection[int]) -> None:
    """Raise BindError for a qualifier that is neither a variable nor a table, or for a column without its variable.

    Args:
        context: The binding context.
        patterns: The patterns.
        expression: The expression. One with a subquery is not checked, because its names can be columns of tables.
        done: The indexes of tokens that were replaced.
    """
    tokens = expression.tokens
    if any(token.word in ("SELECT", "FROM") for token in tokens):
        return
    paths = patterns.path_names()
    for name, index in [*qualifiers(tokens), *bare_names(tokens)]:
        if name.lower() in paths and index not in done:
            raise BindError(
                f"{name} is a path, not a value; write path_length({name}), vertices({name}), edges({name}) or "
                f"element_id({name})",
                span=expression.span(index, index),
                code="pattern-variable",
            )
    known = patterns.variables.keys() | paths
    for name, index in qualifiers(tokens):
        if name.lower() not in known and not says(tokens, index + 3, "(") and context.catalog.kind_of(name) is None:
            raise unknown_variable(patterns, name, expression.span(index, index))
    for name, index in bare_names(tokens):
        variable = None if index in done else _with_property(patterns, name)
        if variable is not None:
            raise _unqualified(variable, name, expression.span(index, index))


def _with_property(patterns: Patterns, name: str) -> Variable | None:
    """Return the first variable whose types have a property with this name, or None."""
    variables = patterns.variables.values()
    return next((v for v in variables if not missing(name, patterns.labelled_types(v))), None)


def _unqualified(variable: Variable, name: str, span: Span) -> BindError:
    way = f"write {variable.name}.{name}"
    if not variable.named:
        way = f"declare a variable for the element, and write {variable.kind[0]}.{name}"
    return BindError(
        f'column "{name}" must follow its variable in a pattern; {way}', span=span, code="unknown-variable"
    )


def check_aggregates(context: BindContext, expression: Expression, done: Collection[int]) -> None:
    """Raise BindError for an aggregate in COLUMNS that does not refer to a group variable.

    Args:
        context: The binding context.
        expression: The list of COLUMNS.
        done: The indexes of tokens that were replaced, such as those of aggregates over group variables.
    """
    tokens = expression.tokens
    if any(token.word in ("SELECT", "FROM") for token in tokens):
        return
    pairs = partners(tokens)
    for index, token in enumerate(tokens):
        if token.kind != "word" or index in done or not says(tokens, index + 1, "("):
            continue
        last = pairs[index + 1]
        windowed = any(says(tokens, place, "OVER") for place in range(last + 1, min(last + 8, len(tokens))))
        if not windowed and token.text.lower() in context.store.sql_engine.aggregates():
            raise BindError(
                f"COLUMNS returns one row per match, and {token.text} needs a variable of a quantified part; "
                f"aggregate over the matches outside: SELECT {token.text}(…) FROM GRAPH_TABLE (…)",
                span=expression.span(index, last),
                code="pattern-variable",
            )


def check_columns(expression: Expression, items: Collection[tuple[int, int]]) -> None:
    """Raise BindError for DISTINCT or * in COLUMNS.

    Args:
        expression: The list of COLUMNS.
        items: The first and last token of each item.
    """
    tokens = expression.tokens
    if tokens[0].word == "DISTINCT":
        raise BindError(
            "COLUMNS returns one row per match; write SELECT DISTINCT … FROM GRAPH_TABLE (…)",
            span=expression.span(0, 0),
            code="pattern-variable",
        )
    for first, _ in items:
        if tokens[first].text == "*":
            raise BindError(
                "COLUMNS needs a variable before *, as in a.*",
                span=expression.span(first, first),
                code="pattern-variable",
            )


def out_of_reach(variable: Variable, reference: Reference, span: Span) -> BindError:
    """Return the error for a variable that an expression cannot read at its place."""
    if variable.depth != "group":
        message = (
            f"{variable.name} cannot be read here, because it is bound later, in another pattern or by ONE ROW PER"
        )
        return BindError(
            f"{message}; move the condition to WHERE after the patterns", span=span, code="pattern-variable"
        )
    plural = "vertices" if variable.kind == "vertex" else "edges"
    alone = reference.column is None or reference.column.text == "*"
    assert alone or reference.column is not None
    way = f"count({variable.name})" if alone else f"max({variable.name}.{reference.column.text})"  # type: ignore[union-attr]
    return BindError(
        f"{variable.name} is bound to a list of {plural}, because its part of the pattern is quantified; use it in an "
        f"aggregate, such as {way}",
        span=span,
        code="pattern-variable",
    )


def no_property(variable: str, column: str, types: Mapping[str, ElementType], span: Span) -> BindError:
    """Return the error for a property that no type of a variable has."""
    known = all_columns(types)
    names = ", ".join(element.name for element in types.values())
    hint = did_you_mean(column, known) or f"; the properties are {', '.join(known[:12])}"
    return BindError(f'{variable} ({names}) has no property "{column}"{hint}', span=span, code="unknown-property")


def unknown_variable(patterns: Patterns, name: str, span: Span) -> BindError:
    """Return the error for a variable that no pattern declares."""
    known = [v.name for v in patterns.variables.values() if v.named]
    declared = f"the patterns declare {', '.join(known)}" if known else "the patterns declare none"
    hint = did_you_mean(name, known) or f"; {declared}, and cannot refer to other items of FROM"
    return BindError(f'variable "{name}" does not exist{hint}', span=span, code="unknown-variable")
