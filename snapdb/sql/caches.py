"""Caches of a sampler's rows: CREATE CACHE and REFRESH CACHE."""

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.printer import print_creation, print_name, print_size, print_statement, print_string
from snapdb.sql.syntax import (
    UNITS,
    Family,
    Name,
    Place,
    Statement,
    Tree,
    first_tree,
    has,
    leaves,
    name,
    size,
    span_of,
    string,
)


@dataclass(frozen=True, slots=True)
class _CacheRoom:
    """IN MEMORY 'size' | IN FILE 'size'."""

    where: Literal["MEMORY", "FILE"]
    bytes: int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateCache(Statement):
    """CREATE [OR REPLACE] CACHE [IF NOT EXISTS] name ON SAMPLER sampler [IN MEMORY '4GB' | IN FILE '4GB']."""

    name: Name
    sampler: Name
    room: _CacheRoom | None
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        return print_statement(
            print_creation("CACHE", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            f"ON SAMPLER {print_name(self.sampler)}",
            self.room and f"IN {self.room.where} {print_string(print_size(self.room.bytes))}",
        )


@dataclass(frozen=True, slots=True)
class RefreshCache(Statement):
    """REFRESH CACHE name [CONCURRENTLY]."""

    name: Name
    concurrently: bool

    def to_sql(self) -> str:
        return print_statement(f"REFRESH CACHE {print_name(self.name)}", self.concurrently and "CONCURRENTLY")


def _create(tree: Tree, place: Place) -> CreateCache:
    cache, sampler = leaves(tree)
    return CreateCache(
        *place,
        name=name(cache),
        sampler=name(sampler),
        room=_room(first_tree(tree, "room")),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _refresh(tree: Tree, place: Place) -> RefreshCache:
    (cache,) = leaves(tree)
    return RefreshCache(*place, name=name(cache), concurrently=has(tree, "concurrently"))


def _room(tree: Tree | None) -> _CacheRoom | None:
    if tree is None:
        return None
    where, size_leaf = leaves(tree)
    if not (bytes_ := size(string(size_leaf))):
        raise ParseError(
            f"the size of IN {where.upper()} must be above 0, such as '4GB' ({', '.join(UNITS)}), found "
            f"{size_leaf[:40]}",
            span=span_of(size_leaf),
            code="bad-size",
        )
    return _CacheRoom("FILE" if where.type == "FILE" else "MEMORY", bytes_, span_of(tree))


FAMILY = Family(grammar="caches", builders={"create": _create, "refresh": _refresh})
