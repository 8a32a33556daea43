"""The commands of the prompt that are not statements. `COMMANDS` lists all of them."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from snapdb.errors import SnapdbError
from snapdb.interrupts import interruptible
from snapdb.sql.reference import help_text
from snapdb.sql_engine import quote, text_literal
from snapdb.types.text import counted
from snapdb_cli import plots
from snapdb_cli.diagnostics import ExitCode
from snapdb_cli.repl.command_text import two_columns, unquoted
from snapdb_cli.repl.preferences import NamedQueries
from snapdb_cli.repl.prompt import is_command, is_empty, trailing
from snapdb_cli.repl.session import ReplSession
from snapdb_cli.repl.setting_commands import set_setting, switch, unset_setting, value
from snapdb_cli.terminal import PagerClosed

_ArgumentKind = tuple[str, ...] | Literal["file", "statement", "topic", "setting", "format", "query", "switch"]
"""The candidates that completion offers for the argument: names of the given kinds, or other candidates."""


class Leave(Exception):  # noqa: N818  # a request, not an error
    """Raised to end the prompt."""


class _Command(NamedTuple):
    """One command of the prompt."""

    names: tuple[str, ...]
    """The names, including the backslash or dot. The first one is the main name."""
    argument: str
    """The argument as shown in the help, or empty if there is none."""
    help: str
    run: Callable[[ReplSession, str], None]
    """Called with the stripped text after the name."""
    takes: _ArgumentKind = ()


def run_typed(session: ReplSession, text: str) -> None:
    """Run the typed text: a command, or statements that a command can follow, as in `SELECT 1 \\gx`.

    Raises:
        Leave: The command ends the prompt.
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
        session.last = statement  # the command runs the statement, or uses it in another way
    else:
        session.execute(statement)
    run_command(session, command)


def find(name: str) -> _Command | None:
    """Return the command with that name."""
    return next((c for c in COMMANDS if name in c.names), None)


def run_command(session: ReplSession, text: str) -> None:
    """Run a command line. An error is shown as a message.

    Raises:
        Leave: The command ends the prompt.
    """
    line = text.strip()
    name, _, argument = line.partition(" ")
    if name.startswith("\\!") and len(name) > 2:  # as in psql, \!ls is \! ls
        name, argument = "\\!", f"{name[2:]} {argument}"
    command = find(name.lower().rstrip(";"))
    if command is None:
        session.say(f"unknown command {name}; {_hint(name.lower())}")
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


_STATEMENTS = {
    "\\copy": "COPY t TO 'file' or COPY t FROM 'file'",
    ".import": "COPY t FROM 'file', or CREATE TABLE t AS SELECT * FROM 'file'",
    ".export": "COPY t TO 'file'",
    "\\explain": "EXPLAIN",
}
"""Commands of other shells for which snapdb has equivalent statements."""


def _hint(name: str) -> str:
    """Return a hint on what to type instead of an unknown command."""
    if name in _STATEMENTS:
        return f"write {_STATEMENTS[name]}"
    known = [n for c in COMMANDS for n in c.names]
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "\\? lists the commands"


def _argument(command: _Command, text: str) -> str:
    """Return the argument after the name, without a trailing semicolon unless it is a statement."""
    text = text.strip()
    return text if command.takes in ("statement", "query") else text.rstrip(";").rstrip()


_KINDS = ("tables", "views", "graphs", "snapshots", "samplers", "caches", "tasks")


def _describe(session: ReplSession, argument: str) -> None:
    name = unquoted(argument)
    if not name:
        _list(session)
    elif "." in name:
        path = ".".join(quote(part) for part in name.split("."))
        session.shell.execute(f"DESCRIBE SELECT * FROM {path}")
    elif match := _find(session, name):
        kind, given = match
        session.shell.execute(f"DESCRIBE {kind} {quote(given)}")


