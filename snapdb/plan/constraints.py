"""Constraints of tables: from the clauses of a definition to the columns with which they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapdb.catalog import Catalog
from snapdb.errors import BindError
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.names import find_column, find_table
from snapdb.plan.scope import BindContext
from snapdb.sql.constraints import ConstraintClause
from snapdb.sql.syntax import Name
from snapdb.sql_engine import quote
from snapdb.types import Column, Constraint, Table
from snapdb.types.text import counted

_SUFFIXES = {"PRIMARY KEY": "pkey", "UNIQUE": "key", "CHECK": "check", "FOREIGN KEY": "fkey"}
"""The last word of the name of a constraint without CONSTRAINT, as in PostgreSQL and DuckDB."""


def constrain(
    context: BindContext, table: Table, clauses: Sequence[ConstraintClause], checked: Sequence[Sequence[int]]
) -> tuple[Column, ...]:
    """Return a table's columns with more constraints.

    Args:
        context: The context of the statement.
        table: The table, whose columns have field ids.
        clauses: The constraints as written.
        checked: For each CHECK, the positions of the columns that its condition reads.

    Raises:
        BindError: A column or table does not exist, a name is used twice, or no key has the referenced columns.
    """
    reads = iter(checked)
    for clause in clauses:
        constraint = _constraint(context, table, clause, reads)
        first = constraint.fields[0] if constraint.fields else table.columns[0].field
        columns = tuple(
            replace(c, constraints=(*c.constraints, constraint)) if c.field == first else c for c in table.columns
        )
        table = replace(table, columns=columns)
    return table.columns


def _constraint(
    context: BindContext, table: Table, clause: ConstraintClause, checked: Iterator[Sequence[int]]
) -> Constraint:
    fields = tuple(find_column(table, name).field for name in clause.columns)
    if clause.kind == "PRIMARY KEY" and (key := primary_key(table)) is not None:
        raise BindError(
            f"table {table.name} already has the primary key {key.name}; write UNIQUE for another key",
            span=clause.span,
            code="constraint",
        )
    keys, expression = tuple[str, ...](), None
    if clause.expression is not None:
        check_repeatable(context.store.sql_engine, clause.expression, "a CHECK must hold at any time")
        fields, expression = tuple(table.columns[i].field for i in next(checked)), clause.expression.text.strip()
    if clause.table is not None:
        keys = _referenced(context, table, clause, clause.table, fields)
    name = _free_name(table, clause, fields)
    referenced = clause.table.text if clause.table is not None else None
    return Constraint(clause.kind, name, fields, expression, referenced, keys, clause.enforced)


def _free_name(table: Table, clause: ConstraintClause, fields: Sequence[int]) -> str:
    """Return the name in CONSTRAINT name, or one that is made of the table's name, the columns and the kind."""
    taken = {constraint.name.lower() for constraint in table.constraints}
    if clause.name is not None:
        if clause.name.text.lower() in taken:
            raise BindError(
                f'constraint "{clause.name}" already exists in table {table.name}; choose another name',
                span=clause.name.span,
                code="duplicate-name",
            )
        return clause.name.text
    names = {column.field: column.name for column in table.columns}
    base = "_".join([table.name, *(names[field] for field in fields), _SUFFIXES[clause.kind]])
    number = 0
    while f"{base}{number or ''}".lower() in taken:
        number += 1
    return f"{base}{number or ''}"


def _referenced(
    context: BindContext, table: Table, clause: ConstraintClause, name: Name, fields: Sequence[int]
) -> tuple[str, ...]:
    """Return the columns that a FOREIGN KEY references, which must be a key of their table."""
    itself = name.text.lower() == table.name.lower()
    parent = table if itself else find_table(context, name)
    primary = primary_key(parent)
    if not clause.keys and primary is None:
        raise BindError(
            f"table {parent.name} has no primary key; write the columns after REFERENCES {parent.name}",
            span=name.span,
            code="constraint",
        )
    keys = tuple(find_column(parent, key).name for key in clause.keys) or parent.names_of(primary)  # type: ignore[arg-type]
    if len(keys) != len(fields):
        raise BindError(
            f"{counted(len(fields), 'column')} cannot reference {counted(len(keys), 'column')} of {parent.name}; write "
            "as many as its key has",
            span=clause.span,
            code="constraint",
        )
    unique = [set(map(str.lower, parent.names_of(c))) for c in parent.constraints if c.is_unique and c.enforced]
    if clause.enforced and set(map(str.lower, keys)) not in unique:
        raise BindError(
            f"({', '.join(keys)}) is no PRIMARY KEY or UNIQUE key of {parent.name}; declare one, or write NOT ENFORCED",
            span=clause.span,
            code="constraint",
        )
    types = {column.name.lower(): column.type for column in parent.columns}
    own = {column.field: column for column in table.columns}
    for field, key in zip(fields, keys, strict=True):
        if own[field].type != types[key.lower()]:
            raise BindError(
                f"{own[field].name} has type {own[field].type}, but {parent.name}.{key} has type "
                f"{types[key.lower()]}; give both the same type",
                span=clause.span,
                code="constraint",
            )
    return keys


