"""Trees of table.lark as statements."""

from __future__ import annotations

from snapdb.sql.ast import CopyFrom, CreateTable, Delete, Insert, Island, Name, Statement
from snapdb.sql.build import (
    Place,
    Tree,
    columns,
    first_tree,
    has,
    integer,
    island,
    leaves,
    message,
    name,
    number,
    span_of,
    string,
    trees,
)

__all__ = ["build_table"]


def build_table(tree: Tree, place: Place) -> Statement:
    """CREATE TABLE, INSERT, DELETE or COPY."""
    (statement,) = trees(tree)
    match statement.data:
        case "create_table":
            return _create(statement, place)
        case "insert":
            return _insert(statement, place)
        case "delete":
            table = name(leaves(statement)[0])
            return Delete(*place, table=table, where=_part(statement, "condition"), message=message(statement))
        case _:
            return _copy(statement, place)


def _create(tree: Tree, place: Place) -> CreateTable:
    return CreateTable(
        *place,
        name=name(leaves(tree)[0]),
        definition=_part(tree, "definition"),
        query=_part(tree, "query"),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        message=message(tree),
    )


def _insert(tree: Tree, place: Place) -> Insert:
    query = _part(tree, "query")
    assert query is not None, "the grammar asks for one"
    return Insert(
        *place,
        table=name(leaves(tree)[0]),
        columns=columns(first_tree(tree, "columns")),
        query=query,
        message=message(tree),
    )


def _copy(tree: Tree, place: Place) -> CopyFrom:
    table, path = leaves(tree)
    options = first_tree(tree, "options")
    return CopyFrom(
        *place,
        table=name(table),
        columns=columns(first_tree(tree, "columns")),
        path=string(path),
        path_span=span_of(path),
        options=() if options is None else tuple(_option(option) for option in trees(options)),
        message=message(tree),
    )


def _option(tree: Tree) -> tuple[Name, str | bool | int | float]:
    """An option of COPY; one without a value is True."""
    label, *words = leaves(tree)
    numbers = trees(tree, "number")
    if numbers:
        whole = "".join(leaves(numbers[0])).lstrip("-").isdecimal()
        return name(label), integer(numbers[0], str(label)) if whole else number(numbers[0])
    if not words:
        return name(label), True
    (value,) = words
    if value.type == "STRING":
        return name(label), string(value)
    return name(label), {"true": True, "false": False}.get(value.lower(), name(value).text)


def _part(tree: Tree, rule: str) -> Island | None:
    """The island that a rule holds, if the statement has it."""
    part = first_tree(tree, rule)
    return None if part is None else island(leaves(part)[0])