def _more(session: ReplSession, argument: str) -> None:
    """Run `\\d`, then show the versions of a table, the summary of a snapshot or the runs of a task."""
    _describe(session, argument)
    name = unquoted(argument)
    if not name or "." in name or (match := _find(session, name, quiet=True)) is None:
        return
    kind, given = match
    statements = {"TABLE": "SHOW VERSIONS OF", "SNAPSHOT": "SUMMARIZE SNAPSHOT", "TASK": "SHOW TASK RUNS OF"}
    if kind in statements:
        session.shell.execute(f"{statements[kind]} {quote(given)}")


def _list(session: ReplSession) -> None:
    known = session.known()
    kinds = [kind for kind in _KINDS if known.of(kind)]
    for kind in kinds:
        session.shell.execute(f"SHOW {kind.upper()}")
    if not kinds:
        session.say("the database is empty; create a table: CREATE TABLE name AS SELECT * FROM 'file.parquet';")


def _find(session: ReplSession, name: str, *, quiet: bool = False) -> tuple[str, str] | None:
    """Return the kind and the exact name of an object. If there is none, show a message with the nearest name."""
    known = session.known()
    for kind in _KINDS:
        for given in known.of(kind):
            if given.casefold() == name.casefold():
                return kind[:-1].upper(), given
    if not quiet:
        close = get_close_matches(name, known.of(*_KINDS), n=1)
        hint = f"did you mean {close[0]}?" if close else "\\d lists all objects"
        session.say(f"no table, graph, snapshot, sampler, cache or task is named {name}; {hint}")
    return None


def _show(kind: str) -> Callable[[ReplSession, str], None]:
    def run(session: ReplSession, argument: str) -> None:
        pattern = unquoted(argument)
        like = f" LIKE {text_literal(pattern.replace('*', '%'))}" if pattern else ""
        session.shell.execute(f"SHOW {kind}{like}")

    return run


def _versions(session: ReplSession, argument: str) -> None:
    table = unquoted(argument)
    session.shell.execute(f"SHOW VERSIONS OF {quote(table)}" if table else "SHOW VERSIONS")


def _functions(session: ReplSession, argument: str) -> None:
    pattern = text_literal((unquoted(argument) or "*").replace("*", "%"))
    session.shell.execute(
        "SELECT function_name AS function, parameters, return_type AS returns, any_value(description) AS description "
        f"FROM duckdb_functions() WHERE function_name LIKE {pattern} GROUP BY ALL ORDER BY ALL"
    )


def _connection(session: ReplSession, argument: str) -> None:
    database = session.database
    state = {
        "idle": "no transaction",
        "open": "a transaction is open",
        "failed": "the transaction is aborted; write ROLLBACK",
    }
    known = session.known()
    counts = ", ".join(counted(len(known.of(kind)), kind[:-1]) for kind in _KINDS)
    what = "a temporary database, deleted on exit" if database.temporary else f"the database {database.path}"
    only = " (read-only)" if session.opening.get("read_only") and not database.temporary else ""
    session.say(f"{what}{only}: {counts}; {state[database.transaction_state]}")


_PLOTTED = re.compile(r"""\"[^"]*\"|'[^']*'|\S+""")
"""A name in quotes, or a word."""


def _plot(session: ReplSession, argument: str) -> None:
    """Show the growth of tables by version, or the growth and the degrees of a snapshot."""
    words = [unquoted(word) for word in _PLOTTED.findall(argument)]
    if len(words) > 2:
        raise ValueError("too many arguments; write \\plot [TABLE | SNAPSHOT [ELEMENT]]")
    name, element = (*words, "", "")[:2]
    with interruptible(session.database.interrupt):
        charts = plots.plot(session.database, name, element)
    if not charts:
        session.say(f"{name or 'the database'} has no rows to plot")
        return
    with suppress(PagerClosed):
        session.shell.output.draw(lambda width, color, box: plots.draw(charts, width, color=color, unicode=box))


_SHOWN_HISTORY = 50
_WIDEST = 100
"""The maximum number of characters in a line of the help."""


def _again(session: ReplSession, argument: str) -> None:
    """Run the last statements again. An argument sends their results to a file or program."""
    if text := _last(session):
        with session.once(unquoted(argument)) if argument else nullcontext():
            session.shell.execute(text)


