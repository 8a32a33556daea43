"""The plans of statements that write tables, and their EXPLAIN output."""

from dataclasses import dataclass
from typing import ClassVar

from snapdb.plan.input_files import NewFiles
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.plan.queries import BoundQuery
from snapdb.plan.tables.conflicts import Conflict
from snapdb.plan.tables.returning import Returning, describe_returning
from snapdb.sql.tables import MergeClause
from snapdb.types import Column, Constraint, Table


@dataclass(frozen=True, slots=True)
class CreateTablePlan(Plan):
    """CREATE TABLE: create an empty table, or a table with the rows of a query."""

    transactional: ClassVar[bool] = True

    name: str
    columns: tuple[Column, ...]
    query: BoundQuery | None
    replaces: Table | None
    base: int
    """The version that the query reads."""
    message: str | None
    copies: tuple[str, ...] = ()
    """Parquet files in segment format that contain exactly these rows. They are copied instead of rewritten."""

    def source(self) -> BoundQuery | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        below = () if self.query is None else (_describe_source(self.query, self.copies),)
        return PlanNode("CreateTable", f"{self.name} ({columns})", below)


@dataclass(frozen=True, slots=True)
class InsertPlan(Plan):
    """INSERT and COPY … FROM: append the rows of a query as a segment."""

    transactional: ClassVar[bool] = True

    table: Table
    supplied: tuple[str, ...]
    """The columns to which the query's columns are assigned, in the query's order."""
    query: BoundQuery
    message: str | None
    copies: tuple[str, ...] = ()
    """Parquet files to copy, as in CreateTablePlan."""
    new: NewFiles | None = None
    """The files that COPY with NEW FILES ONLY reads and records as loaded, or None for other statements."""
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""
    conflict: Conflict | None = None
    """What happens to rows whose key exists, or None to refuse them."""

    def source(self) -> BoundQuery | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        detail = f"into {self.table.name} ({', '.join(self.supplied)})"
        detail += _describe_conflict(self.conflict) + describe_returning(self.returning)
        if self.new is None:
            return PlanNode("Insert", detail, (_describe_source(self.query, self.copies),))
        files = PlanNode("CopyFiles" if self.copies else "ReadFiles", f"new ones: {', '.join(self.new.names)}")
        return PlanNode("Insert", detail + self.new.notes(), (files,))


@dataclass(frozen=True, slots=True)
class DeletePlan(Plan):
    """DELETE: create a version without the rows that a query selects."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query that selects the row ids, SELECT row_id."""
    base: int
    message: str | None
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        detail = f"from {self.table.name}{describe_returning(self.returning)}"
        return PlanNode("Delete", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class UpdatePlan(Plan):
    """UPDATE: replace the rows selected by a query with rows that have new values."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query that selects the row ids, named ROW_ID, and all table columns with their new values."""
    base: int
    message: str | None
    changed: frozenset[str]
    """The columns with new values."""
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        detail = f"{self.table.name}{describe_returning(self.returning)}"
        return PlanNode("Update", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class MergePlan(Plan):
    """MERGE: insert, update and delete the rows that a query returns with their actions."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query of the actions, the row ids, named ROW_ID, and all table columns with their new values."""
    base: int
    message: str | None
    clauses: tuple[MergeClause, ...]
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        clauses = ", ".join(f"when {clause.rows.lower()} {clause.action.lower()}" for clause in self.clauses)
        detail = f"into {self.table.name}: {clauses}{describe_returning(self.returning)}"
        return PlanNode("Merge", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class AlterPlan(Plan):
    """ALTER TABLE: change a table's columns from the next version on. No file is rewritten."""

    transactional: ClassVar[bool] = True

    table: Table
    columns: tuple[Column, ...]
    did: str
    """A description of the change for the user."""
    base: int
    message: str | None
    added: Constraint | None = None
    """A new constraint, which the existing rows must not violate."""
    required: tuple[Column, ...] = ()
    """The columns that become NOT NULL, in which no existing row may have NULL."""

    def describe(self) -> PlanNode:
        return PlanNode("AlterTable", f"{self.table.name}: {self.did}")


def _describe_source(query: BoundQuery, copies: tuple[str, ...]) -> PlanNode:
    return PlanNode("CopyFiles", ", ".join(copies)) if copies else describe_query(query)


def _describe_conflict(conflict: Conflict | None) -> str:
    if conflict is None:
        return ""
    keys = " or ".join(f"({', '.join(key)})" for key in conflict.keys)
    return f", on conflict of {keys} {'do nothing' if conflict.values is None else 'update'}"


def _describe_search(find: BoundQuery) -> PlanNode:
    parts = (find.text[piece.start : piece.stop].split() for piece in find.pieces)
    return PlanNode("Find", ", ".join(" ".join(part) for part in parts if part) or "every row")
