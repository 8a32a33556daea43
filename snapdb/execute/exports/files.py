"""COPY … TO: writes rows to a temporary file, and renames it atomically to its path once it is complete."""

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from snapdb.errors import BindError, CorruptError, InputError
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.exports import CopyToPlan, FileFormat
from snapdb.plan.queries import BoundQuery
from snapdb.remote import is_url, open_store
from snapdb.remote.files import is_file_url
from snapdb.sql_engine import SqlSession, parquet_form, quote, quote_all, quote_odd, text_literal
from snapdb.sql_engine.values import plain
from snapdb.storage.disk import hidden_beside
from snapdb.types.text import counted

_LINKS = 40
"""The maximum number of symbolic links to follow, as in the Linux kernel."""


def copy_to(plan: CopyToPlan, context: ExecutionContext) -> Rows:
    """Run COPY (query) TO: write the rows to a temporary file in the target directory, and then rename it."""
    yield from ()
    remote = is_file_url(plan.path)
    target = Path(plan.path) if remote else _target(context, plan)
    with (
        context.bind_context.session(plan.query) as session,
        _uploaded(context, plan) if remote else _beside(context, plan, target) as path,
        context.watching(session, f"writing {target.name}"),
    ):
        if plan.format == "arrow":
            rows = _packed(context, session, plan, path)
        else:
            rows = write_rows(session, plan.query, path, plan.format, plan.writer)
    return Outcome(f"{counted(rows, 'row')} to {plan.path}", rows)


def _target(context: ExecutionContext, plan: CopyToPlan) -> Path:
    """Return the path to write to, with links resolved. Raises InputError if writing there is not allowed."""
    expanded = os.path.expanduser(plan.path)
    target = Path(os.path.realpath(expanded))
    if os.path.isdir(target):
        raise _refused(plan, f"{plan.path} is a folder; write the path of a file in it")
    if _is_device(expanded) or (os.path.exists(target) and not os.path.isfile(target)):
        raise _refused(
            plan,
            f"{plan.path} is not a regular file; write the path of one, or use the command line's --format "
            "option for stdout",
        )
    if target.is_relative_to(os.path.realpath(context.store.db_dir.path)):
        raise _refused(
            plan,
            f"{plan.path} is in the database directory, which contains only files of snapdb; choose a path outside it",
        )
    try:
        context.store.sql_engine.check_folder(target)
    except InputError as error:
        error.span = plan.span
        raise
    return target


def _is_device(path: str) -> bool:
    """Return whether a path, or a link that it resolves through, is a device such as /dev/stdout."""
    place = os.path.abspath(path)
    for _ in range(_LINKS):
        folder = os.path.realpath(os.path.dirname(place))
        if folder == "/dev" or folder.startswith("/proc/"):
            return True
        if not os.path.islink(place):
            return False
        place = os.path.join(folder, os.readlink(place))
    return False


@contextmanager
def _beside(context: ExecutionContext, plan: CopyToPlan, target: Path) -> Iterator[Path]:
    """Yield a temporary path in the target directory. It is renamed to the target on success, and removed otherwise."""
    path = hidden_beside(target)
    try:
        yield path
        # The file is synced before the rename, so that a crash leaves either the old file or the complete new one.
        context.store.disk.settle(path)
        context.store.disk.rename(path, target)
    except OSError as error:
        reason = (error.strerror or error) if os.path.isdir(target.parent) else "its folder does not exist"
        raise _refused(plan, f"cannot write {plan.path}: {reason}") from error
    finally:
        context.store.disk.remove(path)


@contextmanager
def _uploaded(context: ExecutionContext, plan: CopyToPlan) -> Iterator[Path]:
    """Yield a temporary path, whose file is uploaded on success: readers see the old object or the whole new one."""
    folder, _, name = plan.path.rpartition("/")
    if not is_url(plan.path) or not name:
        what = "objects can be written to s3://, gs:// and az://, under a name in a bucket"
        raise _refused(plan, f"cannot write {plan.path}: {what}")
    try:
        context.store.sql_engine.check_folder(plan.path)
        store = open_store(folder)
    except InputError as error:
        error.span = plan.span
        raise
    with tempfile.TemporaryDirectory(prefix="snapdb-copy-") as scratch:
        path = Path(scratch, name)
        yield path
        store.put(name, path)


def _refused(plan: CopyToPlan, message: str) -> InputError:
    return InputError(message, span=plan.span, code="unwritable-file")


def write_rows(session: SqlSession, query: BoundQuery, path: Path, format_: FileFormat, writer: str) -> int:
    """Write the rows of a query with DuckDB's COPY and return their number.

    Args:
        session: A session with the names that the query uses.
        query: The query that returns the rows.
        path: The file to create or overwrite.
        format_: The file format.
        writer: The options of DuckDB's COPY, without parentheses.

    Raises:
        OSError: The disk reports an error.
    """
    # DuckDB writes HUGEINT to Parquet as DOUBLE, so such columns are cast to an exact type first.
    before, after = _exact(session, query) if format_ == "parquet" else ("", "")
    copy = f"\n{after}) TO {text_literal(str(path))} ({writer})"
    try:
        return session.write(f"COPY ({before}", query.text, copy, query.parameters)
    except (InputError, CorruptError) as error:
        if path.name not in error.message:  # the error is about a file that the query reads
            raise
        match = re.search(r'": ([A-Z][\w ]+)$', error.message)
        raise OSError(errno.EIO, match[1] if match else "the disk reported an error") from error


def _exact(session: SqlSession, query: BoundQuery) -> tuple[str, str]:
    """Return SQL that wraps a query so that Parquet stores its values exactly. HUGEINT sums would become DOUBLE."""
    columns = session.describe(query.text, query.parameters)
    if all(parquet_form(c.type) == c.type for c in columns):
        return "", ""
    named = [f"c{i}" for i in range(len(columns))]
    casts = ", ".join(
        f"CAST({n} AS {parquet_form(c.type)}) AS {quote(c.name)}" for n, c in zip(named, columns, strict=True)
    )
    return f"SELECT {casts} FROM (", f") AS q({quote_all(named)})"


def _packed(context: ExecutionContext, session: SqlSession, plan: CopyToPlan, path: Path) -> int:
    """Write batches to an Arrow IPC file and return the number of rows."""
    rows, writer = 0, None
    _check_zones(session, plan)
    batches = map(plain, session.exact_reader(plan.query.text, plan.query.parameters))
    with open(path, "wb") as file:
        for batch in batches:
            context.check_stopped()
            writer = writer or pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        assert writer is not None, "a reader gives at least one batch"
        writer.close()
    return rows


def _check_zones(session: SqlSession, plan: CopyToPlan) -> None:
    """Raise an error for times of day with a time zone, which no Arrow type can represent."""
    for column in session.describe(plan.query.text, plan.query.parameters):
        if "TIME WITH TIME ZONE" in column.type:  # not TIMESTAMP WITH TIME ZONE, which Arrow supports
            cast = f"CAST({quote_odd(column.name)} AS VARCHAR)"
            raise BindError(
                f"Arrow cannot represent the time zone of {column.name}, of type {column.type}; write {cast}",
                span=plan.query.span,
                code="column-type",
            )
