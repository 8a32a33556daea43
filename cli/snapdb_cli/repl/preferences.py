"""The user's configuration: a TOML file of preferences, and a folder of named queries next to it."""

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from snapdb.sql.lexer import scan
from snapdb.types import did_you_mean
from snapdb_cli.commands.arguments import FORMATS


class _Preference(NamedTuple):
    """The metadata of one preference."""

    help: str
    values: tuple[str, ...]
    """The values that completion offers."""
    read: Callable[[Any], Any]
    """Converts a TOML value or text. Raises ValueError if it is not valid."""


_SWITCH = ("on", "off")
_STYLES = ("default", "dark", "light", "none")
_KEYS = ("emacs", "vi")
_COMPLETION = ("tab", "typing")
_FORMATS = tuple(name for name in FORMATS if name not in ("parquet", "arrow", "xlsx"))
_TIMES = ("seconds", "all")


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
        raise ValueError  # `changed` replaces it with one message for all preferences
    return given


def _pager(given: Any) -> str:
    if isinstance(given, bool):
        return "on" if given else "off"
    text = _text(given).strip()
    return text.lower() if text.lower() in ("on", "off", "auto") else text or "auto"


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(given: Any) -> str:
        word = str(given).lower()
        if word not in words:
            raise ValueError
        return word

    return read


def _preference(default: Any, read: Callable[[Any], Any], values: tuple[str, ...], meaning: str) -> Any:
    return field(default=default, metadata={"preference": _Preference(meaning, values, read)})


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences for the prompt's behaviour and the appearance of results."""

    format: str = _preference("table", _one_of(*_FORMATS), _FORMATS, "output format")
    null: str = _preference("NULL", _text, (), "text shown for NULL")
    header: bool = _preference(True, _switch, _SWITCH, "header row of csv and tsv")
    max_rows: int | None = _preference(40, _rows, ("40", "all"), "maximum number of table rows, or all")
    times: str = _preference("seconds", _one_of(*_TIMES), _TIMES, "digits of times in tables: up to the second, or all")
    expanded: bool | None = _preference(
        False, _switch_or_auto, (*_SWITCH, "auto"), "one line per column; auto: only for wide results"
    )
    timing: bool = _preference(False, _switch, _SWITCH, "show the duration of each statement")
    pager: str = _preference(
        "auto", _pager, (*_SWITCH, "auto", "less -SR"), "show long results in a pager: auto, on, off or a command"
    )
    confirm: bool = _preference(True, _switch, _SWITCH, "ask before DROP, EXPIRE and VACUUM")
    prompt: str = _preference("snapdb", _text, ("snapdb",), "text before >; {database} is the name of the database")
    keys: str = _preference("emacs", _one_of(*_KEYS), _KEYS, "key bindings: emacs or vi")
    multiline: bool = _preference(True, _switch, _SWITCH, "if off, Enter runs the line, also without ;")
    completion: str = _preference(
        "tab", _one_of(*_COMPLETION), _COMPLETION, "completions appear at Tab, or while typing"
    )
    suggestions: bool = _preference(True, _switch, _SWITCH, "suggest input from the history, in grey")
    toolbar: bool = _preference(
        True, _switch, _SWITCH, "a toolbar at the bottom with the database and the transaction state"
    )
    style: str = _preference("default", _one_of(*_STYLES), _STYLES, "syntax colours of the input")

    def changed(self, name: str, given: Any) -> Self:
        """Return the preferences with one of them changed.

        Raises:
            ValueError: The preference does not exist, or the value is not valid for it.

        >>> Preferences().changed("max_rows", "all").max_rows, Preferences().changed("timing", "on").timing
        (None, True)
        """
        preference = PREFERENCES.get(name)
        if preference is None:
            hint = did_you_mean(name, PREFERENCES) or f"; the settings are {', '.join(PREFERENCES)}"
            raise ValueError(f"setting {name} does not exist{hint}")
        try:
            value = preference.read(given)
        except (ValueError, KeyError, TypeError):
            takes = ", ".join(preference.values) or "text in quotes"
            raise ValueError(f"{name} cannot be {given!r}; the values are {takes}") from None
        return replace(self, **{name: value})


