"""The operators of CREATE TABLE, INSERT, COPY FROM, DELETE, UPDATE and ALTER TABLE."""

from collections.abc import Sequence
from dataclasses import replace

from snapdb.errors import InputError, QueryError, SnapdbError, Span
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.execute.tables.conflicts import Resolved, resolve_conflicts
from snapdb.execute.tables.constraints import check_constraints, check_existing
from snapdb.execute.tables.returned_rows import discard, returned, rows_of_files, rows_to_remove
from snapdb.execute.tables.row_warnings import warn_of_rows
from snapdb.execute.tables.splitting import split_rows
from snapdb.plan.queries import BoundQuery
from snapdb.plan.tables.plans import AlterPlan, CreateTablePlan, DeletePlan, InsertPlan, UpdatePlan
from snapdb.sql_engine import ROW_ID, quote
from snapdb.storage.tables.commit import AddTable, AlterColumns, Append, Change, Loaded, Unchanged
from snapdb.storage.tables.segments import copy_segment, write_query, write_segment
from snapdb.types import Segment
from snapdb.types.text import counted

_ID = quote(ROW_ID)


def create_table(plan: CreateTablePlan, context: ExecutionContext) -> Rows:
    """Run CREATE TABLE: write the initial rows of a new table, and publish it."""
    yield from ()
    files = (
        _copy_files(context, "tables", plan.name, plan.copies) if plan.copies else (_write_first_rows(context, plan),)
    )
    rows = sum(file.rows for file in files)
    replaces = None if plan.replaces is None else plan.replaces.id
    change = AddTable(context.transactions.next_table(), plan.name, plan.columns, files, replaces, plan.base)
    return context.publish([change], plan.message, f"table {plan.name} with {counted(rows, 'row')}", rows)


def _write_first_rows(context: ExecutionContext, plan: CreateTablePlan) -> Segment:
    query = plan.query or _no_rows(plan)
    with context.bind_context.session(query) as session, context.watching(session, f"writing {plan.name}"):
        return write_segment(context.store.db_dir, session, "tables", plan.columns, query.text, query.parameters)


def _no_rows(plan: CreateTablePlan) -> BoundQuery:
    """Return a query without rows. It writes an empty segment, because read_parquet fails without files."""
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in plan.columns)
    return BoundQuery(f"SELECT {columns} WHERE false", Span(0, 0))


def insert(plan: InsertPlan, context: ExecutionContext) -> Rows:
    """Run INSERT or COPY … FROM: write the new rows as segments, and publish them with ids for their keys."""
    table = plan.table
    files, resolved = _new_files(context, plan), Resolved(None, None, None)
    if plan.conflict is not None:
        resolved = resolve_conflicts(context, table, plan.conflict, files[0])
        files = resolved.files
    gone = [] if resolved.removed is None else [resolved.removed]
    try:
        required = check_constraints(context, table, files, resolved.removed)
        rows_written = rows_of_files(context, table, files) if files else None
        batches = returned(context, plan.returning, rows_written)
    except BaseException:
        discard(context, *files, *gone)
        raise
    review = warn_of_rows(context, table, files, resolved.removed)
    rows = sum(file.rows for file in files)
    changes: list[Change] = [*required, Append(table.id, table.columns, files)]
    did, notes = f"{counted(rows, 'row')} added to {table.name}", ""
    if plan.conflict is not None:
        if not files:
            yield from batches
            return Outcome(f"every key exists in {table.name}; nothing was changed")
        base = context.catalog.version
        changes.insert(0, Unchanged(table.id, base, ("append",)))
        if resolved.removed is not None:
            changes.insert(0, context.transactions.removal(table, resolved.removed, base))
            new = 0 if resolved.inserted is None else resolved.inserted.rows
            did = f"{counted(new, 'row')} added to {table.name}, {counted(rows - new, 'row')} updated"
    if (new_files := plan.new) is not None:
        changes.append(Loaded(table.id, new_files.files))
        did, notes = f"{counted(len(new_files.files), 'file')}, {did}", new_files.notes()
    outcome = context.publish(changes, plan.message, did, rows, review)
    yield from batches
    return outcome._replace(message=outcome.message + notes)


