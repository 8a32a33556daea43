"""Checks that embedded SQL is deterministic and does not read the database's own files."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES
from snapdb.errors import BindError, InputError, SnapdbError, Span
from snapdb.sql.lexer import Token, scan
from snapdb.sql.syntax import SqlFragment
from snapdb.sql.task_bodies import file_arguments
from snapdb.sql_engine import SqlEngine

_CLOCKS = frozenset(("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"))
_ALSO = frozenset(("current_localtime", "current_localtimestamp"))
"""Clock functions that DuckDB does not list as such. age() with one argument also reads the clock."""
_INSTEAD = "store its result in a table, or select by a column or hash()"
_MARKED = re.compile(r"[*?[]")
_LOCAL = re.compile(r"file:(//(localhost)?)?")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DEEPEST = 8
"""The maximum nesting depth of `query('…')` that is checked."""


def check_repeatable(sql_engine: SqlEngine, fragment: SqlFragment, why: str, instead: str = _INSTEAD) -> None:
    """Raise an error unless an SQL fragment is deterministic.

    Raises:
        BindError: The fragment calls a volatile function. The error points to the function name, and its message
            contains `why` and `instead`.
    """
    volatile = sql_engine.volatile() | _ALSO
    tokens = scan(fragment.text)
    _check_facts(tokens, fragment, why)
    for i, token in enumerate(tokens):
        if _is_volatile(token, tokens[i + 1 :], volatile):
            at = fragment.span.start + token.span.start
            what = "rows" if instead == _INSTEAD else "values"
            raise BindError(
                f"{token.text} returns different {what} each time, but {why}; {instead}",
                span=Span(at, at + len(token.text)),
                code="not-repeatable",
            )


def _check_facts(tokens: Sequence[Token], fragment: SqlFragment, why: str) -> None:
    """Raise an error if a query reads system tables, which change with every statement."""
    for first, dot, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        names = [token.identifier.lower() for token in (first, name) if token.kind in ("word", "quoted")]
        if dot.text == "." and names and names[0] == SCHEMA and names[-1] in SYSTEM_TABLES:
            at = fragment.span.start
            raise BindError(
                f"{SCHEMA}.{names[-1]} shows the current state, but {why}; store its rows in a table, or write the "
                "values",
                span=Span(at + first.span.start, at + name.span.stop),
                code="not-repeatable",
            )


def _is_volatile(token: Token, following: tuple[Token, ...], volatile: frozenset[str]) -> bool:
    if token.kind not in ("word", "quoted"):
        return False
    name = token.identifier.lower()
    after = following[0].text.lower() if following else ""
    # Clock keywords do not require parentheses, and random samples have two forms: TABLESAMPLE and USING SAMPLE.
    if token.kind == "word" and (name in _CLOCKS or name == "tablesample" or (name == "using" and after == "sample")):
        return True
    return after == "(" and (name in volatile or (name == "age" and _arguments(following) == 1))


def _arguments(following: tuple[Token, ...]) -> int:
    """Return the number of arguments in the parentheses that open at the first token."""
    depth, commas = 0, 0
    for token in following:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        commas += token.text == "," and depth == 1
        if depth == 0:
            break
    return commas + 1


def check_foreign(
    sql_engine: SqlEngine, own: Path, text: str, tokens: Sequence[Token], start: int, parameters: object, depth: int = 0
) -> None:
    """Raise an error if a query opens a file of the database at `own`.

    Args:
        sql_engine: The engine, which evaluates constant arguments.
        own: The database directory.
        text: The text of the query.
        tokens: The tokens of the text.
        start: The index of the query's first character in the statement's text.
        parameters: The parameters of the query, by name or by position.
        depth: The nesting depth of the query.

    Raises:
        InputError: The query opens such a file. The error has the span of the path.
    """
    for argument in filter(None, file_arguments(tokens)):
        first, stop = argument[0].span.start, argument[-1].span.stop
        span = Span(start + first, start + stop)
        for path in _values(sql_engine, argument, text[first:stop], parameters):
            check_foreign_path(own, path, span)
            if depth < _DEEPEST and " " in path:  # possibly a query, which the function `query` runs
                _check_nested(sql_engine, own, path, span, depth)


def check_foreign_path(own: Path, path: str, span: Span | None) -> None:
    """Raise InputError if a path or glob matches a file of the database at `own`."""
    if _leads_into(path, os.path.realpath(own)):
        raise InputError(
            f"'{path[:80]}' refers to files of this database, which only snapdb may open; query its tables, use other "
            "files, or copy the database with BACKUP DATABASE",
            span=span,
            code="own-file",
        )


def _check_nested(sql_engine: SqlEngine, own: Path, text: str, span: Span, depth: int) -> None:
    try:
        check_foreign(sql_engine, own, text, scan(text), 0, None, depth + 1)
    except InputError as error:
        error.span = span
        raise
    except SnapdbError:
        return  # not a query


def _values(sql_engine: SqlEngine, argument: Sequence[Token], text: str, parameters: object) -> list[str]:
    """Return the strings that an argument evaluates to, or none if DuckDB cannot evaluate it."""
    if len(argument) == 1 and argument[0].kind in {"string", "quoted"}:
        (token,) = argument
        return [token.string_value if token.kind == "string" else token.identifier]
    if any(token.text.startswith("?") for token in argument):
        return list(_flat(parameters))  # positions refer to the whole query
    names = {token.text[1:] for token in argument if token.kind == "parameter"}
    known = {n: v for n, v in parameters.items() if n in names} if isinstance(parameters, Mapping) and names else None
    try:
        # DuckDB evaluates constant expressions such as 'a' || '.csv', which would otherwise hide a path.
        with sql_engine.session() as session:
            return list(_flat(session.rows(f"SELECT ({text})", known)))
    except SnapdbError:
        return []


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        yield from _flat(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)


def _leads_into(path: str, own: str) -> bool:
    """Return whether a path, glob or directory refers to a file in the directory `own`. Links are followed."""
    # DuckDB would open the real files, so links are resolved, and globs are matched against real names.
    local = _LOCAL.match(path)
    if "\0" in path or (local is None and _URL.match(path)):
        return False
    place = os.path.join(os.getcwd(), os.path.expanduser(path[local.end() :] if local else path))
    plain, *marked = _MARKED.split(place, maxsplit=1)
    folder = os.path.realpath(os.path.dirname(plain) if marked else place)
    # Without wildcards, the path matches if it is a file in the database or a directory that contains the database.
    if not marked:
        return _is_within(folder, own) or (_is_within(own, folder) and os.path.isdir(folder))
    if not _is_within(own, folder):
        return _is_within(folder, own)
    pattern = [*folder.split("/"), *os.path.relpath(place, os.path.dirname(plain)).split("/")]
    return any(_matches(name.split("/"), pattern) for name in _files(own))


def _is_within(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path, split at its slashes, matches a glob. ** matches any number of directories.

    >>> _matches("a/b/c/x2.csv".split("/"), "a/**/x[1-3].*".split("/")), _matches(["a", "b", "c"], ["a", "*"])
    (True, False)
    """
    if not pattern or not names:
        return not pattern and not names
    first, *rest = pattern
    if first == "**":
        return not rest or any(_matches(names[skipped:], rest) for skipped in range(len(names)))
    return fnmatchcase(names[0], first) and _matches(names[1:], rest)


def _files(folder: str) -> Iterator[str]:
    for directory, _, names in os.walk(folder):
        yield from (os.path.join(directory, name) for name in names)
