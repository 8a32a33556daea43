"""Snapshots: CREATE SNAPSHOT and REFRESH SNAPSHOT."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from snapdb.errors import ParseError
from snapdb.sql.lexer import Pairs, Run, Token, at_values, says, top_level
from snapdb.sql.printer import (
    print_at,
    print_columns,
    print_creation,
    print_fragment,
    print_name,
    print_statement,
    print_string,
    print_time,
)
from snapdb.sql.syntax import (
    ColumnList,
    Family,
    Leaf,
    Name,
    Place,
    Spanned,
    SqlFragment,
    Statement,
    TimeBound,
    Tree,
    VersionBound,
    WindowBound,
    bound,
    columns,
    fragment,
    has,
    leaves,
    name,
    once,
    only_option,
    span_of,
    string,
    time_fragment,
    trees,
)
from snapdb.sql.unsupported import refuse_parameters
from snapdb.types import FORMS, Form, did_you_mean


@dataclass(frozen=True, slots=True)
class CreateSnapshot(Statement):
    """CREATE [OR REPLACE] SNAPSHOT [IF NOT EXISTS] name OF graph [AT …] [FOR EVENT_TIME …] [ELEMENTS (…)] [WITH …] …"""

    name: Name
    graph: Name
    at: VersionBound | None
    event_time: TimeBound | WindowBound | None
    elements: ColumnList
    """The elements, or empty for all elements of the graph."""
    layout: Spanned[Form] | None
    """The encoding in WITH (layout = 'full' | 'ends' | 'bitmap' | 'materialized')."""
    where: SqlFragment | None
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        kept = print_creation("SNAPSHOT", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists)
        return print_statement(
            f"{kept} OF {print_name(self.graph)}",
            print_at(self.at),
            self.event_time and f"FOR EVENT_TIME {_print_time(self.event_time)}",
            bool(self.elements) and f"ELEMENTS {print_columns(self.elements)}",
            self.layout and f"WITH (layout = {print_string(self.layout.value)})",
            print_fragment("WHERE", self.where),
        )


@dataclass(frozen=True, slots=True)
class RefreshSnapshot(Statement):
    """REFRESH SNAPSHOT name [FULL] [DRY RUN]."""

    name: Name
    full: bool
    dry_run: bool

    def to_sql(self) -> str:
        return print_statement(
            f"REFRESH SNAPSHOT {print_name(self.name)}", self.full and "FULL", self.dry_run and "DRY RUN"
        )


def _create(tree: Tree, place: Place) -> CreateSnapshot:
    snapshot, graph = leaves(tree)
    clauses = once(trees(tree))
    at, event_time, where = clauses.get("at"), clauses.get("event_time"), clauses.get("where")
    return CreateSnapshot(
        *place,
        name=name(snapshot),
        graph=name(graph),
        at=None if at is None else bound(at),
        event_time=None if event_time is None else _time(event_time, place.source),
        elements=columns(clauses.get("elements")),
        layout=only_option(clauses.get("options"), "layout", _form),
        where=None if where is None else fragment(leaves(where)[0]),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _refresh(tree: Tree, place: Place) -> RefreshSnapshot:
    (snapshot,) = leaves(tree)
    return RefreshSnapshot(*place, name=name(snapshot), full=has(tree, "full"), dry_run=has(tree, "dry_run"))


_BOUNDS: dict[str, Literal["AS OF", "FROM", "BETWEEN"]] = {"as_of": "AS OF", "from_to": "FROM", "between": "BETWEEN"}


def _time(tree: Tree, source: str) -> TimeBound | WindowBound:
    (window,) = trees(tree)
    moments = [time_fragment(time, source) for time in trees(window)]
    if window.data == "window":
        return WindowBound(moments[0], moments[1] if len(moments) > 1 else None, span_of(tree))
    *start, stop = moments
    return TimeBound(_BOUNDS[str(window.data)], start[0] if start else None, stop, span_of(tree))


def _form(value: Leaf) -> Spanned[Form]:
    text = string(value) if value.type == "STRING" else name(value).text
    form = next((form for form in FORMS if form == text.lower()), None)
    if form is None:
        near = did_you_mean(text, FORMS) or f"; the layouts are {', '.join(FORMS)}"
        raise ParseError(f'unknown layout "{text[:40]}"{near}', span=span_of(value), code="unknown-layout")
    return Spanned(form, span_of(value))


def _print_time(bound: TimeBound | WindowBound) -> str:
    if isinstance(bound, WindowBound):
        ending = "" if bound.ending is None else f" ENDING {print_time(bound.ending)}"
        return f"WINDOW {print_time(bound.length, length=True)}{ending}"
    stop = print_time(bound.stop)
    match bound.kind, bound.start:
        case "FROM", start if start is not None:
            return f"FROM {print_time(start)} TO {stop}"
        case "BETWEEN", start if start is not None:
            return f"BETWEEN {print_time(start)} AND {stop}"
        case _:
            return f"AS OF {stop}"


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the value of AT, a time or length in parentheses, and the condition after WHERE."""
    yield from _condition_fragments(tokens, pairs)
    yield from at_values(tokens, pairs)
    for index in top_level(tokens, pairs):
        if index in pairs and index and tokens[index - 1].word in _BEFORE_TIME:
            yield Run("EXPRESSION", index + 1, pairs[index])
        elif tokens[index].word == "WINDOW":
            yield from _length_fragments(tokens, pairs, index + 1)


