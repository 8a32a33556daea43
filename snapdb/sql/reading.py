"""The loop over a grammar's tables: Lark's own takes twice as long, and scripts are long.

Lark makes the tables and what builds the nodes of a tree; this only walks them. A statement that they do not take is
given to Lark, which knows how to tell what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import lark
from lark.parsers.lalr_analysis import Shift

from snapdb.sql.grammars import parser, terminal_of
from snapdb.sql.islands import Family
from snapdb.sql.tokens import Token

_END = "$END"
_new_text = str.__new__  # a leaf's own constructor takes several calls


class _Reduce(NamedTuple):
    """Some values become one."""

    size: int
    rule: str
    build: Callable[[list[Any]], Any]


class _Tables(NamedTuple):
    """Of each state what follows a terminal or a rule: another state, or a reduction."""

    steps: Mapping[int, Mapping[str, int | _Reduce]]
    start: int
    end: int
    keywords: Mapping[str, str]


def read(family: Family, tokens: Sequence[Token]) -> lark.Tree[lark.Token]:
    """The tree of a statement; positions in it count in the source.

    Raises:
        UnexpectedToken: the grammar does not take it.
    """
    tree = _walk(_tables(family), tokens)
    return tree if tree is not None else parser(family).parse(tokens)


@cache
def _tables(family: Family) -> _Tables:
    frontend = parser(family).parser
    table, builders = frontend.parser.parser.parse_table, frontend.parser.parser.callbacks
    reductions = {rule: _Reduce(len(rule.expansion), rule.origin.name, build) for rule, build in builders.items()}
    steps = {
        state: {name: argument if action is Shift else reductions[argument] for name, (action, argument) in row.items()}
        for state, row in table.states.items()
    }
    (start,), (end,) = table.start_states.values(), table.end_states.values()
    return _Tables(steps, start, end, frontend.lexer.keywords)


def _walk(tables: _Tables, tokens: Iterable[Token]) -> lark.Tree[lark.Token] | None:
    """The tree, or None where a token fits nowhere."""
    steps, start, end, keywords = tables
    states, values = [start], list[Any]()
    places: list[tuple[int, int] | None] = []
    """Where in the source each value stands, with what the tree leaves out of it; None for one of no tokens."""
    for token in (*tokens, None):
        row = steps[states[-1]]
        terminal = _END if token is None else terminal_of(token, row, keywords)
        while (step := row.get(terminal)).__class__ is _Reduce:
            size, rule, build = step  # told by its class, which is faster
            kept = len(values) - size
            children, within = values[kept:], places[kept:]
            del states[kept + 1 :], values[kept:], places[kept:]
            place = within[0] if size == 1 else _around(within)
            value = build(children)
            if place is not None and value.__class__ is lark.Tree and value._meta is None:
                meta = value.meta
                meta.start_pos, meta.end_pos = place
                meta.empty = False
            state: Any = steps[states[-1]][rule]
            states.append(state)
            values.append(value)
            places.append(place)
            if token is None and state == end:
                return value  # type: ignore[no-any-return]
            row = steps[state]
        if step is None or token is None:
            return None
        states.append(step)  # type: ignore[arg-type]
        values.append(_leaf(token, terminal))
        places.append(token.span)
    return None


def _around(places: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    """From the first to the last of some places."""
    there = [place for place in places if place is not None]
    return (there[0][0], there[-1][1]) if there else None


def _leaf(token: Token, terminal: str) -> lark.Token:
    _, text, (start, stop) = token
    leaf = _new_text(lark.Token, text)
    leaf.type, leaf.value, leaf.start_pos, leaf.end_pos = terminal, text, start, stop
    return leaf