def _again_expanded(session: ReplSession, argument: str) -> None:
    output = session.shell.output
    style, output.style = output.style, replace(output.style, expanded=True)
    try:
        _again(session, argument)
    finally:
        output.style = style


def _last(session: ReplSession) -> str:
    if not session.last:
        session.say("no statement has been run yet; statements end with ;")
    return session.last


def _print(session: ReplSession, argument: str) -> None:
    if text := _last(session):
        session.say(text)


def _watch(session: ReplSession, argument: str) -> None:
    """Run the last statements repeatedly until Ctrl-C, an error or the given number of runs."""
    seconds, count = _pace(argument)
    text = _last(session)
    runs = 0
    with suppress(KeyboardInterrupt):
        while text:
            runs += 1
            session.say(
                f"{datetime.now():%H:%M:%S}, every {seconds:g} s, run {runs}" + (f" of {count}" if count else "")
            )
            if session.shell.execute(text) is not ExitCode.OK or runs == count:
                break
            time.sleep(seconds)
    if text:
        session.say(f"stopped after {counted(runs, 'run')}")


def _pace(argument: str) -> tuple[float, int | None]:
    """Parse the interval in seconds and the number of runs from `2`, `2 5` or, as in psql, `i=2 c=5`."""
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
                f"\\watch requires a number of seconds and a number of runs, as in \\watch 2 10, found {word}"
            ) from None
    return seconds, count


def _send(session: ReplSession, argument: str) -> None:
    target = unquoted(argument)
    session.send(target)
    session.say(f"results are written to {target or 'the terminal'}")


def _once(session: ReplSession, argument: str) -> None:
    if not argument:
        raise ValueError("missing argument; write .once FILE or .once | COMMAND")
    session.next_target = unquoted(argument)


def _input(session: ReplSession, argument: str) -> None:
    if not argument:
        raise ValueError("missing argument; write \\i FILE")
    session.run_file(unquoted(argument), run_command)


def _edit(session: ReplSession, argument: str) -> None:
    """Open a statement in an editor. The edited text becomes the prompt's initial text."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    file, name = tempfile.mkstemp(suffix=".sql", prefix="snapdb-")
    path = Path(name)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write((argument or session.last) + "\n")
        done = subprocess.run([*shlex.split(editor), name], check=False)  # noqa: S603  # the user's own editor
        if done.returncode:
            raise ValueError(f"{editor} exited with code {done.returncode}, so the edited text was discarded")
        session.draft = path.read_text(encoding="utf-8-sig").strip()
    finally:
        path.unlink(missing_ok=True)


def _history(session: ReplSession, argument: str) -> None:
    """Show the last N history entries, or those that contain the given text, newest last."""
    entries = list(session.history.get_strings())
    if argument.isdigit():
        entries = entries[-int(argument) :]
    else:
        entries = [entry for entry in entries if argument.lower() in entry.lower()][-_SHOWN_HISTORY:]
    session.say(
        "\n".join(entries)
        if entries
        else "the history is empty"
        if not argument
        else f"no history entry contains {argument}"
    )


def _query(session: ReplSession, argument: str) -> None:
    """Run a named query with its arguments, or list the named queries."""
    name, _, rest = argument.partition(" ")
    if not name:
        known = NamedQueries().texts()
        listed = two_columns((key, " ".join(text.split())) for key, text in known.items())
        session.say(listed or "no named queries exist; \\ns NAME QUERY saves one")
        return
    text = NamedQueries().filled(name, rest)
    session.say(text)
    session.execute(text)


def _save(session: ReplSession, argument: str) -> None:
    name, _, text = argument.partition(" ")
    text = text.strip() or session.last
    if not name or not text:
        raise ValueError(
            "write \\ns NAME QUERY to save a query, or \\ns NAME to save the last one; arguments replace $1, $2"
        )
    path = NamedQueries().save(name, text)
    session.say(f"query {name} was saved in {path}; \\n {name} runs it")


def _forget(session: ReplSession, argument: str) -> None:
    if not argument:
        raise ValueError("missing argument: the name of a query; \\n lists the names")
    NamedQueries().drop(argument)
    session.say(f"query {argument} was deleted")


def _shell(session: ReplSession, argument: str) -> None:
    command = argument or os.environ.get("SHELL") or "sh"
    code = subprocess.run(command, shell=True, check=False).returncode  # noqa: S602  # what the user typed
    if code:
        session.say(f"{command} exited with code {code}")


def _folder(session: ReplSession, argument: str) -> None:
    os.chdir(Path(unquoted(argument) or "~").expanduser())
    session.say(f"the working directory is {Path.cwd()}")


def _echo(session: ReplSession, argument: str) -> None:
    session.say(unquoted(argument))


def _open(session: ReplSession, argument: str) -> None:
    if session.database.transaction_state != "idle":
        raise ValueError("a transaction is open; COMMIT or ROLLBACK it first")
    place = unquoted(argument)
    if re.match(r"-{1,2}\w", place):
        raise ValueError(f"\\open requires the path of a database, found {place}")
    new = bool(place) and not Path(place).expanduser().exists()
    session.open(place)
    session.say(
        f"connected to {session.title() if place else 'a temporary database'}{', a new database' if new else ''}"
    )


def _syntax(session: ReplSession, argument: str) -> None:
    """Show the syntax of a statement, or list the statements."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    text = help_text(argument, width)
    session.show(
        text if argument else f"{text}\n\n\\h STATEMENT shows a statement's syntax and clauses, and an example."
    )