def _new_files(context: ExecutionContext, plan: InsertPlan) -> tuple[Segment, ...]:
    """Write the new rows as files. If an input file changed while it was read, remove all the files written."""
    table, files = plan.table, tuple[Segment, ...]()
    try:
        files = (
            _copy_files(context, table.folder, table.name, plan.copies)
            if plan.copies
            else (_write_rows(context, plan),)
        )
        if plan.new is not None:
            plan.new.check_unmoved()
    except SnapdbError as error:
        for file in files:
            context.store.disk.remove(context.store.db_dir.path / file.path)
        if plan.new is not None and isinstance(error, InputError | QueryError) and error.code != "interrupted":
            plan.new.check_unmoved()  # a changed input file is a better explanation of the error
        raise
    return files


def _write_rows(context: ExecutionContext, plan: InsertPlan) -> Segment:
    table, query = plan.table, plan.query
    with context.bind_context.session(query) as session, context.watching(session, f"writing {table.name}"):
        return write_segment(
            context.store.db_dir, session, table.folder, table.columns, query.text, query.parameters, plan.supplied
        )


def _copy_files(context: ExecutionContext, folder: str, name: str, sources: Sequence[str]) -> tuple[Segment, ...]:
    """Copy the user's Parquet files as segments of a table, either all or none, and hash them while copying.

    Args:
        context: The context of the statement.
        folder: The directory of the table, relative to the database directory.
        name: The name of the table, for progress reports.
        sources: The paths of the files.
    """
    copies: list[Segment] = []
    with context.store.sql_engine.session() as session:
        try:
            for number, source in enumerate(sources):

                def report(share: float, number: int = number) -> None:
                    context.step(f"copying into {name}", (number + share) / len(sources))

                context.store.sql_engine.check_folder(source)
                copies.append(copy_segment(context.store.db_dir, session, folder, source, report))
        except BaseException:
            for file in copies:
                context.store.disk.remove(context.store.db_dir.path / file.path)
            raise
    return tuple(copies)


def delete(plan: DeletePlan, context: ExecutionContext) -> Rows:
    """Run DELETE: find the rows, and publish a segment of their row ids."""
    table = plan.table
    with context.bind_context.session(plan.find) as session, context.watching(session, f"searching {table.name}"):
        find = ("", plan.find.text, "")
        file = write_query(context.store.db_dir, session, table.folder, find, plan.find.parameters)
    if file.rows == 0:
        discard(context, file)
        yield from returned(context, plan.returning, None)
        return Outcome(f"no row of {table.name} matches; nothing was changed")
    try:
        required = check_constraints(context, table, (), file)
        batches = returned(context, plan.returning, rows_to_remove(context, table, file))
    except BaseException:
        discard(context, file)
        raise
    did = f"{counted(file.rows, 'row')} removed from {table.name}"
    change = context.transactions.removal(table, file, plan.base)
    outcome = context.publish([*required, change], plan.message, did, file.rows)
    yield from batches
    return outcome


def update(plan: UpdatePlan, context: ExecutionContext) -> Rows:
    """Run UPDATE: find the rows and compute their new values once, then replace the old rows in a single change."""
    table = plan.table
    with context.bind_context.session(plan.find) as session, context.watching(session, f"updating {table.name}"):
        find = ("", plan.find.text, "")
        # The result is stored before it is split, because a volatile expression such as random() must be evaluated only
        # once per row.
        segment = write_query(context.store.db_dir, session, table.folder, find, plan.find.parameters)
        try:
            if segment.rows == 0:
                yield from returned(context, plan.returning, None)
                return Outcome(f"no row of {table.name} matches; nothing was changed")
            gone, come = split_rows(context, session, table, segment)
        finally:
            discard(context, segment)
    try:
        required = check_constraints(context, table, [come], gone, plan.changed)
        batches = returned(context, plan.returning, rows_of_files(context, table, [come]))
    except BaseException:
        discard(context, gone, come)
        raise
    warn_of_rows(context, table, (come,), gone, plan.changed)
    changes: list[Change] = [
        *required,
        context.transactions.removal(table, gone, plan.base),
        Append(table.id, table.columns, (come,)),
    ]
    outcome = context.publish(changes, plan.message, f"{counted(come.rows, 'row')} of {table.name} updated", come.rows)
    yield from batches
    return outcome


def alter_table(plan: AlterPlan, context: ExecutionContext) -> Rows:
    """Run ALTER TABLE: publish the new columns. Existing files are read through these columns, not rewritten."""
    yield from ()
    required = check_existing(context, replace(plan.table, columns=plan.columns), plan.added, plan.required)
    changes: list[Change] = [*required, AlterColumns(plan.table.id, plan.columns, plan.base)]
    return context.publish(changes, plan.message, plan.did, 0)
