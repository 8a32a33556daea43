"""`snapdb schedule`: what people ask about tasks, and tell them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from snapdb.database import Database, connect
from snapdb.relational.quote import quote_odd, text_literal
from snapdb.storage.home import open_home

from .diagnostics import Diagnostics, ExitCode
from .formats import Look
from .output import Output
from .shell import Shell

__all__ = ["Wanted", "history", "run_now", "switch", "tasks"]

_SHOWN = "task, run, state, scheduled, started, ended, rows, bytes, error"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are listed, and how much of each."""

    last: int
    failed: bool
    log: bool


def tasks(path: Path, format: str, diagnostics: Diagnostics) -> ExitCode:  # noqa: A002  # the option's name
    """List the tasks of a database, which is only read."""
    with connect(path, read_only=True) as database:
        return _shell(database, format, diagnostics).execute("SHOW TASKS")


def history(path: Path, name: str | None, wanted: Wanted, format: str, diagnostics: Diagnostics) -> ExitCode:  # noqa: A002
    """List runs of a database's tasks, which is only read, the newest last."""
    with connect(path, read_only=True) as database:
        if name is not None:  # says what is wrong with a name
            database.execute(f"SHOW TASK RUNS OF {quote_odd(name)}").arrow()
        named = "true" if name is None else f"lower(task) = {text_literal(name.lower())}"
        ended = "state IN ('failed', 'timeout', 'missed')" if wanted.failed else "true"
        shown = _SHOWN + (", log" if wanted.log else "")
        newest = (
            f"SELECT * FROM snapdb.task_runs WHERE {named} AND {ended} ORDER BY {_order('DESC')} LIMIT {wanted.last}"
        )
        query = f"SELECT {shown} FROM ({newest}) ORDER BY {_order('ASC')}"
        return _shell(database, format, diagnostics).execute(query)


def run_now(path: Path, name: str, diagnostics: Diagnostics) -> ExitCode:
    """Run a task and wait for it; the exit code tells how it ended."""
    with _opened(path) as database:
        return _shell(database, "table", diagnostics).execute(f"EXECUTE TASK {quote_odd(name)}")


def switch(path: Path, name: str | None, action: Literal["SUSPEND", "RESUME"], diagnostics: Diagnostics) -> ExitCode:
    """Suspend or resume a task, or all of them."""
    with _opened(path) as database:
        names = database.names()["tasks"] if name is None else [name]
        if not names:
            diagnostics.say(f"there is no task in {path}; CREATE TASK makes one")
        return _shell(database, "table", diagnostics).execute(
            ";".join(f"ALTER TASK {quote_odd(task)} {action}" for task in names)
        )


def _opened(path: Path) -> Database:
    """The database, which must be there."""
    open_home(path, read_only=True)
    return connect(path)


def _shell(database: Database, format: str, diagnostics: Diagnostics) -> Shell:  # noqa: A002
    output = Output(format, look=Look(None, True))
    output.screen_rows = None
    return Shell(database, output, diagnostics)


def _order(way: Literal["ASC", "DESC"]) -> str:
    return f"scheduled {way}, task {way}, run {way}, attempt {way}"
