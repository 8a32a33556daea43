"""Introspection: SHOW, DESCRIBE, SUMMARIZE and DROP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from snapdb.sql.lexer import Token, at_values, qualified_names
from snapdb.sql.printer import print_at, print_name, print_named, print_statement, print_string
from snapdb.sql.queries import DESCRIBED
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
    name,
    string,
)
from snapdb.sql.unsupported import unknown_kind, unknown_show

Kind = Literal[
    "TABLE", "VIEW", "MACRO", "TYPE", "SEQUENCE", "SCHEMA", "GRAPH", "SNAPSHOT", "TAG", "SAMPLER", "CACHE", "TASK"
]
"""The kinds of objects that DROP accepts."""

_Described = Literal["TABLE", "VIEW", "GRAPH", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"]
"""The kinds of objects that DESCRIBE accepts."""

Shown = Literal[
    "TABLES",
    "VIEWS",
    "MACROS",
    "TYPES",
    "SEQUENCES",
    "SCHEMAS",
    "COLUMNS",
    "GRAPHS",
    "SNAPSHOTS",
    "SAMPLERS",
    "TAGS",
    "VERSIONS",
    "CACHES",
    "TASKS",
    "TASK RUNS",
    "PUBLICATIONS",
]
"""The lists that SHOW accepts."""


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW TABLES [AT (…)] | COLUMNS [OF t] | GRAPHS | SNAPSHOTS [OF g] | VERSIONS [OF t] | … [LIKE 'pattern']."""

    reads: ClassVar[bool] = True

    what: Shown
    like: str | None
    of: Name | None
    """The table, graph or task whose versions, columns, snapshots or runs are listed."""
    at: VersionBound | None
    """The version whose tables are listed."""

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

    reads: ClassVar[bool] = True

    kind: _Described | None
    """The kind, or None for any object with the name."""
    name: Name
    at: VersionBound | None
    """The version at which a table is described."""

    def to_sql(self) -> str:
        name = print_name(self.name)
        if self.kind is None and name.upper() in DESCRIBED:
            name = f'"{name}"'  # without quotes, it would be the kind of the object
        return print_statement("DESCRIBE", self.kind and _print_kind(self.kind), name, print_at(self.at))


@dataclass(frozen=True, slots=True)
class Summarize(Statement):
    """SUMMARIZE SNAPSHOT name."""

    reads: ClassVar[bool] = True

    name: Name

    def to_sql(self) -> str:
        return f"SUMMARIZE SNAPSHOT {print_name(self.name)}"


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP TABLE | VIEW | … | [PROPERTY] GRAPH | SNAPSHOT | … [IF EXISTS] name [CASCADE | RESTRICT]."""

    kind: Kind
    name: Name
    if_exists: bool
    cascade: bool

    def to_sql(self) -> str:
        guard = "IF EXISTS " if self.if_exists else ""
        return print_statement(
            f"DROP {_print_kind(self.kind)} {guard}{print_name(self.name)}", self.cascade and "CASCADE"
        )


def _show(tree: Tree, place: Place) -> Show:
    at, like, of = (first_tree(tree, rule) for rule in ("at", "like", "of"))
    return Show(
        *place,
        what=cast(Shown, " ".join(leaf.type for leaf in leaves(tree))),
        like=None if like is None else string(leaves(like)[0]),
        of=None if of is None else name(leaves(of)[0]),
        at=None if at is None else bound(at),
    )


def _describe(tree: Tree, place: Place) -> Describe:
    first, *rest = leaves(tree)
    at = first_tree(tree, "at")
    return Describe(
        *place,
        kind=cast(_Described, first.type) if rest else None,
        name=name(rest[0] if rest else first),
        at=None if at is None else bound(at),
    )


def _drop(tree: Tree, place: Place) -> Drop:
    kind, thing, *behaviour = leaves(tree)
    cascade = any(leaf.type == "CASCADE" for leaf in behaviour)
    word = "MACRO" if kind.type == "FUNCTION" else kind.type
    return Drop(*place, cast(Kind, word), name(thing), has(tree, "guard"), cascade)


def _print_kind(word: str) -> str:
    return f"PROPERTY {word}" if word in ("GRAPH", "GRAPHS") else word


_DROPPED = DESCRIBED | {"TAG", "MACRO", "FUNCTION", "TYPE", "SEQUENCE", "SCHEMA"}

_SHOWN = (
    "TABLES",
    "VIEWS",
    "MACROS",
    "TYPES",
    "SEQUENCES",
    "SCHEMAS",
    "COLUMNS",
    "GRAPHS",
    "PROPERTY GRAPHS",
    "SNAPSHOTS",
    "SAMPLERS",
    "TAGS",
    "VERSIONS",
    "CACHES",
    "TASKS",
    "TASK RUNS",
    "PUBLICATIONS",
)

_SHOWN_FIRST = frozenset(words.split()[0] for words in _SHOWN)


def _check(tokens: Sequence[Token]) -> None:
    if tokens[0].word == "DROP" and tokens[1].word not in _DROPPED:
        raise unknown_kind("DROP", tokens[1])
    if tokens[0].word == "SHOW" and tokens[1].word not in _SHOWN_FIRST:
        raise unknown_show(tokens, _SHOWN)


FAMILY = Family(
    grammar="show",
    builders={
        "show": _show,
        "describe": _describe,
        "summarize": lambda tree, place: Summarize(*place, name=name(leaves(tree)[0])),
        "drop": _drop,
    },
    fragments=at_values,
    check=_check,
    names=qualified_names,
)
