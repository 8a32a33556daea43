"""Versions: tags, differences between two versions, and transactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from snapdb.sql.lexer import Pairs, Run, Token, at_values, qualified_names, says, top_level
from snapdb.sql.printer import print_at, print_creation, print_message, print_name, print_statement
from snapdb.sql.syntax import (
    Family,
    Name,
    Place,
    Statement,
    Tree,
    VersionBound,
    bound,
    first_tree,
    has,
    leaves,
    message,
    name,
    trees,
)
from snapdb.sql.unsupported import refuse_savepoint

_Detail = Literal["SUMMARY", "ROWS", "FEATURES"]
"""The level of detail of a difference between graphs: elements, rows, or feature components."""


@dataclass(frozen=True, slots=True)
class CreateTag(Statement):
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] name [AT (…)]."""

    name: Name
    at: VersionBound | None
    """The version, or None for the newest one."""
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        return print_statement(
            print_creation("TAG", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            print_at(self.at),
        )


@dataclass(frozen=True, slots=True)
class DiffTable(Statement):
    """DIFF TABLE name FROM bound [TO bound] [ROWS], where a bound is VERSION n, TIMESTAMP '…' or TAG 'name'."""

    reads: ClassVar[bool] = True

    table: Name
    start: VersionBound
    stop: VersionBound | None
    """The later version, or None for the newest one."""
    rows: bool

    def to_sql(self) -> str:
        return print_statement(
            f"DIFF TABLE {print_name(self.table)}", *_print_ends(self.start, self.stop), self.rows and "ROWS"
        )


@dataclass(frozen=True, slots=True)
class DiffGraph(Statement):
    """DIFF [PROPERTY] GRAPH name FROM bound [TO bound] [ROWS | FEATURES]."""

    reads: ClassVar[bool] = True

    graph: Name
    start: VersionBound
    stop: VersionBound | None
    """The later version, or None for the newest one."""
    detail: _Detail

    def to_sql(self) -> str:
        detail = self.detail != "SUMMARY" and self.detail
        return print_statement(
            f"DIFF PROPERTY GRAPH {print_name(self.graph)}", *_print_ends(self.start, self.stop), detail
        )


@dataclass(frozen=True, slots=True)
class DiffSnapshot(Statement):
    """DIFF SNAPSHOT after WITH before [ROWS | FEATURES]."""

    reads: ClassVar[bool] = True

    after: Name
    before: Name
    detail: _Detail

    def to_sql(self) -> str:
        detail = self.detail != "SUMMARY" and self.detail
        return print_statement(f"DIFF SNAPSHOT {print_name(self.after)} WITH {print_name(self.before)}", detail)


@dataclass(frozen=True, slots=True)
class Begin(Statement):
    """BEGIN | START TRANSACTION."""

    delimits: ClassVar[bool] = True

    def to_sql(self) -> str:
        return "BEGIN"


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """COMMIT | END [MESSAGE '…']."""

    delimits: ClassVar[bool] = True
    ends_transaction: ClassVar[bool] = True

    message: str | None

    def to_sql(self) -> str:
        return print_statement("COMMIT", print_message(self.message))


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """ROLLBACK | ABORT."""

    delimits: ClassVar[bool] = True
    ends_transaction: ClassVar[bool] = True

    def to_sql(self) -> str:
        return "ROLLBACK"


def _tag(tree: Tree, place: Place) -> CreateTag:
    at = first_tree(tree, "at")
    return CreateTag(
        *place,
        name=name(leaves(tree)[0]),
        at=None if at is None else bound(at),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _diff(tree: Tree, place: Place) -> DiffTable:
    start, *stop = (bound(end) for end in trees(tree, "bound"))
    return DiffTable(
        *place, table=name(leaves(tree)[0]), start=start, stop=stop[0] if stop else None, rows=has(tree, "rows")
    )


def _diff_graph(tree: Tree, place: Place) -> DiffGraph:
    start, *stop = (bound(end) for end in trees(tree, "bound"))
    graph = name(leaves(tree)[0])
    return DiffGraph(*place, graph=graph, start=start, stop=stop[0] if stop else None, detail=_detail(tree))


def _diff_snapshot(tree: Tree, place: Place) -> DiffSnapshot:
    after, before = leaves(tree)
    return DiffSnapshot(*place, after=name(after), before=name(before), detail=_detail(tree))


def _detail(tree: Tree) -> _Detail:
    return "ROWS" if has(tree, "rows") else "FEATURES" if has(tree, "features") else "SUMMARY"


def _print_ends(start: VersionBound, stop: VersionBound | None) -> tuple[str, str | None]:
    return f"FROM {start.kind} {start.value.text}", None if stop is None else f"TO {stop.kind} {stop.value.text}"


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the value in AT and the two ends of DIFF."""
    yield from at_values(tokens, pairs)
    if tokens[0].word == "DIFF" and not says(tokens, 1, "SNAPSHOT"):
        yield from _diff_fragments(tokens, pairs)


def _diff_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the values after VERSION, TIMESTAMP and TAG in both ends of DIFF TABLE and DIFF GRAPH."""
    last = {"ROWS"} if says(tokens, 1, "TABLE") else {"ROWS", "FEATURES"}
    stop = len(tokens) - 1 if tokens[-1].word in last else len(tokens)
    named = 4 if says(tokens, 1, "PROPERTY", "GRAPH") else 3
    starts = [index for index in top_level(tokens[:stop], pairs, named) if tokens[index].word in {"FROM", "TO"}]
    # Each end extends to the next one, because its value can be any expression.
    for start, end in zip(starts, [*starts, stop][1:], strict=True):
        yield Run("EXPRESSION", start + 2, end)


def _check(tokens: Sequence[Token]) -> None:
    if tokens[0].word in {"ABORT", "ROLLBACK"}:
        refuse_savepoint(tokens[1])


FAMILY = Family(
    grammar="versions",
    builders={
        "create_tag": _tag,
        "diff": _diff,
        "diff_graph": _diff_graph,
        "diff_snapshot": _diff_snapshot,
        "begin": lambda _, place: Begin(*place),
        "commit": lambda tree, place: Commit(*place, message=message(tree)),
        "rollback": lambda _, place: Rollback(*place),
    },
    fragments=_fragments,
    check=_check,
    names=qualified_names,
)
