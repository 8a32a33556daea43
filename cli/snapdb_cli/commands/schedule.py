"""`snapdb schedule`: lists, runs, suspends and resumes tasks."""

import re
from contextlib import closing
from pathlib import Path
from typing import Literal

from snapdb.catalog.system_tables import SHOWN_RUNS, SHOWN_TASKS
from snapdb.database import Database, connect
from snapdb.execute.tasks.operators import describe_leader
from snapdb.sql_engine import quote_odd, text_literal
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import open_db_dir
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output, OutputStyle
from snapdb_cli.shell import Shell

_TASKS, _RUNS = ", ".join(SHOWN_TASKS), ", ".join(SHOWN_RUNS)


def tasks(path: Path, output_format: str, diagnostics: Diagnostics) -> ExitCode:
    """List the tasks of a database, which is opened read-only."""
    with connect(path, read_only=True) as database:
        names = database.names()["tasks"]
        query = f"SELECT {_short(_TASKS, output_format)} FROM (SELECT * FROM snapdb.tasks)"
        code = _shell(database, output_format, diagnostics).execute(query)
    with closing(CatalogDb(open_db_dir(path, read_only=True))) as catalog_db:
        diagnostics.narrate(f"daemon: {describe_leader(catalog_db)}" if names else _none(path))
    return code


def history(
    path: Path, name: str | None, diagnostics: Diagnostics, *, last: int, failed: bool, log: bool, output_format: str
) -> ExitCode:
    """List the last runs of a database's tasks, newest last. `failed` omits successful runs."""
    with connect(path, read_only=True) as database:
        if name is not None:  # raises an error for an unknown task
            database.execute(f"SHOW TASK RUNS OF {quote_odd(name)}").arrow()
        named = "true" if name is None else f"lower(task) = {text_literal(name.lower())}"
        ended = "state IN ('failed', 'timeout', 'missed')" if failed else "true"
        shown = _short(_RUNS, output_format) + (", log" if log else "")
        newest = f"SELECT * FROM snapdb.task_runs WHERE {named} AND {ended} ORDER BY {_order('DESC')} LIMIT {last}"
        query = f"SELECT {shown} FROM ({newest}) ORDER BY {_order('ASC')}"
        return _shell(database, output_format, diagnostics).execute(query)


def run_now(path: Path, name: str, diagnostics: Diagnostics) -> ExitCode:
    """Run a task, wait until it ends, and return the exit code for its result."""
    open_db_dir(path, read_only=True)  # raises an error if the database does not exist, which `connect` would create
    with connect(path) as database:
        return _shell(database, "table", diagnostics).execute(f"EXECUTE TASK {quote_odd(name)}")


def switch(path: Path, name: str | None, action: Literal["SUSPEND", "RESUME"], diagnostics: Diagnostics) -> ExitCode:
    """Suspend or resume one task or all tasks."""
    open_db_dir(path, read_only=True)  # as in run_now
    with connect(path) as database:
        names = database.names()["tasks"] if name is None else [name]
        if not names:
            diagnostics.say(_none(path))
        script = ";".join(f"ALTER TASK {quote_odd(task)} {action}" for task in names)
        return _shell(database, "table", diagnostics).execute(script)


def _none(path: Path) -> str:
    return f"{path} has no tasks; CREATE TASK creates one"


def _short(columns: str, output_format: str) -> str:
    """Return the columns to list. A table shows fewer columns, and times to the second, so that error messages fit."""
    if output_format != "table":
        return columns
    spared = columns.replace("runs, created", "runs").replace("ended", "round(seconds, 2) AS seconds")
    return re.sub(r"\b(next_run|last_run|scheduled|started)\b", r"date_trunc('second', \1) AS \1", spared)


def _shell(database: Database, output_format: str, diagnostics: Diagnostics) -> Shell:
    return Shell(database, Output(output_format, style=OutputStyle(screen_rows=None)), diagnostics)


def _order(way: Literal["ASC", "DESC"]) -> str:
    return f"scheduled {way}, task {way}, run {way}, attempt {way}"
