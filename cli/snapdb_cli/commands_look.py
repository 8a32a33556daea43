"""Commands that change how results look and how the prompt behaves: each sets a preference for the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .commands_core import Command, two_columns, unquoted
from .config import PREFERENCES, Preferences, spelled
from .repl_session import Session

_PSQL = {"pager": "pager", "null": "null", "expanded": "expanded", "x": "expanded", "format": "format"}
"""What psql's \\pset calls some of them."""


def _switch(name: str, title: str) -> Callable[[Session, str], None]:
    """A command that turns a preference on and off, or over where nothing is said."""

    def run(session: Session, argument: str) -> None:
        now = getattr(session.preferences, name)
        session.set(name, argument or not now)
        session.say(f"{title} is {spelled(getattr(session.preferences, name))}")

    return run


def _value(name: str, title: str) -> Callable[[Session, str], None]:
    """A command that sets a preference, or tells it where nothing is said."""

    def run(session: Session, argument: str) -> None:
        if argument:
            session.set(name, unquoted(argument))
        choices = PREFERENCES[name].values
        others = f"; it may be {', '.join(choices)}" if choices and not argument else ""
        session.say(f"{title} is {_shown(name, session.preferences)}{others}")

    return run


def _shown(name: str, preferences: Preferences) -> str:
    value = getattr(preferences, name)
    return "all" if name == "max_rows" and value is None else spelled(value) if value != "" else "''"


def _set(session: Session, argument: str) -> None:
    name, _, value = argument.partition(" ")
    name, equals, rest = name.partition("=")
    value = rest if equals else value
    name = _PSQL.get(name.lower(), name.lower())
    if name and (value.strip() or equals):
        session.set(name, unquoted(value.strip()))
        session.say(f"{name} is {_shown(name, session.preferences)}")
        return
    if name and name not in PREFERENCES:
        session.set(name, "")  # refused, with what there is
    _list(session, [name] if name else list(PREFERENCES))


def _list(session: Session, names: Sequence[str]) -> None:
    session.say(
        two_columns((f"{name} = {_shown(name, session.preferences)}", PREFERENCES[name].help) for name in names)
    )


def _unset(session: Session, argument: str) -> None:
    name = argument.strip().lower()
    if not name:
        raise ValueError("which setting? \\set lists them")
    default = getattr(Preferences(), name, "")
    session.set(name, "all" if name == "max_rows" and default is None else spelled(default))
    session.say(f"{name} is {_shown(name, session.preferences)}")


LOOKING = (
    Command(
        ("\\x",),
        "[on|off|auto]",
        "show each row as lines of name and value; auto: where it is too wide",
        _switch("expanded", "expanded display"),
        "switch",
    ),
    Command(
        ("\\timing", ".timer"), "[on|off]", "tell how long each statement took", _switch("timing", "timing"), "switch"
    ),
    Command(
        (".mode", "\\f"),
        "[FORMAT]",
        "how results are shown: table, csv, tsv, json, jsonl, markdown",
        _value("format", "the format"),
        "format",
    ),
    Command(
        (".headers", ".header"),
        "[on|off]",
        "whether csv and tsv name their columns",
        _switch("header", "the header"),
        "switch",
    ),
    Command(
        (".maxrows", "\\maxrows"),
        "[N|all]",
        "how many rows of a table are shown",
        _value("max_rows", "the number of rows shown"),
    ),
    Command((".nullvalue", "\\null"), "[TEXT]", "what stands for NULL", _value("null", "the text for NULL")),
    Command(
        ("\\pager", ".pager"),
        "[on|off|auto|COMMAND]",
        "show long results in a pager",
        _value("pager", "the pager"),
        "switch",
    ),
    Command(("\\set", "\\pset", ".show"), "[NAME [VALUE]]", "change a setting, or list them", _set, "setting"),
    Command(("\\unset",), "NAME", "set a setting back", _unset, "setting"),
)
