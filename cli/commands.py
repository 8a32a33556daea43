"""The commands of the prompt that are no statements, as values: `COMMANDS` is all there are."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from snapdb.relational.quote import quote, text_literal

from .output import FORMATS
from .shell import Shell

__all__ = ["COMMANDS", "Command", "Leave", "find", "is_command", "run_command"]


class Leave(Exception):  # noqa: N818  # a wish, not an error
    """The prompt should end."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the prompt."""

    names: tuple[str, ...]
    """With their backslash or dot, the one to show first."""
    argument: str
    """How its argument reads in the help; empty for none."""
    help: str
    run: Callable[[Shell, str], None]
    """Called with what followed the name, stripped."""


def is_command(text: str) -> bool:
    """Whether a line is a command rather than a statement.

    >>> is_command("\\\\d payments"), is_command("quit;"), is_command("SELECT 1")
    (True, True, False)
    """
    line = text.strip()
    return line.startswith(("\\", ".")) or line.rstrip("; ").lower() in ("exit", "quit")


def find(name: str) -> Command | None:
    """The command of that name."""
    return next((c for c in COMMANDS if name in c.names), None)


def run_command(shell: Shell, text: str) -> None:
    """Do what a command line asks.

    Raises:
        Leave: the command was to leave.
    """
    line = text.strip().rstrip(";").rstrip()
    name, _, argument = line.partition(" ")
    command = find(name.lower())
    if command is None:
        known = [n for c in COMMANDS for n in c.names]
        close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else "\\? lists the commands"
        shell.diagnostics.say(f"no command {name}; {hint}")
        return
    try:
        command.run(shell, argument.strip().strip("'\""))
    except (OSError, UnicodeDecodeError) as error:
        shell.diagnostics.say(f"{name}: {error}")


def _describe(shell: Shell, name: str) -> None:
    names = shell.names()
    if not name:
        kinds = [kind for kind in ("tables", "graphs", "snapshots") if names.get(kind)]
        for kind in kinds:
            shell.execute(f"SHOW {kind.upper()}")
        if not kinds:
            shell.diagnostics.say("nothing here yet; CREATE TABLE name AS SELECT * FROM 'file.parquet'; makes a table")
        return
    if "." in name:
        path = ".".join(quote(part) for part in name.split("."))
        shell.execute(f"DESCRIBE SELECT * FROM {path}")
        return
    for kind in ("tables", "graphs", "snapshots"):
        found = next((n for n in names.get(kind, []) if n.casefold() == name.casefold()), None)
        if found is not None:
            shell.execute(f"DESCRIBE {kind[:-1].upper()} {quote(found)}")
            return
    known = [n for kind in ("tables", "graphs", "snapshots") for n in names.get(kind, [])]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else "\\d lists what there is"
    shell.diagnostics.say(f"no table, graph or snapshot {name}; {hint}")


def _show(kind: str) -> Callable[[Shell, str], None]:
    def run(shell: Shell, pattern: str) -> None:
        like = f" LIKE {text_literal(pattern.replace('*', '%'))}" if pattern else ""
        shell.execute(f"SHOW {kind}{like}")

    return run


def _timing(shell: Shell, argument: str) -> None:
    shell.timing = _switched(shell.timing, argument)
    shell.diagnostics.say(f"timing is {'on' if shell.timing else 'off'}")


def _expanded(shell: Shell, argument: str) -> None:
    shell.output.expanded = _switched(shell.output.expanded, argument)
    shell.diagnostics.say(f"expanded display is {'on' if shell.output.expanded else 'off'}")


def _switched(now: bool, argument: str) -> bool:
    return {"on": True, "off": False}.get(argument.lower(), not now)


def _mode(shell: Shell, argument: str) -> None:
    if argument.lower() in FORMATS:
        shell.output.format = argument.lower()
    elif argument:
        shell.diagnostics.say(f"no format {argument}; there are {', '.join(FORMATS)}")
    else:
        shell.diagnostics.say(f"results are shown as {shell.output.format}; there are {', '.join(FORMATS)}")


def _output(shell: Shell, argument: str) -> None:
    shell.output.redirect(Path(argument).expanduser() if argument else None)
    shell.diagnostics.say(f"results go to {argument or 'the screen'}")


def _input(shell: Shell, argument: str) -> None:
    if not argument:
        shell.diagnostics.say("which file? \\i FILE runs its statements")
        return
    shell.execute(Path(argument).expanduser().read_text(encoding="utf-8-sig"), origin=argument)


def _help(shell: Shell, argument: str) -> None:
    left = [", ".join(c.names) + (f" {c.argument}" if c.argument else "") for c in COMMANDS]
    width = max(map(len, left))
    lines = [f"  {text:<{width}}  {c.help}" for text, c in zip(left, COMMANDS, strict=True)]
    keys = [
        "Statements end with ; and may take several lines. Esc Enter runs what stands there as it is.",
        "Ctrl-C clears the line or stops the statement, Ctrl-D leaves, Tab completes, Ctrl-R searches what was typed.",
    ]
    shell.diagnostics.say("\n".join([*lines, *keys]))


def _leave(shell: Shell, argument: str) -> None:
    raise Leave


COMMANDS = (
    Command(("\\d", ".schema"), "[NAME]", "list tables, graphs and snapshots, or describe one", _describe),
    Command(("\\dt", ".tables"), "[PATTERN]", "list tables; * stands for anything", _show("TABLES")),
    Command(("\\dg", ".graphs"), "[PATTERN]", "list property graphs", _show("GRAPHS")),
    Command(("\\ds", ".snapshots"), "[PATTERN]", "list snapshots", _show("SNAPSHOTS")),
    Command(("\\x",), "[on|off]", "show each row as lines of name and value", _expanded),
    Command(("\\timing", ".timer"), "[on|off]", "tell how long each statement took", _timing),
    Command((".mode",), "[FORMAT]", f"show results as {', '.join(FORMATS)}", _mode),
    Command(("\\o", ".output"), "[FILE]", "send results to a new file, without FILE back to the screen", _output),
    Command(("\\i", ".read"), "FILE", "run the statements of a file", _input),
    Command(("\\?", "\\h", "\\help", ".help"), "", "this help", _help),
    Command(("\\q", ".quit", ".exit", "quit", "exit"), "", "leave", _leave),
)
