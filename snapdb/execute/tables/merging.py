"""MERGE: rows are inserted, updated and deleted as the clauses of the statement decide, in a single change."""

from __future__ import annotations

from snapdb.errors import DataError
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.execute.tables.constraints import check_constraints
from snapdb.execute.tables.returned_rows import discard, returned
from snapdb.execute.tables.row_warnings import warn_of_rows
from snapdb.plan.tables.merges import ACTION
from snapdb.plan.tables.plans import MergePlan
from snapdb.sql_engine import ROW_ID, SqlSession, from_parquet, parquet_files, quote, quote_all, restored_unions
from snapdb.storage.tables.commit import Append, Change, Unchanged
from snapdb.storage.tables.segments import write_query, write_segment
from snapdb.types import Segment
from snapdb.types.text import counted

_ID = quote(ROW_ID)
_ACTION = quote(ACTION)


def merge(plan: MergePlan, context: ExecutionContext) -> Rows:
    """Run MERGE: find the action of each pair of rows once, then write the new rows and the ids of the old ones."""
    table, folder, db_dir = plan.table, plan.table.folder, context.store.db_dir
    passing: list[Segment] = []
    try:
        with context.bind_context.session(plan.find) as session, context.watching(session, f"merging {table.name}"):
            found = write_query(db_dir, session, folder, ("", plan.find.text, ""), plan.find.parameters)
            passing.append(found)
            source = parquet_files([found], db_dir.path)
            counts = _counts(session, plan, source)
            if not sum(counts.values()):
                yield from returned(context, plan.returning, None)
                return Outcome(f"no row of {table.name} is inserted, updated or deleted; nothing was changed")
            gone = come = None
            if counts["UPDATE"] or counts["DELETE"]:
                ids = f"SELECT {_ID} AS row_id FROM {source} WHERE {_ACTION} <> 'INSERT'"
                passing.append(gone := write_query(db_dir, session, folder, ("", ids, "")))
            if counts["UPDATE"] or counts["INSERT"]:
                # The order of a join's rows depends on threads, so new rows are sorted.
                order = f"{_ID} NULLS LAST, {quote_all(c.name for c in table.columns)}"
                values = restored_unions(table.columns)
                rows = f"SELECT {values} FROM {source} WHERE {_ACTION} <> 'DELETE' ORDER BY {order}"
                passing.append(come := write_segment(db_dir, session, folder, table.columns, rows))
        files = () if come is None else (come,)
        changes: list[Change] = [*check_constraints(context, table, files, gone)]
        batches = returned(context, plan.returning, _result(plan, source))
    except BaseException:
        discard(context, *passing[1:])
        raise
    finally:
        discard(context, *passing[:1])
    warn_of_rows(context, table, files, gone)
    changes.append(Unchanged(table.id, plan.base, ("append",)))
    changes += [] if gone is None else [context.transactions.removal(table, gone, plan.base)]
    changes += [] if come is None else [Append(table.id, table.columns, files)]
    did = ", ".join(f"{counted(n, 'row')} {_DONE[action]}" for action, n in counts.items() if n)
    outcome = context.publish(changes, plan.message, f"{table.name}: {did}", sum(counts.values()))
    yield from batches
    return outcome


_DONE = {"INSERT": "inserted", "UPDATE": "updated", "DELETE": "deleted"}


def _counts(session: SqlSession, plan: MergePlan, source: str) -> dict[str, int]:
    """Return the number of rows of each action. Raises DataError if two rows of the source change one row."""
    (rows, distinct) = session.rows(
        f"SELECT count(*), count(DISTINCT {_ID}) FROM {source} WHERE {_ACTION} <> 'INSERT'"
    )[0]
    if rows != distinct:
        raise DataError(
            f"{rows:,} changes for {counted(distinct, 'row')} of {plan.table.name}: at most one row of the source can "
            "match each row; make the rows of the source distinct, or aggregate them",
            code="ambiguous-update",
        )
    numbers = dict(session.rows(f"SELECT {_ACTION}, count(*) FROM {source} GROUP BY ALL"))
    return {action: numbers.get(action, 0) for action in _DONE}


def _result(plan: MergePlan, source: str) -> str:
    """Return a SELECT of the written and deleted rows with their actions, for RETURNING."""
    columns = ", ".join(f"{from_parquet(quote(c.name), c.type)} AS {quote(c.name)}" for c in plan.table.columns)
    names = quote_all(c.name for c in plan.table.columns)
    has_action = plan.returning is not None and len(plan.returning.columns) > len(plan.table.columns)
    action = f", {_ACTION} AS merge_action" if has_action else ""
    return f"SELECT {columns}{action} FROM (FROM {source} ORDER BY {_ID} NULLS LAST, {names})"