def primary_key(table: Table) -> Constraint | None:
    """Return the primary key of a table, or None."""
    return next((c for c in table.constraints if c.kind == "PRIMARY KEY"), None)


def referencing(catalog: Catalog, table: Table) -> list[tuple[Table, Constraint]]:
    """Return the foreign keys that reference a table, each with its own table."""
    folded = table.name.lower()
    return [
        (child, constraint)
        for child in catalog.tables.values()
        for constraint in child.constraints
        if constraint.table is not None and constraint.table.lower() == folded
    ]


def checked_constraints(catalog: Catalog, table: Table) -> list[Constraint]:
    """Return the constraints that writes to a table check: its own, and those of graphs with VALIDATE ON WRITE."""
    own = [constraint for constraint in table.constraints if constraint.enforced]
    return [*own, *_graph_constraints(catalog, table)]


def checked_references(catalog: Catalog, table: Table) -> list[tuple[Table, Constraint]]:
    """Return the constraints that reference a table and are checked, each with its own table."""
    found = [(child, constraint) for child, constraint in referencing(catalog, table) if constraint.enforced]
    for child in catalog.tables.values() if any(graph.validates for graph in catalog.graphs.values()) else ():
        for constraint in _graph_constraints(catalog, child):
            if constraint.table is not None and constraint.table.lower() == table.name.lower():
                found.append((child, constraint))
    return found


def _graph_constraints(catalog: Catalog, table: Table) -> Iterator[Constraint]:
    """Yield what graphs with VALIDATE ON WRITE require of a table: keys, and references of edges to vertices."""
    for graph in catalog.graphs.values() if table.columns else ():
        if not graph.validates:
            continue
        for vertex in graph.vertices:
            if vertex.table.lower() == table.name.lower():
                name = f"{graph.name}.{vertex.name}"
                yield from _required(table, name, vertex.key)
                if vertex.on_duplicate == "ERROR":
                    yield from _keyed(table, Constraint("UNIQUE", name, ()), vertex.key)
        for edge in graph.edges:
            if edge.table.lower() != table.name.lower() or edge.on_dangling != "ERROR":
                continue
            for key, end in ((edge.source_key, edge.source), (edge.destination_key, edge.destination)):
                vertex_type = graph.vertex(end)
                if vertex_type is not None and vertex_type.table.lower() in catalog.tables:
                    name = f"{graph.name}.{edge.name}"
                    yield from _required(table, name, key)
                    reference = Constraint("FOREIGN KEY", name, (), None, vertex_type.table, vertex_type.key)
                    yield from _keyed(table, reference, key)


def _required(table: Table, name: str, key: Sequence[str]) -> Iterator[Constraint]:
    condition = " AND ".join(f"{quote(column)} IS NOT NULL" for column in key)
    yield from _keyed(table, Constraint("CHECK", name, (), condition), key)


def _keyed(table: Table, constraint: Constraint, key: Sequence[str]) -> Iterator[Constraint]:
    """Yield a constraint with the columns of a key, unless the table no longer has them."""
    columns = [table.column(name) for name in key]
    fields = tuple(column.field for column in columns if column is not None)
    if len(fields) == len(columns):
        yield replace(constraint, fields=fields)


def check_unreferenced(catalog: Catalog, table: Table, name: Name, verb: str) -> None:
    """Raise BindError if a foreign key of another table references a table that is to be dropped."""
    for child, constraint in referencing(catalog, table):
        if child.id != table.id:
            raise BindError(
                f"table {table.name} is referenced by constraint {constraint.name} of {child.name}; drop {child.name} "
                f"first, then {verb} {table.name}",
                span=name.span,
                code="in-use",
            )


def check_unconstrained(catalog: Catalog, table: Table, column: Column, name: Name, verb: str) -> None:
    """Raise BindError if a constraint names a column that is to be dropped, or renamed if its name is stored."""
    for constraint in table.constraints:
        if column.field in constraint.fields and (verb == "drop" or constraint.expression is not None):
            raise _used(f'column "{column.name}" of {table.name} is used by constraint {constraint.name}', verb, name)
    for child, constraint in referencing(catalog, table):
        if column.name.lower() in map(str.lower, constraint.keys):
            what = f'column "{column.name}" of {table.name}'
            raise _used(f"{what} is referenced by constraint {constraint.name} of {child.name}", verb, name)


def _used(what: str, verb: str, name: Name) -> BindError:
    way = f"to {verb} it, write CREATE OR REPLACE TABLE without the constraint"
    return BindError(f"{what}; {way}", span=name.span, code="in-use")
