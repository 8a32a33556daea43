"""What the expressions of a GRAPH_TABLE read of its matches: columns, lists of group variables, and lists of paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snapdb.plan.patterns.access import all_columns
from snapdb.plan.patterns.paths import Patterns
from snapdb.plan.patterns.references import Expression, Reference
from snapdb.plan.patterns.rows import PerElement
from snapdb.sql.lexer import says


@dataclass(frozen=True, slots=True)
class Needs:
    """What the expressions of a GRAPH_TABLE read."""

    columns: Mapping[str, Sequence[str]]
    """The case-folded columns that expressions read, by variable."""
    where: Expression | None
    """The condition after the patterns."""
    referenced: frozenset[str]
    """All variables that expressions refer to."""
    groups: frozenset[str]
    """The group variables in aggregates."""
    counted: frozenset[str]
    """The group variables that expressions only count, as in count(e)."""
    lists: frozenset[str]
    """The functions of path variables that are called: vertices, edges, element_id."""
    rows: PerElement | None
    """ONE ROW PER VERTEX or STEP, which reads the lists of its paths."""


def needs_of(patterns: Patterns, columns: Expression, where: Expression | None, rows: PerElement | None) -> Needs:
    """Return what COLUMNS and the conditions read."""
    every = [columns, *([] if where is None else [where]), *(c for path in patterns.paths for c in path.conditions)]
    groups = frozenset(v for each in every for v in each.variables if patterns.variables[v].depth == "group")
    referenced = frozenset(v for each in every for v in each.variables)
    used = {r.variable for each in every for r in each.references if not _is_counted(each, r)}
    return Needs(_columns(patterns, every), where, referenced, groups, groups - used, path_functions(every), rows)


def _is_counted(each: Expression, reference: Reference) -> bool:
    """Return whether a reference is the argument of count(…), without clauses."""
    first, last = reference.first, reference.last
    alone = reference.column is None and says(each.tokens, first - 2, "COUNT", "(") and says(each.tokens, last + 1, ")")
    return first > 1 and alone and not any(says(each.tokens, last + 2, word) for word in ("FILTER", "OVER", "WITHIN"))


def path_functions(expressions: Sequence[Expression]) -> frozenset[str]:
    """Return the words of expressions that can be functions of paths."""
    names = {"vertices", "edges", "element_id"}
    return frozenset(t.text.lower() for each in expressions for t in each.tokens if t.text.lower() in names)


def _columns(patterns: Patterns, expressions: Sequence[Expression]) -> dict[str, list[str]]:
    """Return the columns that the conditions and COLUMNS read, by variable."""
    every = [*expressions, *(c for path in patterns.paths for c in path.conditions)]
    every += [c for path in patterns.paths for item in path.flat for c in item.conditions]
    needed: dict[str, dict[str, None]] = {}
    for each in every:
        for reference in each.references:
            if reference.column is None:
                continue
            variable = patterns.variables[reference.variable]
            types = patterns.labelled_types(variable)
            starred = reference.column.text == "*"
            columns = all_columns(types) if starred else [reference.column.identifier]
            needed.setdefault(reference.variable, {}).update(dict.fromkeys(c.lower() for c in columns))
        _needed_ends(patterns, each, needed)
    return {name: list(columns) for name, columns in needed.items()}


def _needed_ends(patterns: Patterns, each: Expression, needed: dict[str, dict[str, None]]) -> None:
    """Add the end columns of edges in IS SOURCE OF and IS DESTINATION OF."""
    words = {token.word for token in each.tokens}
    if not words & {"SOURCE", "DESTINATION"}:
        return
    for reference in each.references:
        variable = patterns.variables[reference.variable]
        if variable.kind == "edge":
            for name in variable.types:
                element = patterns.graph.edges[name].element
                ends = (*element.source_key, *element.destination_key)
                needed.setdefault(reference.variable, {}).update(dict.fromkeys(c.lower() for c in ends))
