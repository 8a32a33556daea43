"""The configuration of the prompt: a TOML file of preferences, each with a name, a default and a meaning.

Read from $SNAPDB_CONFIG, or $XDG_CONFIG_HOME/snapdb/config.toml; `\\set` changes them for a session.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from snapdb.types import did_you_mean

from .given import FORMATS


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a person wants the prompt; `PREFERENCES` says what each means."""

    format: str = "table"
    null: str = "NULL"
    header: bool = True
    max_rows: int | None = 40
    expanded: bool | None = False
    timing: bool = False
    pager: str = "auto"
    confirm: bool = True
    prompt: str = "snapdb"
    keys: str = "emacs"
    multiline: bool = True
    completion: str = "tab"
    suggestions: bool = True
    toolbar: bool = True
    style: str = "default"


class Preference(NamedTuple):
    """One of the preferences."""

    help: str
    values: tuple[str, ...]
    """What may be said, as completion offers it."""
    read: Callable[[Any], Any]
    """The value from a TOML value or from text; ValueError when it is none."""


_SWITCH = ("on", "off")
_STYLES = ("default", "dark", "light", "none")


def _switch(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    return {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}[
        str(given).lower()
    ]


def _switch_or_auto(given: Any) -> bool | None:
    return None if str(given).lower() == "auto" else _switch(given)


def _rows(given: Any) -> int | None:
    if str(given).lower() in ("all", "0", "-1"):
        return None
    rows = int(given)
    if isinstance(given, bool) or rows < 0:
        raise ValueError
    return rows


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError  # every reader says so in one way
    return given


def _pager(given: Any) -> str:
    if isinstance(given, bool):
        return "on" if given else "off"
    text = _text(given).strip()
    return text.lower() if text.lower() in ("on", "off", "auto") else text or "auto"


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(given: Any) -> str:
        found = str(given).lower()
        if found not in words:
            raise ValueError
        return found

    return read


PREFERENCES: Mapping[str, Preference] = MappingProxyType(
    {
        "format": Preference("how results are shown", FORMATS[:-2], _one_of(*FORMATS[:-2])),
        "null": Preference("what stands for NULL", (), _text),
        "header": Preference("whether csv and tsv name their columns", _SWITCH, _switch),
        "max_rows": Preference("rows of a table that are shown, or all", ("40", "all"), _rows),
        "expanded": Preference(
            "each row as lines of name and value; auto: where it is too wide", (*_SWITCH, "auto"), _switch_or_auto
        ),
        "timing": Preference("tell how long each statement took", _SWITCH, _switch),
        "pager": Preference(
            "show long results in a pager: auto, on, off or a command", (*_SWITCH, "auto", "less -SR"), _pager
        ),
        "confirm": Preference("ask before DROP, EXPIRE and VACUUM", _SWITCH, _switch),
        "prompt": Preference("what stands before the mark of the prompt; {database} is its name", ("snapdb",), _text),
        "keys": Preference("keys of emacs or vi", ("emacs", "vi"), _one_of("emacs", "vi")),
        "multiline": Preference("a statement goes on until ;, off: Enter runs the line", _SWITCH, _switch),
        "completion": Preference("offered at Tab, or while typing", ("tab", "typing"), _one_of("tab", "typing")),
        "suggestions": Preference("show the rest of what was typed before in grey", _SWITCH, _switch),
        "toolbar": Preference("a line at the bottom with the database and the transaction", _SWITCH, _switch),
        "style": Preference("colours of what is typed", _STYLES, _one_of(*_STYLES)),
    }
)
"""By name, in the order they are listed; the names are the fields of Preferences."""

assert tuple(PREFERENCES) == tuple(field.name for field in fields(Preferences))


def changed(preferences: Preferences, name: str, given: Any) -> Preferences:
    """The preferences with one of them changed.

    Raises:
        ValueError: there is no such preference, or the value is none of its.

    >>> changed(Preferences(), "max_rows", "all").max_rows, changed(Preferences(), "timing", "on").timing
    (None, True)
    """
    preference = PREFERENCES.get(name)
    if preference is None:
        raise ValueError(f"there is no setting {name}{did_you_mean(name, PREFERENCES) or _known()}")
    try:
        value = preference.read(given)
    except (ValueError, KeyError, TypeError):
        takes = ", ".join(preference.values) or "text in quotes"
        raise ValueError(f"{name} cannot be {given!r}; it takes {takes}") from None
    return replace(preferences, **{name: value})


def _known() -> str:
    return f"; there are {', '.join(PREFERENCES)}"


def spelled(value: Any) -> str:
    """A preference's value as `\\set` takes it.

    >>> spelled(None), spelled(True), spelled(40)
    ('auto', 'on', '40')
    """
    return {None: "auto", True: "on", False: "off"}[value] if value is None or isinstance(value, bool) else str(value)


def config_folder() -> Path:
    """Where the configuration and the named queries are kept."""
    return config_file().parent


def config_file() -> Path:
    """The file that is read, there or not."""
    if said := os.environ.get("SNAPDB_CONFIG"):
        return Path(said).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "snapdb" / "config.toml"


def start_file() -> Path:
    """Statements and commands to run when a prompt begins, there or not."""
    return config_folder() / "rc.sql"


def load(path: Path) -> tuple[Preferences, list[str]]:
    """The preferences of a file, and what is wrong with it; what can be read counts all the same."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return Preferences(), []
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Preferences(), [f"{path} cannot be read, so the defaults count: {error}"]
    preferences, wrong = Preferences(), []
    for name, value in given.items():
        try:
            preferences = changed(preferences, name, value)
        except ValueError as error:
            wrong.append(f"{path}: {error}")
    return preferences, wrong
