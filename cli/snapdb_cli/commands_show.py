"""Commands that tell what there is."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from snapdb.relational.quote import quote, text_literal
from snapdb.types.text import counted

from .commands_core import Command, unquoted
from .repl_session import Session

_KINDS = ("tables", "graphs", "snapshots", "samplers", "caches", "tasks")


def _describe(session: Session, argument: str) -> None:
    name = unquoted(argument)
    if not name:
        _list(session)
    elif "." in name:
        path = ".".join(quote(part) for part in name.split("."))
        session.shell.execute(f"DESCRIBE SELECT * FROM {path}")
    elif found := _find(session, name):
        kind, given = found
        session.shell.execute(f"DESCRIBE {kind} {quote(given)}")


def _more(session: Session, argument: str) -> None:
    """What `\\d` tells, then what changed a table, what is in a snapshot or how the runs of a task ended."""
    _describe(session, argument)
    name = unquoted(argument)
    if not name or "." in name or (found := _find(session, name, quiet=True)) is None:
        return
    kind, given = found
    if kind == "TABLE":
        session.shell.execute(f"SHOW VERSIONS OF {quote(given)}")
    elif kind == "SNAPSHOT":
        session.shell.execute(f"SUMMARIZE SNAPSHOT {quote(given)}")
    elif kind == "TASK":
        session.shell.execute(f"SHOW TASK RUNS OF {quote(given)}")


def _list(session: Session) -> None:
    known = session.known()
    kinds = [kind for kind in _KINDS if known.of(kind)]
    for kind in kinds:
        session.shell.execute(f"SHOW {kind.upper()}")
    if not kinds:
        session.say("nothing here yet; CREATE TABLE name AS SELECT * FROM 'file.parquet'; makes a table")


def _find(session: Session, name: str, *, quiet: bool = False) -> tuple[str, str] | None:
    """The kind and the spelling of what has that name; what is near is said where nothing has it."""
    known = session.known()
    for kind in _KINDS:
        for given in known.of(kind):
            if given.casefold() == name.casefold():
                return kind[:-1].upper(), given
    if not quiet:
        close = get_close_matches(name, known.of(*_KINDS), n=1)
        hint = f"did you mean {close[0]}?" if close else "\\d lists what there is"
        session.say(f"no table, graph, snapshot, sampler, cache or task {name}; {hint}")
    return None


def _show(kind: str) -> Callable[[Session, str], None]:
    def run(session: Session, argument: str) -> None:
        pattern = unquoted(argument)
        like = f" LIKE {text_literal(pattern.replace('*', '%'))}" if pattern else ""
        session.shell.execute(f"SHOW {kind}{like}")

    return run


def _versions(session: Session, argument: str) -> None:
    table = unquoted(argument)
    session.shell.execute(f"SHOW VERSIONS OF {quote(table)}" if table else "SHOW VERSIONS")


def _functions(session: Session, argument: str) -> None:
    pattern = text_literal((unquoted(argument) or "*").replace("*", "%"))
    session.shell.execute(
        "SELECT function_name AS function, parameters, return_type AS returns, any_value(description) AS description "
        f"FROM duckdb_functions() WHERE function_name LIKE {pattern} GROUP BY ALL ORDER BY ALL"
    )


def _connection(session: Session, argument: str) -> None:
    database = session.database
    state = {"idle": "no transaction", "open": "a transaction is open", "failed": "a transaction failed; ROLLBACK"}
    known = session.known()
    counts = ", ".join(counted(len(known.of(kind)), kind[:-1]) for kind in _KINDS)
    what = "a temporary database, removed when you leave" if database.temporary else f"the database {database.path}"
    only = " (read only)" if session.opening.get("read_only") and not database.temporary else ""
    session.say(f"{what}{only}: {counts}; {state[database.transaction_state]}")


SHOWING = (
    Command(("\\d", ".schema"), "[NAME]", "list what there is, or describe one thing", _describe, _KINDS),
    Command(
        ("\\d+",), "NAME", "the same, with a table's versions, what is in a snapshot or a task's runs", _more, _KINDS
    ),
    Command(("\\dt", ".tables"), "[PATTERN]", "list tables; * stands for anything", _show("TABLES"), ("tables",)),
    Command(("\\dg", ".graphs"), "[PATTERN]", "list property graphs", _show("GRAPHS"), ("graphs",)),
    Command(("\\ds", "\\dn", ".snapshots"), "[PATTERN]", "list snapshots", _show("SNAPSHOTS"), ("snapshots",)),
    Command(("\\dp", ".samplers"), "[PATTERN]", "list samplers", _show("SAMPLERS"), ("samplers",)),
    Command(("\\dc", ".caches"), "[PATTERN]", "list caches", _show("CACHES"), ("caches",)),
    Command(("\\dk", ".tasks"), "[PATTERN]", "list tasks", _show("TASKS"), ("tasks",)),
    Command(("\\dv", ".versions"), "[TABLE]", "list versions, of everything or of a table", _versions, ("tables",)),
    Command((".tags",), "[PATTERN]", "list tags", _show("TAGS"), ("tags",)),
    Command(("\\df", ".functions"), "[PATTERN]", "list functions of queries", _functions, ("functions",)),
    Command(("\\conninfo", "\\l", ".databases"), "", "tell which database this is", _connection),
)
