"""What may stand at the cursor in a query or an expression, which DuckDB reads: by clause, not by a grammar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from snapdb.relational.quote import text_literal
from snapdb.sql.embedded import READS
from snapdb.sql.lexer import Token, identifier

from .completion_choices import Group, functions, names, words
from .completion_names import Known
from .completion_words import AFTER_TABLE, AFTER_VALUE, CLAUSES, IN_VALUE, RELATION, SQL_TYPES, SQL_WORDS


class Scope(NamedTuple):
    """What a query can see."""

    known: Known
    snapshot: str = ""
    """Its elements can be named alone, as in SEEDS."""
    tables: tuple[str, ...] = ()
    """Tables that the statement around it works on: their columns can be named."""


def sources(tokens: Sequence[Token]) -> dict[str, str]:
    """The tables that a query reads, as keys of `Known.columns_of`, by the name or alias that its columns go by.

    >>> from snapdb.sql.lexer import scan
    >>> sources(scan("SELECT * FROM person p, now.Knows JOIN t ON true"))
    {'p': 'person', 'knows': 'now.knows', 't': 't'}
    """
    found: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.word in {"FROM", "JOIN", "INTO", "UPDATE"}:
            found.update(_relations(tokens, index + 1))
    return found


def _relations(tokens: Sequence[Token], index: int) -> Iterator[tuple[str, str]]:
    """Alias and key of each table between commas from a token on."""
    while index < len(tokens) and _is_name(tokens[index]):
        path = [identifier(tokens[index]).lower()]
        while _marks(tokens, index + 1, ".") and index + 2 < len(tokens) and _is_name(tokens[index + 2]):
            index += 2
            path.append(identifier(tokens[index]).lower())
        index += 1
        if index + 1 < len(tokens) and tokens[index].word == "AT" and _marks(tokens, index + 1, "("):
            index = _behind(tokens, index + 1)
        if index < len(tokens) and tokens[index].word == "AS":
            index += 1
        alias = path[-1]
        if index < len(tokens) and _is_name(tokens[index]):
            alias = identifier(tokens[index]).lower()
            index += 1
        yield alias, ".".join(path)
        if not _marks(tokens, index, ","):
            return
        index += 1


def _is_name(token: Token) -> bool:
    return token.kind == "quoted" or (token.kind == "word" and token.word not in SQL_WORDS | {"AS", "AT"})


def _marks(tokens: Sequence[Token], index: int, mark: str) -> bool:
    return index < len(tokens) and tokens[index].text == mark


def _behind(tokens: Sequence[Token], opened: int) -> int:
    """The index behind the bracket that closes the one at `opened`."""
    depth = 0
    for index in range(opened, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def groups(before: Sequence[Token], whole: Sequence[Token], scope: Scope) -> list[Group]:
    """The candidates behind the tokens `before` of a query or expression, of which `whole` is everything."""
    if before and before[-1].text == ".":
        return _qualified(before, whole, scope)
    if not before and not scope.tables:
        return [words(("SELECT", *READS[1:]))]
    if [token.word for token in before[-2:]] == ["TAG", "=>"]:
        return [tags(scope.known)]
    clause = _clause(before)
    last = before[-1] if before else None
    if clause in RELATION and last is not None and (last.word == clause or last.text in (",", "(")):
        opens = last.text == "(" and before[-2].word == clause
        return [words(READS), *_tables(before, scope)] if opens else _tables(before, scope)
    if last is not None and _ends_value(last):
        return [words(AFTER_TABLE if clause in RELATION else AFTER_VALUE, eager=clause in RELATION)]
    if last is not None and last.word in ("AS", "VALUES"):
        return []
    return _values(whole, scope)


def _ends_value(token: Token) -> bool:
    """Whether something whole stands before the cursor: an operator or a keyword comes next."""
    if token.kind in ("quoted", "string", "number", "parameter") or token.text in (")", "]"):
        return True
    return token.kind == "word" and (token.word not in SQL_WORDS or token.word in {"NULL", "TRUE", "FALSE", "END"})


def _clause(before: Sequence[Token]) -> str:
    """The clause the cursor stands in: its keyword, looking out of brackets that are open."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        token = before[index]
        depth += {")": 1, "(": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if depth <= 0 and token.word in CLAUSES and not (index and before[index - 1].word == "DISTINCT"):
            return token.word
    return ""


def tags(known: Known) -> Group:
    """The tags as the strings that stand for them."""
    return Group("tag", [text_literal(tag) for tag in known.tags], "text")


def _tables(before: Sequence[Token], scope: Scope) -> list[Group]:
    known = scope.known
    ctes = [identifier(token) for token, follows in pairwise(before) if follows.word == "AS" and _is_name(token)]
    facts = ["snapdb"] if "snapdb" in known.elements_of else []
    readers = [name for name in known.functions if name.startswith(("read_", "generate_", "range", "unnest", "glob"))]
    found = [
        names("query", ctes),
        names("table", known.tables),
        names("snapshot", known.snapshots),
        names("about this", facts),
        functions(readers),
    ]
    if scope.snapshot:
        elements = known.elements_of.get(scope.snapshot, known.types)
        return [names("element", elements), *found]
    return found


def _qualified(before: Sequence[Token], whole: Sequence[Token], scope: Scope) -> list[Group]:
    """What follows a name and a dot."""
    path: list[str] = []
    index = len(before) - 1
    while index > 0 and before[index].text == "." and before[index - 1].kind in ("word", "quoted"):
        path.insert(0, identifier(before[index - 1]).lower())
        index -= 2
    known = scope.known
    if len(path) > 1:
        return [names("column", known.columns_of.get(".".join(path[-2:]), ()))]
    (name,) = path or [""]
    if name in known.elements_of and (index < 0 or before[index].word in RELATION | {","}):
        return [names("table" if name == "snapdb" else "element", known.elements_of[name])]
    key = sources(whole).get(name, name)
    columns = known.columns_of.get(f"{scope.snapshot}.{key}") or known.columns_of.get(key) or ()
    return [names("column", columns), names("element", known.elements_of.get(name, ()))]


def _values(whole: Sequence[Token], scope: Scope) -> list[Group]:
    """Columns of the tables that are read, then everything that computes."""
    known = scope.known
    read = sources(whole)
    columns: list[str] = []
    for key in (*scope.tables, *read.values()):
        columns += known.columns_of.get(f"{scope.snapshot}.{key}") or known.columns_of.get(key) or ()
    qualifiers = [alias for alias in read if len(read) > 1 or alias != read[alias]]
    found = [names("column", columns or known.columns()), names("table", qualifiers)]
    return [*found, functions(known.functions), words((*IN_VALUE, *SQL_TYPES), eager=False)]
