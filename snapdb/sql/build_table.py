"""Trees of table.lark as statements."""

from __future__ import annotations

from snapdb.errors import ParseError, SnapdbError
from snapdb.sql.ast import CopyFrom, CreateTable, Delete, Insert, Island, Name, Statement
from snapdb.sql.build import Leaf, Place, Tree, columns, has, integer, island, leaves, message, name, number, only
from snapdb.sql.build import string, trees

__all__ = ["build_table"]


def build_table(tree: Tree, place: Place) -> Statement:
    """CREATE TABLE, INSERT, DELETE or COPY."""
    (statement,) = trees(tree)
    match statement.data:
        case "create_table":
            return _create(statement, place)
        case "insert":
            query = _island(statement, "query")
            assert query is not None, "the grammar asks for one"
            target = name(leaves(statement)[0])
            return Insert(*place, target, columns(only(statement, "columns")), query, message(statement))
        case "delete":
            target = name(leaves(statement)[0])
            return Delete(*place, target, _island(statement, "condition"), message(statement))
        case _:
            return _copy(statement, place)


def _create(tree: Tree, place: Place) -> CreateTable:
    return CreateTable(
        *place,
        name=name(leaves(tree)[0]),
        definition=_island(tree, "definition"),
        query=_island(tree, "query"),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        message=message(tree),
    )


def _copy(tree: Tree, place: Place) -> CopyFrom:
    target, path = leaves(tree)
    options = only(tree, "options")
    return CopyFrom(
        *place,
        table=name(target),
        columns=columns(only(tree, "columns")),
        path=string(path),
        path_span=island(path).span,
        options=() if options is None else tuple(_option(option) for option in trees(options, "option")),
        message=message(tree),
    )