PREFERENCES: Mapping[str, _Preference] = MappingProxyType(
    {f.name: f.metadata["preference"] for f in fields(Preferences)}
)
"""The preferences by name, in the order in which `\\set` lists them."""


def spelled(value: Any) -> str:
    """Return the value of a preference in the form that `\\set` accepts.

    >>> spelled(None), spelled(True), spelled(40)
    ('auto', 'on', '40')
    """
    return {None: "auto", True: "on", False: "off"}[value] if value is None or isinstance(value, bool) else str(value)


def config_file() -> Path:
    """Return the path of the configuration file, which may not exist."""
    if path := os.environ.get("SNAPDB_CONFIG"):
        return Path(path).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "snapdb" / "config.toml"


def start_file() -> Path:
    """Return the path of the file whose statements and commands run when a prompt starts. It may not exist."""
    return config_file().parent / "rc.sql"


def load(path: Path) -> tuple[Preferences, list[str]]:
    """Return a file's preferences and its problems. Invalid entries are skipped."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return Preferences(), []
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Preferences(), [f"cannot read {path}, so the defaults apply: {error}"]
    preferences, wrong = Preferences(), []
    for name, value in given.items():
        try:
            preferences = preferences.changed(name, value)
        except ValueError as error:
            wrong.append(f"{path}: {error}")
    return preferences, wrong


_NAME = re.compile(r"[A-Za-z_][\w-]*")


class NamedQueries:
    """Named queries, one file per query, in a folder next to the configuration file."""

    def __init__(self) -> None:
        self._folder = config_file().parent / "queries"

    def texts(self) -> dict[str, str]:
        """Return the texts of all queries, by name."""
        try:
            files = [path for path in sorted(self._folder.glob("*.sql")) if path.is_file()]
            return {path.stem: path.read_text(encoding="utf-8-sig", errors="replace").strip() for path in files}
        except OSError:
            return {}

    def filled(self, name: str, arguments: str) -> str:
        """Return the text of a query in which arguments replace `$1`, `$2`, …

        Raises:
            ValueError: No query has that name, or it requires a different number of arguments.
        """
        return _filled(self._load(name), _split(arguments))

    def save(self, name: str, text: str) -> Path:
        """Save a query and return its file.

        Raises:
            ValueError: The name is not valid as a file name.
        """
        path = self._file(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text.strip() + "\n", encoding="utf-8")
        return path

    def drop(self, name: str) -> None:
        """Delete a query. Raises ValueError if no query has that name."""
        self._load(name)
        self._file(name).unlink()

    def _load(self, name: str) -> str:
        known = self.texts()
        if name not in known:
            hint = did_you_mean(name, known) or ("; \\n lists them" if known else "; \\ns NAME QUERY saves one")
            raise ValueError(f'no query is named "{name}"{hint}')
        return known[name]

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f'"{name}" is not a valid name for a query; use letters, digits, _ and -')
        return self._folder / f"{name}.sql"


def _filled(text: str, arguments: Sequence[str]) -> str:
    """Return the query with `$1`, `$2`, … replaced with the unchanged arguments, except inside strings.

    >>> _filled("SELECT '$1', a FROM $1 WHERE b = $2", ["t", "'x y'"])
    "SELECT '$1', a FROM t WHERE b = 'x y'"
    """
    wanted = [token for token in scan(text) if re.fullmatch(r"\$\d+", token.text)]
    count = max((int(token.text[1:]) for token in wanted), default=0)
    if len(arguments) != count:
        raise ValueError(f"the query takes {count} arguments, found {len(arguments)}: {text}")
    for token in reversed(wanted):
        text = text[: token.span.start] + arguments[int(token.text[1:]) - 1] + text[token.span.stop :]
    return text


def _split(text: str) -> list[str]:
    """Split the text at blanks. Quotes group several words, and are retained.

    >>> _split("a 'b c' 3")
    ['a', "'b c'", '3']
    """
    lexer = shlex.shlex(text, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError as error:
        raise ValueError(f"{text}: {str(error).lower()}; close the quotes") from None