def _help(session: ReplSession, argument: str) -> None:
    wanted = argument.lower().lstrip("\\.")
    chosen = [c for c in COMMANDS if not wanted or any(wanted in name for name in c.names) or wanted in c.help]
    rows = [(", ".join(c.names) + (f" {c.argument}" if c.argument else ""), c.help) for c in chosen]
    if not rows:
        with suppress(ValueError):
            _syntax(session, argument)
            return
        session.say(f"no command matches {argument}; \\? lists all commands")
        return
    session.show(two_columns(rows) + ("" if wanted else f"\n{_KEYS}"))


def _leave(session: ReplSession, argument: str) -> None:
    raise Leave


_KEYS = """Statements end with ; and can span several lines. Esc Enter runs the input, with
or without ;. Ctrl-C clears the line or interrupts the statement, Ctrl-D quits,
Ctrl-Z suspends the prompt, Tab completes, Ctrl-R searches the history, Ctrl-X
Ctrl-E edits the input in $EDITOR. A command can follow a statement, as in
SELECT 1 \\gx."""

COMMANDS = (
    _Command(("\\d", ".schema"), "[NAME]", "list all objects, or describe one", _describe, _KINDS),
    _Command(
        ("\\d+",), "NAME", "the same, with a table's versions, a snapshot's statistics or a task's runs", _more, _KINDS
    ),
    _Command(("\\dt", ".tables"), "[PATTERN]", "list tables; * matches any text", _show("TABLES"), ("tables",)),
    _Command(("\\dg", ".graphs"), "[PATTERN]", "list property graphs", _show("GRAPHS"), ("graphs",)),
    _Command(("\\ds", "\\dn", ".snapshots"), "[PATTERN]", "list snapshots", _show("SNAPSHOTS"), ("snapshots",)),
    _Command(("\\dp", ".samplers"), "[PATTERN]", "list samplers", _show("SAMPLERS"), ("samplers",)),
    _Command(("\\dc", ".caches"), "[PATTERN]", "list caches", _show("CACHES"), ("caches",)),
    _Command(("\\dk", ".tasks"), "[PATTERN]", "list tasks", _show("TASKS"), ("tasks",)),
    _Command(("\\dv", ".versions"), "[TABLE]", "list all versions, or those of a table", _versions, ("tables",)),
    _Command((".views",), "[PATTERN]", "list views", _show("VIEWS"), ("views",)),
    _Command((".macros",), "[PATTERN]", "list macros", _show("MACROS")),
    _Command((".tags",), "[PATTERN]", "list tags", _show("TAGS"), ("tags",)),
    _Command(("\\df", ".functions"), "[PATTERN]", "list the functions for queries", _functions, ("functions",)),
    _Command(
        ("\\plot",),
        "[TABLE | SNAPSHOT [ELEMENT]]",
        "show charts of the growth of tables by version, or of the growth and degrees of a snapshot",
        _plot,
        ("tables", "snapshots"),
    ),
    _Command(("\\conninfo", "\\l", ".databases"), "", "show the current database", _connection),
    _Command(
        ("\\g",),
        "[FILE | |COMMAND]",
        "run the last statement again, or send its result to a file or program",
        _again,
        "file",
    ),
    _Command(("\\gx",), "", "run the last statement again, and show one line per column", _again_expanded),
    _Command(("\\p",), "", "show the last statement", _print),
    _Command(
        ("\\e", "\\edit", ".edit"),
        "[STATEMENT]",
        "edit the last statement, or a given one, in $EDITOR",
        _edit,
        "statement",
    ),
    _Command(("\\watch",), "[SECONDS [RUNS]]", "run the last statement repeatedly until Ctrl-C", _watch),
    _Command(("\\i", "\\ir", ".read"), "FILE", "run the statements and commands of a file", _input, "file"),
    _Command(
        ("\\o", ".output"),
        "[FILE | |COMMAND]",
        "send results to a file or program, or back to the screen",
        _send,
        "file",
    ),
    _Command((".once",), "FILE | |COMMAND", "send the next result to a file or program", _once, "file"),
    _Command(("\\n",), "[NAME [ARGUMENTS]]", "run a named query, or list the named queries", _query, "query"),
    _Command(("\\ns",), "NAME [QUERY]", "save a query, or the last one, under a name", _save, "query"),
    _Command(("\\nd",), "NAME", "delete a named query", _forget, "query"),
    _Command(("\\s", ".history"), "[NUMBER | TEXT]", "show the history, newest last", _history),
    _Command(("\\!", ".shell", ".system"), "[COMMAND]", "run a shell command", _shell, "file"),
    _Command(("\\cd", ".cd"), "[FOLDER]", "change the working directory", _folder, "file"),
    _Command(("\\echo", "\\qecho", ".print"), "[TEXT]", "print a text", _echo),
    _Command(("\\open", "\\c", "\\connect", ".open"), "[PATH]", "open another database", _open, "file"),
    _Command(
        ("\\x",),
        "[on|off|auto]",
        "show one line per column; auto: only for wide results",
        switch("expanded", "expanded display"),
        "switch",
    ),
    _Command(
        ("\\timing", ".timer"), "[on|off]", "show the duration of each statement", switch("timing", "timing"), "switch"
    ),
    _Command(
        (".mode", "\\f"),
        "[FORMAT]",
        "set the output format: table, csv, tsv, json, jsonl, markdown",
        value("format", "the format"),
        "format",
    ),
    _Command(
        (".headers", ".header"),
        "[on|off]",
        "show a header row in csv and tsv",
        switch("header", "the header"),
        "switch",
    ),
    _Command(
        (".maxrows", "\\maxrows"),
        "[N|all]",
        "set the maximum number of table rows",
        value("max_rows", "the maximum number of table rows"),
    ),
    _Command((".nullvalue", "\\null"), "[TEXT]", "set the text shown for NULL", value("null", "the text for NULL")),
    _Command(
        ("\\pager", ".pager"),
        "[on|off|auto|COMMAND]",
        "show long results in a pager",
        value("pager", "the pager"),
        "switch",
    ),
    _Command(
        ("\\set", "\\pset", ".show"), "[NAME [VALUE]]", "change a setting, or list the settings", set_setting, "setting"
    ),
    _Command(("\\unset",), "NAME", "reset a setting to its default", unset_setting, "setting"),
    _Command(
        ("\\h",),
        "[STATEMENT]",
        "show the syntax of a statement with an example, or list the statements",
        _syntax,
        "topic",
    ),
    _Command(
        ("\\?", "\\help", ".help", "help", "?"), "[WORD]", "show this help, or the commands that match a word", _help
    ),
    _Command(("\\q", ".quit", ".exit", "quit", "exit"), "", "quit", _leave),
)
