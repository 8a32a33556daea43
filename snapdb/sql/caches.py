"""CREATE CACHE and REFRESH CACHE: caches of the edge or feature rows that a sampler reads."""

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.printer import print_creation, print_name, print_size, print_statement, print_string
from snapdb.sql.syntax import (
    UNITS,
    Family,
    Leaf,
    Name,
    Place,
    Spanned,
    Statement,
    Tree,
    has,
    leaves,
    name,
    once,
    only_option,
    size,
    span_of,
    string,
    trees,
)


@dataclass(frozen=True, slots=True)
class _CacheRoom:
    """IN MEMORY 'size' | IN FILE 'size'."""

    where: Literal["MEMORY", "FILE"]
    bytes: int
    span: Span = field(compare=False)


When = Literal["needed", "always"]
"""When a feature cache is used: only if the features do not fit in memory, or always."""


@dataclass(frozen=True, slots=True)
class CreateCache(Statement):
    """CREATE [OR REPLACE] CACHE [IF NOT EXISTS] name ON SAMPLER sampler [IN MEMORY '4GB' | IN FILE '4GB'].

    With FEATURES, SPILL ['4GB'] and WITH (when = 'always') may follow.
    """

    name: Name
    sampler: Name
    features: Spanned[bool] | None
    """FEATURES, or None for an edge cache."""
    room: _CacheRoom | None
    spill: Spanned[int | None] | None
    """The size of SPILL in bytes, as a `Spanned` None if it has no size. None without SPILL."""
    when: When | None
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        return print_statement(
            print_creation("CACHE", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            f"ON SAMPLER {print_name(self.sampler)}",
            self.features is not None and "FEATURES",
            self.room and f"IN {self.room.where} {print_string(print_size(self.room.bytes))}",
            self.spill
            and f"SPILL{'' if self.spill.value is None else ' ' + print_string(print_size(self.spill.value))}",
            self.when and f"WITH (when = {print_string(self.when)})",
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
    clauses = once(clause for clause in trees(tree) if clause.data in ("features", "room", "spill", "options"))
    features = clauses.get("features")
    return CreateCache(
        *place,
        name=name(cache),
        sampler=name(sampler),
        features=None if features is None else Spanned(True, span_of(features)),
        room=_room(clauses.get("room")),
        spill=_spill(clauses.get("spill"), of_features=features is not None),
        when=_when(clauses.get("options"), of_features=features is not None),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _refresh(tree: Tree, place: Place) -> RefreshCache:
    (cache,) = leaves(tree)
    return RefreshCache(*place, name=name(cache), concurrently=has(tree, "concurrently"))


def _spill(tree: Tree | None, *, of_features: bool) -> Spanned[int | None] | None:
    if tree is None:
        return None
    if not of_features:
        raise ParseError(
            "SPILL is supported only for feature caches; add FEATURES, or write IN FILE for an edge cache on disk",
            span=span_of(tree),
            code="unexpected-word",
        )
    given = leaves(tree)
    return Spanned(_bytes(given[0], "SPILL") if given else None, span_of(tree))


def _when(tree: Tree | None, *, of_features: bool) -> When | None:
    """Return the value of `when`, the only option of WITH, or None without WITH."""
    if tree is None:
        return None
    if not of_features:
        raise ParseError(
            "WITH is supported only for feature caches; add FEATURES, or remove WITH",
            span=span_of(tree),
            code="unknown-option",
        )
    return only_option(tree, "when", _when_value)


def _when_value(leaf: Leaf) -> When:
    if (when := _WHEN.get(string(leaf).lower())) is None:
        raise ParseError(
            f"when must be 'needed' or 'always', found {leaf[:40]}", span=span_of(leaf), code="unknown-option"
        )
    return when


_WHEN: dict[str, When] = {"needed": "needed", "always": "always"}


def _room(tree: Tree | None) -> _CacheRoom | None:
    if tree is None:
        return None
    where, size_leaf = leaves(tree)
    size_ = _bytes(size_leaf, f"IN {where.upper()}")
    return _CacheRoom("FILE" if where.type == "FILE" else "MEMORY", size_, span_of(tree))


def _bytes(leaf: Leaf, clause: str) -> int:
    if not (bytes_ := size(string(leaf))):
        raise ParseError(
            f"the size of {clause} must be above 0, such as '4GB' ({', '.join(UNITS)}), found {leaf[:40]}",
            span=span_of(leaf),
            code="bad-size",
        )
    return bytes_


FAMILY = Family(grammar="caches", builders={"create": _create, "refresh": _refresh})
