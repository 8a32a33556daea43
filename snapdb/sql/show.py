"""What there is: SHOW, DESCRIBE, SUMMARIZE and DROP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from snapdb.sql.printer import print_at, print_name, print_named, print_statement, print_string
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
    name,
    string,
    trees,
)

Kind = Literal["TABLE", "GRAPH", "SNAPSHOT", "TAG", "SAMPLER", "CACHE", "TASK"]
"""What DROP takes; a TAG has nothing to describe."""


Described = Literal["TABLE", "GRAPH", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"]
"""What DESCRIBE takes."""


Shown = Literal[
    "TABLES", "COLUMNS", "GRAPHS", "SNAPSHOTS", "SAMPLERS", "TAGS", "VERSIONS", "CACHES", "TASKS", "TASK RUNS"
]
"""What SHOW takes."""


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW TABLES [AT (…)] | COLUMNS [OF t] | GRAPHS | SNAPSHOTS [OF g] | VERSIONS [OF t] | … [LIKE 'pattern']."""

    what: Shown
    like: str | None
    of: Name | None
    """The table whose versions or columns, the graph whose snapshots, or the task whose runs are asked for."""
    at: VersionBound | None
    """The version whose tables are asked for."""

    def to_sql(self) -> str:
        return print_statement(
            f"SHOW {_print_kind(self.what)}",
            print_at(self.at),
            print_named("OF", self.of),
            self.like is not None and f"LIKE {print_string(self.like)}",
        )


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE TABLE name [AT (…)] | [PROPERTY] GRAPH name | SNAPSHOT name | … | name."""

    kind: Described | None
    """None: whatever has the name."""
    name: Name
    at: VersionBound | None
    """The version at which a table is described."""

    def to_sql(self) -> str:
        return print_statement(
            "DESCRIBE", self.kind and _print_kind(self.kind), print_name(self.name), print_at(self.at)
        )


@dataclass(frozen=True, slots=True)
class Summarize(Statement):
    """SUMMARIZE SNAPSHOT name."""

    name: Name

    def to_sql(self) -> str:
        return f"SUMMARIZE SNAPSHOT {print_name(self.name)}"


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP TABLE | [PROPERTY] GRAPH | SNAPSHOT | TAG | SAMPLER | CACHE | TASK [IF EXISTS] name [CASCADE | RESTRICT]."""

    kind: Kind
    name: Name
    if_exists: bool
    cascade: bool

    def to_sql(self) -> str:
        guard = "IF EXISTS " if self.if_exists else ""
        return print_statement(
            f"DROP {_print_kind(self.kind)} {guard}{print_name(self.name)}", self.cascade and "CASCADE"
        )


def build_show(tree: Tree, place: Place) -> Statement:
    """SHOW, DESCRIBE, SUMMARIZE or DROP; the grammar's terminals are the kinds that they take."""
    (statement,) = trees(tree)
    first, *rest = leaves(statement)
    match statement.data:
        case "show":
            return _show(statement, place)
        case "describe":
            kind = cast(Described, first.type) if rest else None
            at = first_tree(statement, "at")
            moment = None if at is None else bound(at)
            return Describe(*place, kind=kind, name=name(rest[0] if rest else first), at=moment)
        case "summarize":
            return Summarize(*place, name=name(first))
        case _:
            cascade = any(leaf.type == "CASCADE" for leaf in rest[1:])
            return Drop(*place, cast(Kind, first.type), name(rest[0]), has(statement, "guard"), cascade)


def _show(tree: Tree, place: Place) -> Show:
    at, like, of = (first_tree(tree, rule) for rule in ("at", "like", "of"))
    return Show(
        *place,
        what=cast(Shown, " ".join(leaf.type for leaf in leaves(tree))),
        like=None if like is None else string(leaves(like)[0]),
        of=None if of is None else name(leaves(of)[0]),
        at=None if at is None else bound(at),
    )


def _print_kind(word: str) -> str:
    """What a statement names, in full."""
    return f"PROPERTY {word}" if word in ("GRAPH", "GRAPHS") else word
