"""The commands of the prompt that show and change preferences."""

from collections.abc import Callable, Sequence

from snapdb_cli.repl.command_text import two_columns, unquoted
from snapdb_cli.repl.preferences import PREFERENCES, Preferences, spelled
from snapdb_cli.repl.session import ReplSession

_PSQL = {"pager": "pager", "null": "null", "expanded": "expanded", "x": "expanded", "format": "format"}
"""Maps the option names of psql's \\pset to setting names."""


def switch(name: str, title: str) -> Callable[[ReplSession, str], None]:
    """Return a command that turns a preference on or off, or toggles it without an argument."""

    def run(session: ReplSession, argument: str) -> None:
        now = getattr(session.preferences, name)
        session.set(name, argument or not now)
        session.say(f"{title} is {spelled(getattr(session.preferences, name))}")

    return run


def value(name: str, title: str) -> Callable[[ReplSession, str], None]:
    """Return a command that sets a preference, or shows it without an argument."""

    def run(session: ReplSession, argument: str) -> None:
        if argument:
            session.set(name, unquoted(argument))
        choices = PREFERENCES[name].values
        others = f"; the values are {', '.join(choices)}" if choices and not argument else ""
        session.say(f"{title} is {_shown(name, session.preferences)}{others}")

    return run


def _shown(name: str, preferences: Preferences) -> str:
    value = getattr(preferences, name)
    return "all" if name == "max_rows" and value is None else spelled(value) if value != "" else "''"


def set_setting(session: ReplSession, argument: str) -> None:
    """Change a preference, or list them."""
    name, _, text = argument.partition(" ")
    name, equals, rest = name.partition("=")
    text = rest if equals else text
    name = _PSQL.get(name.lower(), name.lower())
    if name and (text.strip() or equals):
        session.set(name, unquoted(text.strip()))
        session.say(f"{name} is {_shown(name, session.preferences)}")
        return
    if name and name not in PREFERENCES:
        session.set(name, "")  # raises an error that lists the settings
    _list_settings(session, [name] if name else list(PREFERENCES))


def _list_settings(session: ReplSession, names: Sequence[str]) -> None:
    session.say(
        two_columns((f"{name} = {_shown(name, session.preferences)}", PREFERENCES[name].help) for name in names)
    )


def unset_setting(session: ReplSession, argument: str) -> None:
    """Reset a preference to its default.

    Raises:
        ValueError: The name is missing.
    """
    name = argument.strip().lower()
    if not name:
        raise ValueError("missing argument: the name of a setting; \\set lists the names")
    default = getattr(Preferences(), name, "")
    session.set(name, "all" if name == "max_rows" and default is None else spelled(default))
    session.say(f"{name} is {_shown(name, session.preferences)}")
