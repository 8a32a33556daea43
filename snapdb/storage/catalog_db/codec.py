"""Encoding of catalog values as text: dataclasses, columns and commit records, with their hash chain and log."""

import dataclasses
import hashlib
import json
import os
import re
import sqlite3
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from snapdb.errors import CorruptError
from snapdb.types import Column, Constraint

_T = TypeVar("_T")

MISREAD = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError)
"""The exceptions that can occur when a damaged value is decoded."""

_LATER = frozenset({"classes", "features", "notify", "stored", "validates"})
"""Fields added in later releases. They are stored only if they have a value, so that older definitions keep their text
and digest."""
_GREATEST = 1 << 57
"""The upper bound of times in microseconds, which corresponds to more than four thousand years."""
_PIECE = re.compile(r"""\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|[(),\[\] ]""")
"""One token of a type: a word, a quoted name or text, or a bracket."""


def encode(value: Any, without: Collection[str] = ()) -> str:
    """Encode a dataclass as JSON, excluding the fields named in `without` at any depth.

    >>> from snapdb.types import Window
    >>> encode(Window(1, None))
    '{"start": 1, "stop": null, "closed": false}'
    """

    def kept(items: list[tuple[str, Any]]) -> dict[str, Any]:
        unset = {name for name, item in items if name in _LATER and item is None}
        return {name: item for name, item in items if name not in without and name not in unset}

    return json.dumps(dataclasses.asdict(value, dict_factory=kept))


def decode(kind: type[_T], text: str) -> _T:
    """Decode a dataclass encoded by `encode`.

    >>> from snapdb.types import Window
    >>> decode(Window, '{"start": 1, "stop": null}')
    Window(start=1, stop=None, closed=False)
    """
    value: _T = _builder(typing.cast(Any, kind))(json.loads(text))
    return value


