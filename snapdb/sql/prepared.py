"""Prepared statements: PREPARE, EXECUTE and DEALLOCATE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Pairs, Run, Token, says, scan, top_level
from snapdb.sql.printer import join_clauses, print_name
from snapdb.sql.syntax import (
    Family,
    Leaf,
    Name,
    Place,
    Reader,
    SqlFragment,
    Statement,
    Tree,
    first_tree,
    fragment,
    leaves,
    name,
    span_of,
)


@dataclass(frozen=True, slots=True)
class Prepare(Statement):
    """PREPARE name [(types)] AS statement."""

    reads: ClassVar[bool] = True
    stores_parameters: ClassVar[bool] = True

    name: Name
    types: SqlFragment | None
    """The types of the parameters, which are accepted and not used, as in DuckDB."""
    statement: Statement

    def to_sql(self) -> str:
        types = self.types and f"({self.types.text})"
        return join_clauses("PREPARE", print_name(self.name), types, "AS", self.statement.to_sql())


@dataclass(frozen=True, slots=True)
class ExecuteArgument:
    """[name :=] value."""

    name: Name | None
    """The name of a parameter, or None for a positional one."""
    value: SqlFragment

    def to_sql(self) -> str:
        """Return the argument as it is written."""
        return self.value.text if self.name is None else f"{print_name(self.name)} := {self.value.text}"


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """EXECUTE name [(argument, …)]."""

    name: Name
    arguments: tuple[ExecuteArgument, ...]

    def to_sql(self) -> str:
        arguments = ", ".join(argument.to_sql() for argument in self.arguments)
        return f"EXECUTE {print_name(self.name)}{f' ({arguments})' if arguments else ''}"


@dataclass(frozen=True, slots=True)
class Deallocate(Statement):
    """DEALLOCATE [PREPARE] name | ALL."""

    reads: ClassVar[bool] = True

    name: Name | None
    """The prepared statement, or None for all."""

    def to_sql(self) -> str:
        return f"DEALLOCATE {'ALL' if self.name is None else print_name(self.name)}"


def _prepare(tree: Tree, place: Place, reader: Reader) -> Prepare:
    named, inner = leaves(tree)
    types = first_tree(tree, "types")
    statement = reader.statement(inner)
    if isinstance(statement, Prepare | Execute | Deallocate):
        raise ParseError(
            f"{inner.split()[0].upper()} cannot be prepared; prepare the statement itself",
            span=span_of(inner),
            code="not-prepared",
        )
    return Prepare(*place, name(named), None if types is None else fragment(leaves(types)[0]), statement)


def _execute(tree: Tree, place: Place) -> Execute:
    listed = first_tree(tree, "arguments")
    return Execute(*place, name(leaves(tree)[0]), () if listed is None else tuple(map(_argument, leaves(listed))))


def _argument(leaf: Leaf) -> ExecuteArgument:
    """Build an argument. Its name may be any word, because parameters may have any name."""
    value, tokens = fragment(leaf), scan(str(leaf))
    if len(tokens) < 4 or not says(tokens, 1, ":", "="):
        return ExecuteArgument(None, value)
    at, inner = value.span.start, Span(tokens[3].span.start, tokens[-1].span.stop)
    named = Name(tokens[0].identifier, Span(at, at + tokens[0].span.stop))
    return ExecuteArgument(named, SqlFragment(value.text[slice(*inner)], Span(at + inner.start, at + inner.stop)))


def _deallocate(tree: Tree, place: Place) -> Deallocate:
    (leaf,) = leaves(tree)
    return Deallocate(*place, None if leaf.type == "ALL" else name(leaf))


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the statement and the types of PREPARE, or the arguments of EXECUTE."""
    if tokens[0].word == "PREPARE":
        after = pairs[2] + 1 if 2 in pairs else 2
        if 2 in pairs:
            yield Run("EXPRESSION", 3, pairs[2])
        if says(tokens, after, "AS"):
            yield Run("STATEMENT", after + 1, len(tokens))
    elif tokens[0].word == "EXECUTE" and 2 in pairs:
        commas = [i for i in top_level(tokens[: pairs[2]], pairs, 3) if tokens[i].word == ","]
        for start, stop in zip((2, *commas), (*commas, pairs[2]), strict=True):
            yield Run("EXPRESSION", start + 1, stop)


FAMILY = Family(
    grammar="prepared",
    builders={"execute": _execute, "deallocate": _deallocate},
    nesting={"prepare": _prepare},
    fragments=_fragments,
)
