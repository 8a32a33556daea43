"""The commands of the prompt that are no statements, as values: `COMMANDS` is all there are."""

from __future__ import annotations

import difflib

from snapdb.errors import SnapdbError

from .commands_core import Command, Leave, Takes, two_columns
from .commands_look import LOOKING
from .commands_run import RUNNING
from .commands_show import SHOWING
from .commands_typed import is_command, is_empty, trailing
from .repl_session import Session


def run_typed(session: Session, text: str) -> None:
    """Run what a person typed: a command, or statements and perhaps a command behind them, as in `SELECT 1 \\gx`.

    Raises:
        Leave: the command was to leave.
    """
    if is_command(text):
        run_command(session, text)
        return
    if is_empty(text):
        return
    place = trailing(text)
    if place is None:
        target, session.next_target = session.next_target, ""
        if target:
            with session.once(target):
                session.execute(text)
        else:
            session.execute(text)
        return
    statement, command = text[:place].rstrip(), text[place:]
    if command.split()[0] in ("\\g", "\\gx", "\\watch", "\\p", "\\e", "\\edit", "\\ns"):
        session.last = statement  # the command runs it, or takes it elsewhere
    else:
        session.execute(statement)
    run_command(session, command)


def find(name: str) -> Command | None:
    """The command of that name."""
    return next((c for c in COMMANDS if name in c.names), None)


def takes(name: str) -> Takes:
    """What the command of that name takes, for completion."""
    command = find(name.lower())
    return () if command is None else command.takes


def run_command(session: Session, text: str) -> None:
    """Do what a command line asks; what cannot be done is said.

    Raises:
        Leave: the command was to leave.
    """
    line = text.strip()
    name, _, argument = line.partition(" ")
    if name.startswith("\\!") and len(name) > 2:  # psql takes \!ls
        name, argument = "\\!", f"{name[2:]} {argument}"
    command = find(name.lower().rstrip(";"))
    if command is None:
        session.say(f"no command {name}; {_hint(name.lower())}")
        return
    try:
        command.run(session, _argument(command, argument))
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        session.say(f"{name}: {error.strerror or error}{where}")
    except ValueError as error:
        session.say(f"{name}: {error}")
    except SnapdbError as error:
        session.shell.diagnostics.report(error)


def _hint(name: str) -> str:
    """What to type in place of a command that there is not."""
    if name in _STATEMENTS:
        return f"{_STATEMENTS[name]} is a statement here"
    known = [n for c in COMMANDS for n in c.names]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "\\? lists the commands"


def _argument(command: Command, text: str) -> str:
    """What follows the name; a semicolon out of habit is no part of it, unless statements are taken."""
    text = text.strip()
    return text if command.takes in ("statement", "query") else text.rstrip(";").rstrip()


def _help(session: Session, argument: str) -> None:
    wanted = argument.lower().lstrip("\\.")
    chosen = [c for c in COMMANDS if not wanted or any(wanted in name for name in c.names) or wanted in c.help]
    rows = [(", ".join(c.names) + (f" {c.argument}" if c.argument else ""), c.help) for c in chosen]
    if rows:
        session.say(two_columns(rows))
    else:
        session.say(f"no command has to do with {argument}; \\? lists them all")
    if not wanted:
        session.say(_KEYS)


def _leave(session: Session, argument: str) -> None:
    raise Leave


_KEYS = """Statements end with ; and may take several lines. Esc Enter runs what stands
there as it is. Ctrl-C clears the line or stops the statement, Ctrl-D leaves,
Ctrl-Z suspends, Tab completes, Ctrl-R searches what was typed, Ctrl-X Ctrl-E
edits it in $EDITOR. A command may stand behind a statement: SELECT 1 \\gx."""
_STATEMENTS = {
    "\\copy": "COPY t TO 'file' or COPY t FROM 'file'",
    ".import": "COPY t FROM 'file', or CREATE TABLE t AS SELECT * FROM 'file',",
    ".export": "COPY t TO 'file'",
    "\\explain": "EXPLAIN",
}
"""What other shells have commands for."""
COMMANDS = (
    *SHOWING,
    *RUNNING,
    *LOOKING,
    Command(("\\?", "\\h", "\\help", ".help", "help", "?"), "[WORD]", "this help, or the part with a word", _help),
    Command(("\\q", ".quit", ".exit", "quit", "exit"), "", "leave", _leave),
)
