"""Commands that run, repeat and keep statements, and that send results elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

from snapdb.types.text import counted

from .commands_core import Command, two_columns, unquoted
from .diagnostics import ExitCode
from .named import drop_query, filled, load_query, queries, save_query, split_arguments
from .repl_session import Session

_SHOWN_HISTORY = 50


def _again(session: Session, argument: str) -> None:
    """Run the last statements again, with their results once to a file or program."""
    if text := _last(session):
        with session.once(unquoted(argument)) if argument else nullcontext():
            session.shell.execute(text)


def _again_expanded(session: Session, argument: str) -> None:
    before, session.shell.output.expanded = session.shell.output.expanded, True
    try:
        _again(session, argument)
    finally:
        session.shell.output.expanded = before


def _last(session: Session) -> str:
    if not session.last:
        session.say("nothing was run yet; a statement ends with ;")
    return session.last


def _print(session: Session, argument: str) -> None:
    if text := _last(session):
        session.say(text)


def _watch(session: Session, argument: str) -> None:
    """Run the last statements over and over, until Ctrl-C, an error or as often as was said."""
    seconds, count = _pace(argument)
    text = _last(session)
    runs = 0
    try:
        while text:
            runs += 1
            session.say(
                f"{datetime.now():%H:%M:%S}, every {seconds:g} s, run {runs}" + (f" of {count}" if count else "")
            )
            if session.shell.execute(text) is not ExitCode.OK or runs == count:
                break
            time.sleep(seconds)
    except KeyboardInterrupt:
        pass
    if text:
        session.say(f"stopped after {counted(runs, 'run')}")


def _pace(argument: str) -> tuple[float, int | None]:
    """Seconds and number of runs, as `2`, `2 5` or psql's `i=2 c=5`."""
    seconds, count = 2.0, None
    for place, word in enumerate(argument.split()):
        name, equals, value = word.partition("=")
        name, value = (name, value) if equals else ("ic"[min(place, 1)], word)
        try:
            if name in ("i", "interval"):
                seconds = float(value)
            elif name in ("c", "count"):
                count = int(value)
            else:
                raise ValueError
            if seconds < 0 or seconds > 86_400 or (count is not None and count < 1):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"\\watch takes seconds and a number of runs, such as \\watch 2 10, found {word}"
            ) from None
    return seconds, count


def _send(session: Session, argument: str) -> None:
    target = unquoted(argument)
    session.send(target)
    session.say(f"results go to {target or 'the screen'}")


def _once(session: Session, argument: str) -> None:
    if not argument:
        raise ValueError("where to? .once FILE or .once | COMMAND")
    session.next_target = unquoted(argument)


def _input(session: Session, argument: str) -> None:
    if not argument:
        raise ValueError("which file? \\i FILE runs its statements")
    session.run_file(unquoted(argument))