def is_sound(kind: Any, value: object) -> bool:
    """Return whether a value and all nested values have the annotated types. Integers must be in the range of times.

    >>> from snapdb.types import Period
    >>> is_sound(Period, Period(0, 1, 0)), is_sound(Period, Period(0, "1", 0))
    (True, False)
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return any(is_sound(one, value) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(is_sound(arguments[0], one) for one in value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    if dataclasses.is_dataclass(value):
        return all(is_sound(hint, getattr(value, name)) for name, hint in _hints(typing.cast(Any, type(value))).items())
    return not isinstance(value, int) or abs(value) < _GREATEST


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    """Return the function that builds a value of a type from parsed JSON.

    The function is cached because a catalog contains many values of the same type.
    """
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        return _builder(next(a for a in typing.get_args(kind) if a is not type(None)))
    if origin is tuple:
        item = _builder(typing.get_args(kind)[0])
        return lambda value: None if value is None else tuple(map(item, value))
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        fields = {name: _builder(hint) for name, hint in typing.get_type_hints(kind).items()}

        def build(value: Any) -> Any:
            return None if value is None else kind(**{name: fields[name](v) for name, v in value.items()})

        return build
    return lambda value: value


def encode_columns(columns: Sequence[Column]) -> str:
    """Encode columns as JSON.

    >>> encode_columns([Column("a", "INTEGER", True, 1)])
    '[["a", "INTEGER", true, 1, null]]'
    """
    return json.dumps([_entry(column) for column in columns])


def _entry(column: Column) -> list[object]:
    """Return a column as JSON. Only columns with constraints or expressions have more than five values."""
    entry: list[object] = [column.name, column.type, column.nullable, column.field, column.default]
    constraints = [[c.kind, c.name, c.fields, c.expression, c.table, c.keys, c.enforced] for c in column.constraints]
    if column.generated is not None or column.default_expression is not None:
        return [*entry, constraints, column.generated, column.default_expression]
    return [*entry, constraints] if constraints else entry


def decode_columns(text: str) -> tuple[Column, ...]:
    """Decode columns encoded by `encode_columns`.

    Raises:
        ValueError: The text is not from `encode_columns`, or a type is not valid. Types are inserted into SQL.
    """
    columns = tuple(_column(*entry) for entry in json.loads(text))
    for column in columns:
        known = isinstance(column.name, str) and isinstance(column.field, int) and isinstance(column.type, str)
        if not known or not _is_type(column.type):
            raise ValueError(f"{column!r} is not a column")
    return columns


def _column(
    name: str,
    type_: str,
    nullable: bool,
    field: int,
    default: str | None,
    constraints: Sequence[Sequence[Any]] = (),
    generated: str | None = None,
    default_expression: str | None = None,
) -> Column:
    decoded = tuple(
        Constraint(kind, of, tuple(fields), expression, table, tuple(keys), enforced)
        for kind, of, fields, expression, table, keys, enforced in constraints
    )
    return Column(name, type_, nullable, field, default, decoded, generated, default_expression)


def _is_type(text: str) -> bool:
    """Return whether a text consists only of words, names and matching brackets, so that it can only be a type.

    >>> _is_type('STRUCT("a b" INTEGER)[3]'), _is_type("INTEGER) FROM x --"), _is_type("INTEGER) + (1")
    (True, False, False)
    """
    depth = at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return False
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece[0], 0)
        at = piece.end()
        if depth < 0:
            return False
    return depth == 0 and bool(text)


VERSION_LOG = "versions.log"
"""The name of the version log, which is in the same directory as the catalog."""
_LINE = re.compile(rb"^(\d{1,18}) ([0-9a-f]{64})$", re.MULTILINE)
_TAIL = 512
"""The number of bytes at the end of the log that contain its last complete line."""


def facts_text(facts: Mapping[str, object]) -> str:
    """Return the text of a commit record, which is stored and hashed.

    >>> facts_text({"version": 1, "message": None})
    '{"version":1,"message":null}'
    """
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False)


def link(parent: str, text: str) -> str:
    """Return the hash of a chain link, computed from the previous link's hash and the link's text.

    >>> link("", "{}")[:8]
    'a062dd49'
    """
    return hashlib.sha256(f"{parent}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _log_text(versions: Iterable[tuple[int, str]]) -> str:
    """Return the log lines for versions and their hashes, oldest first.

    >>> _log_text([(1, "a" * 64)])[:4]
    '1 aa'
    """
    return "".join(f"{version} {hash_}\n" for version, hash_ in versions)


@dataclass(frozen=True, slots=True)
class VersionLog:
    """The log of published versions and their hashes.

    It is stored next to the catalog, and reveals a forked history.
    """

    directory: Path

    @property
    def _path(self) -> Path:
        return self.directory / VERSION_LOG

    def append(self, version: int, hash_: str) -> None:
        """Append a published version. An error leaves a gap in the log, which is harmless."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError:
            return
        try:
            # A crash may have truncated the last line. A newline before the new line keeps the new line readable.
            torn = (size := os.fstat(descriptor).st_size) and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + _log_text([(version, hash_)]).encode())
        except OSError:
            return
        finally:
            os.close(descriptor)

    def check_not_forked(self, connection: sqlite3.Connection) -> None:
        """Check that the catalog contains the newest version in the log.

        Raises:
            CorruptError: The version is missing, and the catalog would assign its number to another version.
        """
        newest = _newest(self._path)
        if newest is not None and not _is_published(connection, newest):
            version, _ = newest
            raise CorruptError(
                f"version {version} was published, but is not in the catalog: the history has forked, and writing is "
                f"disabled; restore the database from a backup, or remove {self._path} to continue without it",
                code="forked-history",
            )

    def write(self, versions: Iterable[tuple[int, str]]) -> None:
        """Write the log of versions and their hashes, oldest first."""
        self._path.write_text(_log_text(versions))

    def read(self) -> list[tuple[int, str]]:
        """Return the versions in the log and their hashes, in the order of publication."""
        try:
            return list(_entries(self._path.read_bytes()))
        except OSError:
            return []


def _newest(path: Path) -> tuple[int, str] | None:
    """Read the last complete entry from the end of the log."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            return next(reversed(list(_entries(file.read()))), None)
    except OSError:
        return None


def _entries(text: bytes) -> Iterator[tuple[int, str]]:
    """Parse the complete lines. A crash can leave a partial line or zeros."""
    yield from ((int(version), hash_.decode()) for version, hash_ in _LINE.findall(text))


def _is_published(connection: sqlite3.Connection, entry: tuple[int, str]) -> bool:
    """Return whether the catalog has a version with this hash."""
    version, hash_ = entry
    row = connection.execute("SELECT hash FROM versions WHERE version = ?", (version,)).fetchone()
    return row is not None and row[0] == hash_
