"""Trees of table.lark as statements."""

from __future__ import annotations

from collections.abc import Callable

from snapdb.sql.ast import (
    AddColumn,
    AlterTable,
    Assignment,
    CreateTable,
    Delete,
    DropColumn,
    Insert,
    Island,
    Name,
    RenameColumn,
    Statement,
    Update,
)
from snapdb.sql.build import (
    Place,
    Tree,
    columns,
    first_tree,
    has,
    island,
    leaves,
    message,
    name,
    part,
    trees,
)


def build_table(tree: Tree, place: Place) -> Statement:
    """CREATE TABLE, INSERT, UPDATE, DELETE or ALTER TABLE."""
    (statement,) = trees(tree)
    return _BUILDERS[str(statement.data)](statement, place)


def _create(tree: Tree, place: Place) -> CreateTable:
    return CreateTable(
        *place,
        name=name(leaves(tree)[0]),
        definition=part(tree, "definition"),
        query=part(tree, "query"),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        message=message(tree),
    )


def _insert(tree: Tree, place: Place) -> Insert:
    return Insert(
        *place,
        table=name(leaves(tree)[0]),
        columns=columns(first_tree(tree, "columns")),
        query=_required(tree, "query"),
        message=message(tree),
    )


def _update(tree: Tree, place: Place) -> Update:
    return Update(
        *place,
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        assignments=tuple(_assignment(item) for item in trees(tree, "assignment")),
        others=part(tree, "from"),
        where=part(tree, "condition"),
        message=message(tree),
    )


def _assignment(tree: Tree) -> Assignment:
    column, value = leaves(tree)
    return Assignment(name(column), island(value))


def _delete(tree: Tree, place: Place) -> Delete:
    return Delete(
        *place,
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        others=part(tree, "using"),
        where=part(tree, "condition"),
        message=message(tree),
    )


def _alias(tree: Tree) -> Name | None:
    alias = first_tree(tree, "alias")
    return None if alias is None else name(leaves(alias)[0])


def _alter(tree: Tree, place: Place) -> AlterTable:
    (change,) = (child for child in trees(tree) if child.data in ("add", "drop", "rename"))
    return AlterTable(
        *place,
        table=name(leaves(tree)[0]),
        action=_change(change),
        if_exists=has(tree, "if_exists"),
        message=message(tree),
    )


def _change(tree: Tree) -> AddColumn | DropColumn | RenameColumn:
    first, *rest = leaves(tree)
    match tree.data:
        case "add":
            return AddColumn(island(first), if_not_exists=has(tree, "guard"))
        case "drop":
            return DropColumn(name(first), if_exists=has(tree, "if_exists"))
        case _:
            return RenameColumn(name(first), name(rest[0]))


def _required(tree: Tree, rule: str) -> Island:
    found = part(tree, rule)
    assert found is not None, "the grammar asks for one"
    return found


_BUILDERS: dict[str, Callable[[Tree, Place], Statement]] = {
    "create_table": _create,
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "alter": _alter,
}
