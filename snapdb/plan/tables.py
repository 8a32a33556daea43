"""Tables: CREATE TABLE, INSERT, COPY FROM, DELETE, UPDATE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from snapdb.plan.asked import Asked
from snapdb.plan.new_files import NewFiles
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.types import Column, Table


@dataclass(frozen=True, slots=True)
class CreateTablePlan(Plan):
    """A new table, empty or with a query's rows."""

    transactional: ClassVar[bool] = True

    name: str
    columns: tuple[Column, ...]
    query: Asked | None
    replaces: Table | None
    base: int
    """The version that the query reads."""
    message: str | None
    copies: tuple[str, ...] = ()
    """Parquet files that hold just these rows in the form of a segment: to be copied, not rewritten."""

    def source(self) -> Asked | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        below = () if self.query is None else (_describe_source(self.query, self.copies),)
        return PlanNode("CreateTable", f"{self.name} ({columns})", below)


@dataclass(frozen=True, slots=True)
class InsertPlan(Plan):
    """A query's rows become a segment."""

    transactional: ClassVar[bool] = True

    table: Table
    supplied: tuple[str, ...]
    """The columns that the query's columns stand for, in its order."""
    query: Asked
    message: str | None
    copies: tuple[str, ...] = ()
    """As in CreateTablePlan."""
    new: NewFiles | None = None
    """The files that the query reads, where COPY takes new ones only: they are to be remembered."""

    def source(self) -> Asked | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        detail = f"into {self.table.name} ({', '.join(self.supplied)})"
        if self.new is None:
            return PlanNode("Insert", detail, (_describe_source(self.query, self.copies),))
        files = PlanNode("CopyFiles" if self.copies else "ReadFiles", f"new ones: {', '.join(self.new.names)}")
        return PlanNode("Insert", detail + self.new.notes(), (files,))


@dataclass(frozen=True, slots=True)
class DeletePlan(Plan):
    """The rows that a query finds are gone from the next version on."""

    transactional: ClassVar[bool] = True

    table: Table
    find: Asked
    """SELECT row_id."""
    base: int
    message: str | None

    def source(self) -> Asked | None:
        return self.find

    def describe(self) -> PlanNode:
        return PlanNode("Delete", f"from {self.table.name}", (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class UpdatePlan(Plan):
    """The rows that a query finds are gone, and come back with other values."""

    transactional: ClassVar[bool] = True

    table: Table
    find: Asked
    """SELECT the row id, called ROW_ID, and the table's columns with their new values."""
    base: int
    message: str | None
    changed: frozenset[str]
    """The columns that get new values."""

    def source(self) -> Asked | None:
        return self.find

    def describe(self) -> PlanNode:
        return PlanNode("Update", self.table.name, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class AlterPlan(Plan):
    """A table has other columns from the next version on; no file is rewritten."""

    transactional: ClassVar[bool] = True

    table: Table
    columns: tuple[Column, ...]
    did: str
    """What happens, for a person."""
    base: int
    message: str | None

    def describe(self) -> PlanNode:
        return PlanNode("AlterTable", f"{self.table.name}: {self.did}")


def _describe_source(query: Asked, copies: tuple[str, ...]) -> PlanNode:
    """Where rows come from: files that are copied as they are, or a query."""
    return PlanNode("CopyFiles", ", ".join(copies)) if copies else describe_query(query)


def _describe_search(find: Asked) -> PlanNode:
    """A query that we composed, by the parts of it that the user wrote."""
    parts = (find.text[piece.start : piece.stop].split() for piece in find.pieces)
    return PlanNode("Find", ", ".join(" ".join(part) for part in parts if part) or "every row")
