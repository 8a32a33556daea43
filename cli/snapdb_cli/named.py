"""Queries that a person keeps by name: a file each, in a folder beside the configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from snapdb.sql.lexer import scan
from snapdb.types import did_you_mean

from .config import config_folder

_NAME = re.compile(r"[A-Za-z_][\w-]*")


def _folder() -> Path:
    return config_folder() / "queries"


def queries() -> dict[str, str]:
    """The texts of all named queries."""
    try:
        files = [path for path in sorted(_folder().glob("*.sql")) if path.is_file()]
        return {path.stem: path.read_text(encoding="utf-8-sig", errors="replace").strip() for path in files}
    except OSError:
        return {}


def load_query(name: str) -> str:
    """The text of a named query.

    Raises:
        ValueError: there is none of that name.
    """
    known = queries()
    if name not in known:
        hint = did_you_mean(name, known) or ("; \\n lists them" if known else "; \\ns NAME QUERY keeps one")
        raise ValueError(f'no query is named "{name}"{hint}')
    return known[name]


def save_query(name: str, text: str) -> Path:
    """Keep a query; where it is kept now.

    Raises:
        ValueError: the name does not do for a file.
    """
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text.strip() + "\n", encoding="utf-8")
    return path


def drop_query(name: str) -> None:
    """Forget a query. Raises ValueError when there is none of that name."""
    load_query(name)
    _path(name).unlink()


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" does not do as the name of a query; take letters, digits, _ and -')
    return _folder() / f"{name}.sql"


def filled(text: str, arguments: Sequence[str]) -> str:
    """The query with `$1`, `$2`, … replaced by what was given.

    What is given stands there as it is: quoted where it is a string. A `$1` inside a string stays.

    Raises:
        ValueError: an argument is missing, or too many were given.

    >>> filled("SELECT '$1', a FROM $1 WHERE b = $2", ["t", "'x y'"])
    "SELECT '$1', a FROM t WHERE b = 'x y'"
    """
    wanted = [token for token in scan(text) if re.fullmatch(r"\$\d+", token.text)]
    count = max((int(token.text[1:]) for token in wanted), default=0)
    if len(arguments) != count:
        raise ValueError(f"the query takes {count} arguments, found {len(arguments)}: {text}")
    for token in reversed(wanted):
        text = text[: token.span.start] + arguments[int(token.text[1:]) - 1] + text[token.span.stop :]
    return text


def split_arguments(text: str) -> list[str]:
    """Words between blanks, where quotes hold several together and stay.

    >>> split_arguments("a 'b c' 3")
    ['a', "'b c'", '3']
    """
    lexer = shlex.shlex(text, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError as error:
        raise ValueError(f"{text}: {str(error).lower()}; close the quotes") from None
