"""Trees of cache.lark as CREATE CACHE and REFRESH CACHE."""

from __future__ import annotations

from snapdb.errors import ParseError
from snapdb.sql.ast import CacheRoom, CreateCache, RefreshCache, Statement
from snapdb.sql.build import Place, Tree, first_tree, has, leaves, name, span_of, string, trees
from snapdb.sql.sizes import UNITS, size


def build_cache(tree: Tree, place: Place) -> Statement:
    """CREATE CACHE or REFRESH CACHE."""
    (statement,) = trees(tree)
    first, *rest = leaves(statement)
    if statement.data == "refresh":
        return RefreshCache(*place, name=name(first), concurrently=has(statement, "concurrently"))
    return CreateCache(
        *place,
        name=name(first),
        sampler=name(rest[0]),
        room=_room(first_tree(statement, "room")),
        or_replace=has(statement, "replace"),
        if_not_exists=has(statement, "guard"),
    )


def _room(tree: Tree | None) -> CacheRoom | None:
    if tree is None:
        return None
    where, said = leaves(tree)
    if not (bytes_ := size(string(said))):
        raise ParseError(
            f"IN {where.upper()} takes a size above 0 such as '4GB', in {', '.join(UNITS)}; found {said[:40]}",
            span=span_of(said),
            code="bad-size",
        )
    return CacheRoom("FILE" if where.type == "FILE" else "MEMORY", bytes_, span_of(tree))
