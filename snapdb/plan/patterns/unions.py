"""The union of the combinations of types of joined path patterns, as one relation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from snapdb.errors import Span
from snapdb.plan.patterns.access import Access, identity_columns
from snapdb.plan.patterns.expressions import Rewriter
from snapdb.plan.patterns.graphs import ElementType
from snapdb.plan.patterns.joins import Joined
from snapdb.plan.patterns.paths import BoundPath, Patterns
from snapdb.plan.queries import BoundQuery, compose, conjunction
from snapdb.plan.scope import BindContext
from snapdb.sql_engine import quote

_UNION = "types"
"""The alias of the union."""


def union_of(
    context: BindContext,
    patterns: Patterns,
    combined: Sequence[Joined],
    paths: Sequence[BoundPath],
    needed: Mapping[str, Sequence[str]],
) -> tuple[BoundQuery, dict[str, Access]]:
    """Return the FROM item of the combinations of types, and the accesses to its variables.

    It has the identity and the needed columns of every variable. Without combinations, it has no rows.
    """
    variables = list(dict.fromkeys(item.variable for path in paths for item in path.flat))
    types = {v: dict.fromkeys(t for one in combined for t in one.accesses[v].types) for v in variables}
    if not combined:
        types = {v: dict.fromkeys(patterns.variable(v).types) for v in variables}
    elements = {v: {t: patterns.graph.of_kind(patterns.variable(v).kind)[t] for t in types[v]} for v in variables}
    parts: list[str | BoundQuery] = []
    for one in combined:
        selected = ", ".join(
            text for v in variables for text in _union_columns(v, one.accesses[v], elements[v], needed.get(v, ()))
        )
        rewriter = Rewriter(context, patterns, one.accesses)
        conditions: list[str | BoundQuery] = [*one.where, *(rewriter.sql(condition) for condition in one.conditions)]
        parts += [
            " UNION ALL " if parts else "",
            f"SELECT {selected} FROM {', '.join(one.sources)}",
            *conjunction(conditions),
        ]
    if not combined:
        parts.append(f"SELECT {', '.join(_no_columns(elements, needed))} WHERE false")
    source = compose(Span(0, 0), "(", *parts, f") AS {quote(_UNION)}")
    return source, {v: _union_access(v, patterns, elements[v]) for v in variables}


def _union_columns(
    variable: str, access: Access, elements: Mapping[str, ElementType], needed: Sequence[str]
) -> Iterator[str]:
    yield f"{access.tag} AS {quote(variable + ' type')}"
    for name, element in elements.items():
        for i, column in enumerate(identity_columns(element)):
            value = access.keys[name][i] if name in access.keys else f"CAST(NULL AS {column.type})"
            yield f"{value} AS {quote(f'{variable} {name} {i}')}"
    for wanted in needed:
        typed = {c.type for e in elements.values() if (c := e.column(wanted)) is not None}
        value = access.column(wanted)
        if value == "NULL" and len(typed) == 1:
            value = f"CAST(NULL AS {next(iter(typed))})"
        yield f"{value} AS {quote(f'{variable}.{wanted.lower()}')}"


def _no_columns(
    elements: Mapping[str, Mapping[str, ElementType]], needed: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for variable, types in elements.items():
        yield f"CAST(NULL AS VARCHAR) AS {quote(variable + ' type')}"
        for name, element in types.items():
            for i, column in enumerate(identity_columns(element)):
                yield f"CAST(NULL AS {column.type}) AS {quote(f'{variable} {name} {i}')}"
        for wanted in needed.get(variable, ()):
            typed = [c.type for e in types.values() if (c := e.column(wanted)) is not None]
            yield f"CAST(NULL AS {typed[0] if typed else 'VARCHAR'}) AS {quote(f'{variable}.{wanted.lower()}')}"


def _union_access(variable: str, patterns: Patterns, elements: Mapping[str, ElementType]) -> Access:
    def column(name: str) -> str:
        return f"{quote(_UNION)}.{quote(f'{variable}.{name.lower()}')}"

    keys = {
        name: tuple(
            f"{quote(_UNION)}.{quote(f'{variable} {name} {i}')}" for i, _ in enumerate(identity_columns(element))
        )
        for name, element in elements.items()
    }
    tag = f"{quote(_UNION)}.{quote(variable + ' type')}"
    return Access(patterns.variable(variable).kind, elements, tag, keys, column)