_AFTER_LENGTH = frozenset({"ENDING", "AT", "ELEMENTS", "WITH", "WHERE"})
"""The words that may follow the length of a window."""

_BEFORE_TIME = frozenset({"OF", "FROM", "TO", "BETWEEN", "AND", "INTERVAL", "ENDING"})


def _condition_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    for index in top_level(tokens, pairs):
        if tokens[index].word == "WHERE":
            yield Run("CONDITION", index + 1, len(tokens))
            return


_OPERATORS = frozenset({"+", "-", "*", "/", "%"})


def _length_fragments(tokens: Sequence[Token], pairs: Pairs, first: int) -> Iterator[Run]:
    """Yield a window's length if it is an expression: operands with operators, or an expression in parentheses.

    The grammar parses a single number or INTERVAL. It also parses the text after the last operand, so that errors name
    a word that does not start a clause.
    """
    stop = _operand_stop(tokens, pairs, first)
    if first in pairs and (stop == len(tokens) or tokens[stop].text not in _OPERATORS):
        yield Run("EXPRESSION", first + 1, pairs[first])
        return
    # The expression is not in brackets, so its operators determine where it ends.
    computed = False
    while stop < len(tokens) and tokens[stop].text in _OPERATORS:
        stop, computed = _operand_stop(tokens, pairs, stop + 1), True
    if computed:
        yield Run("EXPRESSION", first, stop)


def _operand_stop(tokens: Sequence[Token], pairs: Pairs, first: int) -> int:
    """Return the end of an operand: a signed value, a parenthesized expression, or INTERVAL with amount and unit."""
    while first < len(tokens) and tokens[first].text in {"-", "+"}:
        first += 1
    if says(tokens, first, "INTERVAL"):
        amount = _operand_stop(tokens, pairs, first + 1)
        # INTERVAL '7 days' has no separate unit, so the next word can belong to another clause.
        united = amount < len(tokens) and tokens[amount].kind == "word" and tokens[amount].word not in _AFTER_LENGTH
        return amount + 1 if united else amount
    last = pairs.get(first, first)
    return min(last + 1, len(tokens))


def _check(tokens: Sequence[Token]) -> None:
    if tokens[0].word == "CREATE":
        refuse_parameters(tokens, "a snapshot")


FAMILY = Family(
    grammar="snapshots", builders={"create": _create, "refresh": _refresh}, fragments=_fragments, check=_check
)
