"""Versions: tags, differences between two versions, transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.sql.maintenance import BackupDatabase, CheckDatabase, Vacuum
from snapdb.sql.printer import print_at, print_creation, print_message, print_name, print_statement
from snapdb.sql.syntax import (
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
    part,
    span_of,
    string,
    trees,
)

Detail = Literal["SUMMARY", "ROWS", "FEATURES"]
"""What a difference between graphs lists: elements, rows, or parts of features."""


@dataclass(frozen=True, slots=True)
class CreateTag(Statement):
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] name [AT (…)]."""

    name: Name
    at: VersionBound | None
    """None: the newest version."""
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        return print_statement(
            print_creation("TAG", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            print_at(self.at),
        )


@dataclass(frozen=True, slots=True)
class DiffTable(Statement):
    """DIFF TABLE name FROM bound [TO bound] [ROWS], a bound being VERSION n, TIMESTAMP '…' or TAG 'name'."""

    table: Name
    start: VersionBound
    stop: VersionBound | None
    """None: the newest version."""
    rows: bool

    def to_sql(self) -> str:
        return print_statement(
            f"DIFF TABLE {print_name(self.table)}", *_print_ends(self.start, self.stop), self.rows and "ROWS"
        )


@dataclass(frozen=True, slots=True)
class DiffGraph(Statement):
    """DIFF [PROPERTY] GRAPH name FROM bound [TO bound] [ROWS | FEATURES]."""

    graph: Name
    start: VersionBound
    stop: VersionBound | None
    """None: the newest version."""
    detail: Detail

    def to_sql(self) -> str:
        detail = self.detail != "SUMMARY" and self.detail
        return print_statement(
            f"DIFF PROPERTY GRAPH {print_name(self.graph)}", *_print_ends(self.start, self.stop), detail
        )


@dataclass(frozen=True, slots=True)
class DiffSnapshot(Statement):
    """DIFF SNAPSHOT after WITH before [ROWS | FEATURES]."""

    after: Name
    before: Name
    detail: Detail

    def to_sql(self) -> str:
        detail = self.detail != "SUMMARY" and self.detail
        return print_statement(f"DIFF SNAPSHOT {print_name(self.after)} WITH {print_name(self.before)}", detail)


@dataclass(frozen=True, slots=True)
class Begin(Statement):
    """BEGIN | START TRANSACTION."""

    def to_sql(self) -> str:
        return "BEGIN"


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """COMMIT | END [MESSAGE '…']."""

    message: str | None

    def to_sql(self) -> str:
        return print_statement("COMMIT", print_message(self.message))


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """ROLLBACK | ABORT."""

    def to_sql(self) -> str:
        return "ROLLBACK"


def build_version(tree: Tree, place: Place) -> Statement:
    """CREATE TAG, DIFF, CHECK DATABASE, BACKUP DATABASE, VACUUM, BEGIN, COMMIT or ROLLBACK."""
    (statement,) = trees(tree)
    match statement.data:
        case "create_tag":
            return _tag(statement, place)
        case "diff":
            return _diff(statement, place)
        case "diff_graph":
            return _diff_graph(statement, place)
        case "diff_snapshot":
            after, before = leaves(statement)
            return DiffSnapshot(*place, after=name(after), before=name(before), detail=_detail(statement))
        case "check":
            return CheckDatabase(*place)
        case "backup":
            (path,) = leaves(statement)
            return BackupDatabase(*place, string(path), span_of(path), copies=has(statement, "copies"))
        case "vacuum":
            table = [name(leaf) for leaf in leaves(statement)]
            kept, dry_run = part(statement, "retain"), has(statement, "dry_run")
            return Vacuum(*place, table=table[0] if table else None, retain=kept, dry_run=dry_run)
        case "begin":
            return Begin(*place)
        case "commit":
            return Commit(*place, message=message(statement))
        case _:
            return Rollback(*place)


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
        *place,
        table=name(leaves(tree)[0]),
        start=start,
        stop=stop[0] if stop else None,
        rows=has(tree, "rows"),
    )


def _diff_graph(tree: Tree, place: Place) -> DiffGraph:
    start, *stop = (bound(end) for end in trees(tree, "bound"))
    graph = name(leaves(tree)[0])
    return DiffGraph(*place, graph=graph, start=start, stop=stop[0] if stop else None, detail=_detail(tree))


def _detail(tree: Tree) -> Detail:
    return "ROWS" if has(tree, "rows") else "FEATURES" if has(tree, "features") else "SUMMARY"


def _print_ends(start: VersionBound, stop: VersionBound | None) -> tuple[str, str | None]:
    return f"FROM {start.kind} {start.value.text}", None if stop is None else f"TO {stop.kind} {stop.value.text}"
