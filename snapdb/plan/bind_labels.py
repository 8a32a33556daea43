"""Labels and properties of an element: what its clauses say, as what a snapshot shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from snapdb.errors import BindError
from snapdb.plan.names import find_column
from snapdb.sql.ast import EdgeClause, LabelClause, Name, PropertiesClause, VertexClause
from snapdb.types import EdgeElement, Properties, Property, Table, VertexElement


def bind_labels(clause: VertexClause | EdgeClause) -> tuple[str, ...]:
    """The names of an element's labels; empty where none is said, and its own name stands for one."""
    own = clause.alias or clause.table
    found: list[str] = []
    for label in clause.labels:
        name = (label.name or own).text
        if name.lower() in {before.lower() for before in found}:
            raise BindError(f'{own} has the label "{name}" twice; keep one', span=label.span, code="duplicate-name")
        found.append(name)
    return tuple(found)


def bind_properties(table: Table, clause: VertexClause | EdgeClause) -> Properties | None:
    """What an element and its labels say that it shows, together; None: all columns."""
    said = [p for p in (clause.properties, *(label.properties for label in clause.labels)) if p is not None]
    if not said:
        return None
    named = _named(table, said, edge=isinstance(clause, EdgeClause))
    excepted = [{find_column(table, name).name for name in p.excepted} for p in said if p.all]
    if clause.properties is None and _silent(clause.labels):
        excepted.append(set())  # a label that says nothing has all columns
    if not excepted:
        return Properties(named)
    hidden = set.intersection(*excepted)
    if not hidden and not named:
        return None
    return Properties(named, tuple(c.name for c in table.columns if c.name in hidden))


def _silent(labels: Sequence[LabelClause]) -> bool:
    return any(label.properties is None for label in labels)


def _named(table: Table, said: Sequence[PropertiesClause], *, edge: bool) -> tuple[Property, ...]:
    """The columns that are listed, each once; BindError where two of them get one name."""
    found: dict[str, Property] = {}
    for item in (item for properties in said for item in properties.columns):
        column, name = find_column(table, item.column).name, item.name or item.column
        if edge and name.text.lower() == "e_id":
            raise BindError(
                "a property cannot be called e_id, a name that snapshots need; give it another with AS",
                span=name.span,
                code="reserved-name",
            )
        before = found.setdefault(name.text.lower(), Property(column, column if item.name is None else name.text))
        if before.column != column:
            raise _taken(name, before.column, column)
    return tuple(found.values())


def check_shown(element: VertexElement | EdgeElement, table: Table, clause: VertexClause | EdgeClause) -> None:
    """Nothing when no property has the name of another column that is shown."""
    if element.properties is None:
        return
    columns, plain = [c.name for c in table.columns], replace(element.properties, named=())
    owners = {name.lower(): column for column, name in plain.shown(columns, element.needed)}
    said = [p for p in (clause.properties, *(label.properties for label in clause.labels)) if p is not None]
    for item in (item for properties in said for item in properties.columns):
        column, name = find_column(table, item.column).name, item.name or item.column
        if owners.get(name.text.lower(), column) != column:
            raise _taken(name, owners[name.text.lower()], column)


def _taken(name: Name, before: str, column: str) -> BindError:
    message = f'two properties are called "{name}": {before} and {column}; give one another name with AS'
    return BindError(message, span=name.span, code="duplicate-name")
