"""Statements that write tables as text."""

from __future__ import annotations

from snapdb.sql.ast import (
    AddColumn,
    AlterTable,
    CreateTable,
    Delete,
    DropColumn,
    Insert,
    RenameColumn,
    Update,
)
from snapdb.sql.print_parts import clauses, creation, listed, message, name, named, said, statement


def print_create_table(tree: CreateTable) -> str:
    """CREATE TABLE."""
    return statement(
        creation("TABLE", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists),
        tree.definition and f"({tree.definition.text})",
        said("AS", tree.query),
        message(tree.message),
    )


def print_insert(tree: Insert) -> str:
    """INSERT."""
    table = clauses(name(tree.table), bool(tree.columns) and listed(tree.columns))
    return statement(f"INSERT INTO {table}", tree.query.text, message(tree.message))


def print_update(tree: Update) -> str:
    """UPDATE."""
    values = ", ".join(f"{name(item.column)} = {item.value.text}" for item in tree.assignments)
    return statement(
        f"UPDATE {name(tree.table)}",
        named("AS", tree.alias),
        f"SET {values}",
        said("FROM", tree.others),
        said("WHERE", tree.where),
        message(tree.message),
    )


def print_delete(tree: Delete) -> str:
    """DELETE."""
    return statement(
        f"DELETE FROM {name(tree.table)}",
        named("AS", tree.alias),
        said("USING", tree.others),
        said("WHERE", tree.where),
        message(tree.message),
    )


def print_alter_table(tree: AlterTable) -> str:
    """ALTER TABLE."""
    guard = "IF EXISTS " if tree.if_exists else ""
    return statement(f"ALTER TABLE {guard}{name(tree.table)}", _change(tree.action), message(tree.message))


def _change(action: AddColumn | DropColumn | RenameColumn) -> str:
    match action:
        case AddColumn(definition, if_not_exists):
            return f"ADD COLUMN {'IF NOT EXISTS ' * if_not_exists}{definition.text}"
        case DropColumn(column, if_exists):
            return f"DROP COLUMN {'IF EXISTS ' * if_exists}{name(column)}"
        case RenameColumn(column, new):
            return f"RENAME COLUMN {name(column)} TO {name(new)}"