def _edit(session: Session, argument: str) -> None:
    """Let the person change a statement in an editor; it then stands at the prompt."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    file, name = tempfile.mkstemp(suffix=".sql", prefix="snapdb-")
    path = Path(name)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write((argument or session.last) + "\n")
        done = subprocess.run([*shlex.split(editor), name], check=False)  # noqa: S603  # the person's own editor
        if done.returncode:
            raise ValueError(f"{editor} failed with code {done.returncode}, so nothing is taken over")
        session.draft = path.read_text(encoding="utf-8-sig").strip()
    finally:
        path.unlink(missing_ok=True)


def _history(session: Session, argument: str) -> None:
    """What was typed, the newest last: all that holds a text, or the last so many."""
    entries = list(session.history.get_strings())
    if argument.isdigit():
        entries = entries[-int(argument) :]
    else:
        entries = [entry for entry in entries if argument.lower() in entry.lower()][-_SHOWN_HISTORY:]
    session.say(
        "\n".join(entries) if entries else "nothing was typed yet" if not argument else f"nothing has {argument}"
    )


def _query(session: Session, argument: str) -> None:
    """Run a named query with its arguments, or list the named queries."""
    name, _, rest = argument.partition(" ")
    if not name:
        known = queries()
        listed = two_columns((key, " ".join(text.split())) for key, text in known.items())
        session.say(listed or "no query has a name yet; \\ns NAME QUERY keeps one")
        return
    text = filled(load_query(name), split_arguments(rest))
    session.say(text)
    session.execute(text)


def _save(session: Session, argument: str) -> None:
    name, _, text = argument.partition(" ")
    text = text.strip() or session.last
    if not name or not text:
        raise ValueError("\\ns NAME QUERY keeps a query, \\ns NAME the last one; $1, $2 stand for arguments")
    path = save_query(name, text)
    session.say(f"\\n {name} runs it; it is kept in {path}")


def _forget(session: Session, argument: str) -> None:
    if not argument:
        raise ValueError("which query? \\n lists them")
    drop_query(argument)
    session.say(f"{argument} is no named query any more")


def _shell(session: Session, argument: str) -> None:
    command = argument or os.environ.get("SHELL") or "sh"
    code = subprocess.run(command, shell=True, check=False).returncode  # noqa: S602  # what the person typed
    if code:
        session.say(f"{command} ended with code {code}")


def _folder(session: Session, argument: str) -> None:
    os.chdir(Path(unquoted(argument) or "~").expanduser())
    session.say(f"relative paths begin at {Path.cwd()}")


def _echo(session: Session, argument: str) -> None:
    session.say(unquoted(argument))


def _open(session: Session, argument: str) -> None:
    if session.database.transaction_state != "idle":
        raise ValueError("a transaction is open; COMMIT or ROLLBACK it first")
    place = unquoted(argument)
    if re.match(r"-{1,2}\w", place):
        raise ValueError(f"\\open takes the path of a database, found {place}")
    new = bool(place) and not Path(place).expanduser().exists()
    session.open(place)
    session.say(f"on {session.title() if place else 'a temporary database'}{', which is new' if new else ''}")


RUNNING = (
    Command(("\\g",), "[FILE | |COMMAND]", "run the last statement again, or to a file or program", _again, "file"),
    Command(("\\gx",), "", "the same, each row as lines of name and value", _again_expanded),
    Command(("\\p",), "", "show the last statement", _print),
    Command(
        ("\\e", "\\edit", ".edit"), "[STATEMENT]", "change the last or a given statement in $EDITOR", _edit, "statement"
    ),
    Command(("\\watch",), "[SECONDS [RUNS]]", "run the last statement again and again, until Ctrl-C", _watch),
    Command(("\\i", "\\ir", ".read"), "FILE", "run the statements and commands of a file", _input, "file"),
    Command(
        ("\\o", ".output"),
        "[FILE | |COMMAND]",
        "send results to a file or program, or back to the screen",
        _send,
        "file",
    ),
    Command((".once",), "FILE | |COMMAND", "send the next result to a file or program", _once, "file"),
    Command(("\\n",), "[NAME [ARGUMENTS]]", "run a named query, or list them", _query, "query"),
    Command(("\\ns",), "NAME [QUERY]", "keep a query, or the last one, by name", _save, "query"),
    Command(("\\nd",), "NAME", "forget a named query", _forget, "query"),
    Command(("\\s", ".history"), "[NUMBER | TEXT]", "show what was typed, the newest last", _history),
    Command(("\\!", ".shell", ".system"), "[COMMAND]", "run a command of the system", _shell, "file"),
    Command(("\\cd", ".cd"), "[FOLDER]", "change the folder at which paths begin", _folder, "file"),
    Command(("\\echo", "\\qecho", ".print"), "[TEXT]", "say a text, in files that are run", _echo),
    Command(("\\open", "\\c", "\\connect", ".open"), "[PATH]", "work with another database", _open, "file"),
)
