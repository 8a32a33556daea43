"""Definitions: CREATE VIEW, MACRO, TYPE, SEQUENCE and SCHEMA."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import ParseError
from snapdb.sql.lexer import Pairs, Run, Token, says
from snapdb.sql.printer import join_clauses, print_columns, print_message, print_name, print_statement
from snapdb.sql.syntax import (
    ColumnList,
    Family,
    Name,
    Place,
    SqlFragment,
    Statement,
    Tree,
    columns,
    first_tree,
    fragment,
    has,
    leaves,
    message,
    name,
)
from snapdb.sql.table_tokens import body_stop
from snapdb.sql.unsupported import refuse_parameters
from snapdb.types import DefinitionKind


@dataclass(frozen=True, slots=True)
class CreateDefinition(Statement):
    """CREATE [OR REPLACE] [TEMPORARY] VIEW | MACRO | TYPE | SEQUENCE | SCHEMA [IF NOT EXISTS] name …."""

    kind: DefinitionKind
    name: Name
    columns: ColumnList
    """The column names of a view, or none to keep those of its query."""
    body: SqlFragment | None
    """The query of a view, the parameters and expressions of a macro, a type, the options of a sequence, or None."""
    or_replace: bool
    if_not_exists: bool
    temporary: bool
    recursive: bool
    """Whether the query of a view can read the view itself, like a recursive common table expression."""
    message: str | None

    def to_sql(self) -> str:
        words = f"{'TEMPORARY ' * self.temporary}{'RECURSIVE ' * self.recursive}{self.kind.upper()}"
        guard = "IF NOT EXISTS " * self.if_not_exists
        before = f"CREATE {'OR REPLACE ' * self.or_replace}{words} {guard}{print_name(self.name)}"
        return print_statement(
            join_clauses(before, bool(self.columns) and print_columns(self.columns)),
            self.body and f"{'AS ' * (self.kind in ('view', 'type'))}{self.body.text}",
            print_message(self.message),
        )


def _create(kind: DefinitionKind, tree: Tree, place: Place) -> CreateDefinition:
    named, *body = leaves(tree)
    return CreateDefinition(
        *place,
        kind=kind,
        name=name(named),
        columns=columns(first_tree(tree, "columns")),
        body=fragment(body[0]) if body else None,
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        temporary=has(tree, "temporary"),
        recursive=has(tree, "recursive"),
        message=message(tree),
    )


def _kind_index(tokens: Sequence[Token]) -> int:
    """Return the index of the kind of object."""
    index = 1 + 2 * says(tokens, 1, "OR", "REPLACE")
    index += says(tokens, index, "TEMP") or says(tokens, index, "TEMPORARY")
    return index + says(tokens, index, "RECURSIVE")


def _name_index(tokens: Sequence[Token]) -> int:
    """Return the index of the name."""
    index = _kind_index(tokens) + 1
    return index + 3 * says(tokens, index, "IF", "NOT", "EXISTS")


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the query of a view, or the text after the name or AS that defines another object."""
    at, stop = _kind_index(tokens), body_stop(tokens)
    kind = tokens[at].word if at < stop else ""  # completion also reads statements that are not finished
    first = _name_index(tokens) + 1
    if kind == "VIEW" and first in pairs:
        first = pairs[first] + 1
    if kind in ("VIEW", "TYPE"):
        first += says(tokens, first, "AS")
    if kind not in ("SCHEMA", ""):
        yield Run("QUERY" if kind == "VIEW" else "EXPRESSION", first, stop)


def _check(tokens: Sequence[Token]) -> None:
    """Raise ParseError at the first parameter, because definitions are stored without values."""
    kind, after = tokens[_kind_index(tokens)].word, _name_index(tokens) + 1
    if kind in ("MACRO", "FUNCTION") and after < len(tokens) and tokens[after].text != "(":
        found = tokens[after]
        raise ParseError(
            f'expected "(" after the name of a {kind.lower()}, found {found.text[:40]}; write () for no parameters',
            span=found.span,
            code="unexpected-word",
        )
    refuse_parameters(tokens, f"a {kind.lower()}")


FAMILY = Family(
    grammar="definitions",
    builders={
        "view": lambda tree, place: _create("view", tree, place),
        "macro": lambda tree, place: _create("macro", tree, place),
        "type": lambda tree, place: _create("type", tree, place),
        "sequence": lambda tree, place: _create("sequence", tree, place),
        "schema": lambda tree, place: _create("schema", tree, place),
    },
    fragments=_fragments,
    check=_check,
    names=lambda tokens: (_name_index(tokens),),
)
