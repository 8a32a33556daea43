"""The loop of the prompt: reads lines, runs them, and asks before something is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from snapdb.database import Database, connect
from snapdb.errors import SnapdbError
from snapdb.plan.show import DropPlan
from snapdb.sql.maintenance import ExpireSnapshots, Vacuum
from snapdb.sql.show import Drop
from snapdb.sql.syntax import Statement
from snapdb.types.text import counted
from snapdb_cli.commands.arguments import Settings
from snapdb_cli.completion.completer import NamesCompleter, suggest
from snapdb_cli.completion.names import Known
from snapdb_cli.diagnostics import Diagnostics
from snapdb_cli.output.pager import Screen
from snapdb_cli.output.results import Output
from snapdb_cli.repl.commands import Leave, run_command, run_typed
from snapdb_cli.repl.preferences import Preferences, changed, start_file
from snapdb_cli.repl.prompt import line, make_prompt
from snapdb_cli.repl.session import Session
from snapdb_cli.shell import Shell

_NAMED = 8
"""So many things are named, the rest counted."""


def question(database: Database, statement: Statement) -> str | None:
    """What to ask before a statement runs; None when it takes nothing away, or will say itself what is wrong."""
    idle = database.transaction_state == "idle"  # where the others are refused anyway
    try:
        match statement:
            case Drop():
                return _drop(database, statement)
            case ExpireSnapshots(dry_run=False) if idle:
                return _expire(database, statement)
            case Vacuum(dry_run=False) if idle:
                return _vacuum(database, statement)
    except SnapdbError:
        pass
    return None


def _drop(database: Database, statement: Drop) -> str | None:
    plan = database.plan(statement)
    if not isinstance(plan, DropPlan):
        return None  # there is nothing of that name
    kind = statement.kind.lower()
    names = sorted(f"{type(d).__name__.removeprefix('Property').lower()} {d.name}" for d in plan.dependants)
    also = f", and with it {_listed(names)}" if names else ""
    return f"drop {kind} {plan.target.name}{also}?"


def _expire(database: Database, statement: ExpireSnapshots) -> str | None:
    rows = _rows(database, replace(statement, dry_run=True))
    names = [str(row["snapshot"]) for row in rows if row["action"] == "expire"]
    return f"expire {counted(len(names), 'snapshot')}: {_listed(names)}?" if names else None


def _vacuum(database: Database, statement: Vacuum) -> str | None:
    rows = [row for row in _rows(database, replace(statement, dry_run=True)) if row["action"] != "keep"]
    size = sum(row["bytes"] or 0 for row in rows)
    return f"merge or remove {counted(len(rows), 'thing')}, {size:,} bytes?" if rows else None


def _rows(database: Database, statement: Statement) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = database.run(statement).arrow().to_pylist()
    return rows


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


# Lines in, statements and commands run, until the user leaves


def open_session(
    path: Path | None, diagnostics: Diagnostics, settings: Settings, preferences: Preferences, history: History
) -> Session:
    """A session on the database at `path`. Raises SnapdbError when it cannot be opened."""
    for name in ("format", "null"):
        if (said := getattr(settings, name)) is not None:
            preferences = changed(preferences, name, said)
    if not settings.header:
        preferences = changed(preferences, "header", False)
    database = connect(path, **settings.opening)
    screen: Any = Screen(pager=preferences.pager)
    shell = Shell(
        database, Output(stream=screen, max_rows=settings.max_rows), diagnostics, keep_going=settings.keep_going
    )
    shell.parameters = settings.parameters or None
    session = at_prompt(Session(shell, preferences, screen=screen, history=history, opening=settings.opening))
    if settings.config and start_file().is_file():
        run_command(session, f"\\i {start_file()}")
    return session


def at_prompt(session: Session) -> Session:
    """The same session, which may now ask the person who sits there."""
    session.run_command = run_command
    session.completer = lambda document, event: _completions(session, document, event)
    session.shell.confirm = lambda statement: _agreed(session, statement)
    return session


def warm() -> None:
    """Build the grammars, which completion asks."""
    suggest("", Known())


def _completions(session: Session, document: Document, event: CompleteEvent) -> Iterable[Completion]:
    return NamesCompleter(session.known).get_completions(document, event)


def loop(session: Session, prompt: PromptSession[str] | None = None) -> None:
    """Read and run until the user leaves."""
    at_prompt(session)
    prompt = prompt or make_prompt(session, session.history)
    while True:
        try:
            text = line(prompt, session)
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            if _may_leave(session):
                return
            continue
        if not run_line(session, text):
            return


def run_line(session: Session, text: str) -> bool:
    """Run what was typed; whether the session goes on."""
    try:
        run_typed(session, text)
    except KeyboardInterrupt:
        session.say("interrupted")
    except Leave:
        return not _may_leave(session)
    return True


def _ask(text: str) -> bool:
    """Whether a person says yes; Enter, Ctrl-C and Ctrl-D mean no."""
    try:
        answer = PromptSession[str]().prompt(f"{text} [y/N] ")
    except (KeyboardInterrupt, EOFError):
        return False
    return answer.strip().lower() in ("y", "yes")


def _agreed(session: Session, statement: Statement) -> bool:
    """Whether a statement that takes something away shall run."""
    if not session.preferences.confirm:
        return True
    asked = question(session.database, statement)
    return asked is None or _ask(asked)


def _may_leave(session: Session) -> bool:
    if session.state() != "open" or not session.preferences.confirm:
        return True
    return _ask("a transaction is open; leave, and roll it back?")
