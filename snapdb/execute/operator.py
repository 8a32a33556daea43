"""The context that operators run in, what they return, and where each is.

An operator is a function of a plan and a context that returns `Rows`, in the module of its family.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from snapdb.builders.context import BuildContext
from snapdb.catalog import Catalog
from snapdb.execute.transactions import Review, TransactionManager
from snapdb.loading.shelf import CacheShelf
from snapdb.plan import FAMILIES, Plan
from snapdb.plan.plan import NothingPlan
from snapdb.plan.planner import Rule
from snapdb.plan.scope import BindContext
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.tables.changes import Change


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement that is not a query did."""

    message: str
    """One line for a person."""
    rows: int = 0
    """Rows added or removed."""


Rows = Generator[pa.RecordBatch, None, Outcome | None]
"""A query yields at least one batch, which tells its schema; any other statement yields none and returns an Outcome."""


@dataclass(frozen=True, slots=True)
class ExecutionContext(BuildContext):
    """What operators work on: an open database, and the statement that is run."""

    bind_context: BindContext
    """The catalog as it was when the statement was bound."""
    transactions: TransactionManager
    """Where changes go: to a version each, or to the open transaction."""
    tables: TablesLock
    """Held shared since before the catalog was read."""
    caches: CacheShelf
    """What streams of this process leave of their caches."""
    rules: Sequence[Rule]
    """What plans are optimized by."""
    threads: int | None
    """At most; None: all cores."""

    @property
    def catalog(self) -> Catalog:
        """The catalog as it was when the statement was bound."""
        return self.bind_context.catalog


def publish(
    context: ExecutionContext,
    changes: Sequence[Change],
    message: str | None,
    did: str,
    rows: int,
    review: Review | None = None,
) -> Outcome:
    """Commit the changes, or add them to the open transaction.

    Args:
        did: What they do, for a person.
        rows: How many rows they add or remove.
        review: Told, before the commit, how many new keys the id maps of the tables get.
    """
    version = context.transactions.add(changes, message, review)
    return Outcome(f"{did}, when the transaction commits" if version is None else f"version {version}: {did}", rows)


def nothing(plan: NothingPlan, context: ExecutionContext) -> Rows:
    """Do nothing, and report why there is nothing to do."""
    yield from ()
    return Outcome(plan.why)


OPERATORS = {plan: operator for family in FAMILIES for plan, operator in family.operators.items()}
"""Plan → the operator that runs it, as 'module:name': a function of the plan and the context.

Its module is imported when the first such plan runs, so that a SELECT loads no numba.
"""


def run(plan: Plan, context: ExecutionContext) -> Rows:
    """Run a plan in a context. Nothing happens before the first item is requested."""
    rows: Rows = operator_of(type(plan))(plan, context)
    return rows


def operator_of(plan: type) -> Any:
    """The operator that runs plans of a type."""
    module, _, name = OPERATORS[plan].partition(":")
    return getattr(import_module(module), name)
