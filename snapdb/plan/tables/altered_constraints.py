"""ALTER TABLE … ADD and DROP of constraints."""

from dataclasses import replace

from snapdb.errors import BindError
from snapdb.plan.constraints import constrain, referencing
from snapdb.plan.plan import NothingPlan
from snapdb.plan.scope import BindContext
from snapdb.plan.tables.columns import checked_columns
from snapdb.plan.tables.plans import AlterPlan
from snapdb.sql.constraints import parse_definition
from snapdb.sql.tables import AddConstraint, DropConstraint
from snapdb.types import Table
from snapdb.types.text import did_you_mean


def bind_constraint(
    context: BindContext, table: Table, action: AddConstraint | DropConstraint, message: str | None
) -> AlterPlan | NothingPlan:
    """Bind the columns of a table with one more or one fewer constraint."""
    if isinstance(action, DropConstraint):
        return _drop(context, table, action, message)
    clauses = parse_definition(action.definition).constraints
    if len(clauses) != 1:
        raise BindError(
            "ALTER TABLE adds one constraint; write one ALTER TABLE for each",
            span=action.definition.span,
            code="constraint",
        )
    checked = checked_columns(context, table, action.definition) if clauses[0].kind == "CHECK" else []
    columns = constrain(context, table, clauses, checked)
    before = set(table.constraints)
    (added,) = (each for column in columns for each in column.constraints if each not in before)
    required = [c for c in columns if c.field in added.fields and c.nullable] if added.kind == "PRIMARY KEY" else []
    columns = tuple(replace(c, nullable=False) if c in required else c for c in columns)
    did = f"constraint {added.name} added to {table.name}"
    checked_rows = added if added.enforced else None
    return AlterPlan(table, columns, did, context.catalog.version, message, checked_rows, tuple(required))


def _drop(context: BindContext, table: Table, action: DropConstraint, message: str | None) -> AlterPlan | NothingPlan:
    known = {constraint.name.lower(): constraint for constraint in table.constraints}
    if (dropped := known.get(action.name.text.lower())) is None:
        if action.if_exists:
            return NothingPlan(f'constraint "{action.name}" does not exist in table {table.name}')
        names = [constraint.name for constraint in table.constraints]
        hint = did_you_mean(action.name.text, names) or (f"; the table has {', '.join(names)}" if names else "")
        raise BindError(
            f'constraint "{action.name}" does not exist in table {table.name}{hint}',
            span=action.name.span,
            code="unknown-constraint",
        )
    keys = {name.lower() for name in table.names_of(dropped)}
    for child, constraint in referencing(context.catalog, table) if dropped.is_unique else ():
        if {key.lower() for key in constraint.keys} == keys:
            raise BindError(
                f"constraint {dropped.name} is referenced by constraint {constraint.name} of {child.name}; drop that "
                "one first",
                span=action.name.span,
                code="in-use",
            )
    columns = tuple(
        replace(c, constraints=tuple(each for each in c.constraints if each != dropped)) for c in table.columns
    )
    return AlterPlan(
        table, columns, f"constraint {dropped.name} dropped from {table.name}", context.catalog.version, message
    )
