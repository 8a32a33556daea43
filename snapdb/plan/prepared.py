"""Prepared statements: PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.plan import Plan, PlanFamily, PlanNode
from snapdb.plan.planner import bind_unlocated
from snapdb.plan.queries import BoundQuery, Parameters
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import scan
from snapdb.sql.pattern_tokens import question_quantifiers
from snapdb.sql.prepared import Deallocate, Execute, ExecuteArgument, Prepare
from snapdb.sql.queries import marks_of
from snapdb.sql.syntax import Name, Statement
from snapdb.types.text import counted, did_you_mean


@dataclass(frozen=True, slots=True)
class PreparePlan(Plan):
    """PREPARE: store a statement in the session. Names are resolved when it is executed."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    name: str
    statement: Statement

    def describe(self) -> PlanNode:
        return PlanNode("Prepare", self.name)


@dataclass(frozen=True, slots=True)
class ExecutePlan(Plan):
    """EXECUTE: run a prepared statement with values for its parameters."""

    statement: Statement
    """The prepared statement, to whose text the positions in errors refer."""
    plan: Plan

    def is_read(self) -> bool:
        return self.plan.is_read()

    def fits_transaction(self) -> bool:
        return self.plan.fits_transaction()

    def source(self) -> BoundQuery | None:
        return self.plan.source()

    def describe(self) -> PlanNode:
        return self.plan.describe()


@dataclass(frozen=True, slots=True)
class DeallocatePlan(Plan):
    """DEALLOCATE: forget prepared statements."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    names: tuple[str, ...]

    def describe(self) -> PlanNode:
        return PlanNode("Deallocate", ", ".join(self.names))


def _bind_prepare(statement: Prepare, context: BindContext) -> PreparePlan:
    return PreparePlan(statement.name.text, statement.statement)


def _bind_execute(statement: Execute, context: BindContext) -> ExecutePlan:
    """Bind the prepared statement with the values of the arguments."""
    prepared = _find(context, statement.name)
    values = _values(statement, context, prepared)
    try:
        plan = bind_unlocated(prepared, replace(context, parameters=values))
    except SnapdbError as error:
        raise error.located(prepared.source, prepared.span) from error.__cause__
    return ExecutePlan(prepared, plan)


def _values(statement: Execute, context: BindContext, prepared: Statement) -> Parameters:
    """Return the values of the parameters, by name if they have names.

    Raises:
        BindError: The number or the names of the arguments differ from those of the parameters.
    """
    given = statement.arguments
    constant = replace(context, parameters=None)
    named = [mark[1:] for mark in marks_of(prepared) if mark[0] == "$" and not mark[1:].isdecimal()]
    if not named:
        wanted = _count_positional(prepared)
        if len(given) != wanted or any(argument.name is not None for argument in given):
            raise BindError(
                f"{statement.name} has {counted(wanted, 'positional parameter')}, found "
                f"{counted(len(given), 'argument')}; write EXECUTE {statement.name}"
                f"{'(' + ', '.join(['…'] * wanted) + ')' if wanted else ''}",
                span=given[0].value.span if given else statement.name.span,
                code="parameter-count",
            )
        return [constant.value_of(argument.value) for argument in given] if given else None
    return _named_values(statement, constant, given, named)


def _count_positional(prepared: Statement) -> int:
    """Return the number of values for ? and $1, which do not occur together."""
    tokens = scan(prepared.text)
    quantifiers = question_quantifiers(tokens)
    marks = [t.text for i, t in enumerate(tokens) if t.kind == "parameter" and i not in quantifiers]
    numbers = [int(mark[1:]) for mark in marks if mark[1:]]
    return max(numbers) if numbers else len(marks)


def _named_values(
    statement: Execute, context: BindContext, given: Sequence[ExecuteArgument], named: Sequence[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    known = {name.lower(): name for name in named}
    for argument in given:
        if argument.name is None or argument.name.text.lower() not in known:
            hint = "" if argument.name is None else did_you_mean(argument.name.text, named)
            raise BindError(
                f"{statement.name} has no parameter {argument.name or 'without a name'}"
                f"{hint or '; write ' + ', '.join(f'{name} := …' for name in named)}",
                span=argument.value.span if argument.name is None else argument.name.span,
                code="parameter-count",
            )
        values[known[argument.name.text.lower()]] = context.value_of(argument.value)
    if missing := [name for name in named if name not in values]:
        raise BindError(
            f"{statement.name} needs a value of ${missing[0]}; write {missing[0]} := …",
            span=statement.name.span,
            code="parameter-count",
        )
    return values


def _bind_deallocate(statement: Deallocate, context: BindContext) -> DeallocatePlan:
    if statement.name is None:
        return DeallocatePlan(tuple(context.prepared))
    _find(context, statement.name)
    return DeallocatePlan((statement.name.text.lower(),))


def _find(context: BindContext, name: Name) -> Statement:
    """Return the prepared statement with a name, or raise BindError."""
    if (prepared := context.prepared.get(name.text.lower())) is not None:
        return prepared
    hint = did_you_mean(name.text, context.prepared) or "; write PREPARE name AS statement"
    raise BindError(f'prepared statement "{name}" does not exist{hint}', span=name.span, code="unknown-prepared")


FAMILY = PlanFamily(
    binders={Prepare: _bind_prepare, Execute: _bind_execute, Deallocate: _bind_deallocate},
    operators={
        PreparePlan: "snapdb.execute.prepared:prepare",
        ExecutePlan: "snapdb.execute.prepared:execute",
        DeallocatePlan: "snapdb.execute.prepared:deallocate",
    },
)
