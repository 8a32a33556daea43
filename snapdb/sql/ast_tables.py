"""The statements that write tables, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Island, Name, Statement


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ( (column type …) | AS query )."""

    name: Name
    definition: Island | None
    """What stands between the parentheses: columns, types, NOT NULL."""
    query: Island | None
    or_replace: bool
    if_not_exists: bool
    message: str | None


@dataclass(frozen=True, slots=True)
class CopyFrom(Statement):
    """COPY name [(columns)] FROM 'path' [(option value, …)] [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    """Empty: by position, all of them."""
    path: str
    path_span: Span = field(compare=False)
    options: tuple[tuple[Name, str | bool | int | float], ...]
    """FORMAT, HEADER, DELIMITER, … as written; a bare option is True."""
    new_only: bool
    """NEW FILES ONLY stands among them."""
    message: str | None


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO name [(columns)] (query | VALUES …) [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    query: Island
    message: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One item of UPDATE … SET: column = value."""

    column: Name
    value: Island


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE name [[AS] alias] SET column = value, … [FROM others] [WHERE condition] [MESSAGE '…']."""

    table: Name
    alias: Name | None
    assignments: tuple[Assignment, ...]
    others: Island | None
    """What follows FROM: tables, subqueries and joins."""
    where: Island | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM name [[AS] alias] [USING others] [WHERE condition] [MESSAGE '…']."""

    table: Name
    alias: Name | None
    others: Island | None
    """What follows USING: tables, subqueries and joins."""
    where: Island | None
    message: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD [COLUMN] [IF NOT EXISTS] definition."""

    definition: Island
    """The column's name, its type and what else was said: NOT NULL, DEFAULT …"""
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP [COLUMN] [IF EXISTS] column."""

    column: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME [COLUMN] column TO new."""

    column: Name
    new: Name


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE [IF EXISTS] name ADD … | DROP … | RENAME … [MESSAGE '…']."""

    table: Name
    action: AddColumn | DropColumn | RenameColumn
    if_exists: bool
    message: str | None
