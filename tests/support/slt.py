"""Statement files: SQL with expected results, run through the public API and collected by pytest.

A file is a list of records, separated by blank lines. `#` starts a comment line. A file runs from top to bottom in a
new database. In statements, results and messages, `${TMP}` represents a new folder.

    statement ok                      the following lines, up to a blank line, are a statement that must succeed
    statement error [regex]           it must fail with a message that matches the regex (`.` matches newlines)
    statement error code=<code> [at=<text>]
                                      it must fail with this code, at a position that contains this text; after a line
                                      `----`, the whole message follows as recorded, including the caret line
    query <types> [options]           it must return the rows after the line `----`
    file <name> [parquet]             writes the following lines, or the rows of a DuckDB query as Parquet, to
                                      ${TMP}/<name>
    restart                           closes the database and opens it again

Each file runs in several modes: with and without the optimizer's rules, and with one and two threads. A line
`onlyif optimizer` or `skipif optimizer` at the start of a record limits it to some modes. It is for records that print
forms, bytes or plans.

Types have one letter per column: I integer, R float or decimal, B boolean, T any other type. NULL matches any type.
Options: `rowsort` compares sorted lines, and `columns=a,b` selects columns of the result (for SHOW, which cannot be
used in a SELECT). Columns are separated by two spaces. NULL is printed as NULL, an empty text as (empty), booleans as
true and false, floats with repr, any other value with str, and newlines as \\n.

The messages in `tests/sql/errors_*.slt` are the record of error wording. `SNAPDB_RECORD=1 pytest tests/sql` rewrites
the messages, and nothing else. Codes and positions are not rewritten and must still match.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

import snapdb
from snapdb.plan import RULES
from tests.support.thoroughness import SOAK

Kind = Literal["ok", "error", "query", "file", "restart"]


@dataclass(frozen=True)
class Mode:
    """The mode in which a file runs. A record's result must not depend on it, unless the record limits its modes."""

    optimizer: bool
    """Whether all optimizer rules are applied, or none."""
    threads: int

    @property
    def name(self) -> str:
        return f"{'optimized' if self.optimizer else 'plain'}, {self.threads} thread{'s' * (self.threads > 1)}"

    def open(self, path: Path) -> snapdb.Database:
        """Return the database at a path."""
        return snapdb.Database(path, threads=self.threads, rules=RULES if self.optimizer else ())

    def runs(self, record: Record) -> bool:
        """Return whether the record runs in this mode."""
        return record.optimizer in (None, self.optimizer)


_ALL = tuple(Mode(optimizer, threads) for optimizer in (True, False) for threads in (2, 1))
RECORDS = bool(os.environ.get("SNAPDB_RECORD"))
MODES = _ALL if SOAK else (_ALL[0], _ALL[-1])
"""Both optimizer settings and both numbers of threads. `make soak` tries all combinations. The first mode rewrites
results."""


@dataclass(frozen=True)
class Record:
    """One record of a statement file."""

    kind: Kind
    line: int
    """The number of the record's first line, starting at 1."""
    body: str
    """The statement, or the content of a file."""
    argument: str = ""
    """The regex of an error, the types of a query, or the name of a file."""
    options: tuple[str, ...] = ()
    expected: tuple[str, ...] | None = None
    """The lines after `----`, or None without such a line."""
    stop: int = 0
    """The index of the line after the record's last line."""
    optimizer: bool | None = None
    """Whether the record runs only with or only without the optimizer. None means in every mode."""


_CODED = re.compile(r"code=(?P<code>[a-z-]+)(?: at=(?P<at>.*))?")
"""The code and position that an error must have regardless of its message."""


def _place(error: snapdb.SnapdbError) -> str:
    """Return the text that the carets mark, on one line, or an empty string if the error has no position."""
    if error.span is None or error.text is None:
        return ""
    return " ".join(error.text[error.span.start : error.span.stop].split())


class RecordError(Exception):
    """A record whose outcome differs from the expected one."""

    def __init__(self, path: Path, record: Record, expected: str, got: str) -> None:
        statement = "\n    ".join(record.body.splitlines())
        want, have = ("\n    ".join(text.splitlines()) for text in (expected, got))
        super().__init__(f"{path}:{record.line}\n    {statement}\n  expected:\n    {want}\n  got:\n    {have}")


def parse_slt(text: str) -> Iterator[Record]:
    """Yield the records of a statement file in order. Raises ValueError with the line of an unknown record."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        stop = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
        optimizer = _CONDITIONS.get(lines[at])
        first = at if optimizer is None else at + 1
        yield replace(_record(lines[first:stop], first + 1, stop), optimizer=optimizer)
        at = stop


_CONDITIONS = {"onlyif optimizer": True, "skipif optimizer": False}


def _record(lines: list[str], line: int, stop: int) -> Record:
    words = lines[0].split() if lines else []
    cut = lines.index("----") if "----" in lines else len(lines)
    body = "\n".join(lines[1:cut])
    expected = tuple(lines[cut + 1 :]) if cut < len(lines) else None
    match words:
        case ["statement", "ok"]:
            return Record("ok", line, body, stop=stop)
        case ["statement", "error", *_]:
            regex = lines[0].split(maxsplit=2)[2:]
            return Record("error", line, body, "".join(regex), expected=expected, stop=stop)
        case ["query", types, *options]:
            return Record("query", line, body, types, tuple(options), expected or (), stop)
        case ["file", name, *options]:
            return Record("file", line, "\n".join(lines[1:]), name, tuple(options), stop=stop)
        case ["restart"]:
            return Record("restart", line, body, stop=stop)
    raise ValueError(f"line {line}: not a record: {''.join(lines[:1])}")


def run_slt(
    path: Path, folder: Path, mode: Mode = MODES[0]
) -> list[tuple[Record, tuple[str, ...] | None, RecordError | None]]:
    """Run every record of the file. Return each record with its result lines and its error.

    The database is created in `folder`.
    """
    files = folder / "files"
    files.mkdir()
    run = _Run(path, folder / "test.snapdb", files, mode)
    try:
        return [(record, *run.outcome(record)) for record in parse_slt(path.read_text()) if mode.runs(record)]
    finally:
        run.db.close()


class _Run:
    """A run of one file in a database. `restart` replaces the connection."""

    def __init__(self, path: Path, database: Path, files: Path, mode: Mode) -> None:
        self.path = path
        self.database = database
        self.files = files
        self.mode = mode
        self.db = mode.open(database)

    def outcome(self, record: Record) -> tuple[tuple[str, ...] | None, RecordError | None]:
        record = replace(record, body=record.body.replace("${TMP}", str(self.files)))
        try:
            match record.kind:
                case "ok":
                    self.db.execute(record.body).fetchall()
                    return None, None
                case "error":
                    return self._error(record)
                case "query":
                    return self._query(record)
                case "file":
                    self._write(record)
                    return None, None
                case "restart":
                    self.db.close()
                    self.db = self.mode.open(self.database)
                    return None, None
        except Exception as error:
            wanted = "\n".join(record.expected or ()) if record.kind == "query" else "no error"
            return None, RecordError(self.path, record, wanted, self._plain(_described(error)))

    def _error(self, record: Record) -> tuple[tuple[str, ...] | None, RecordError | None]:
        wanted = record.argument if record.expected is None else "\n".join(record.expected)
        try:
            rows = self.db.execute(record.body).fetchall()
        except snapdb.SnapdbError as error:
            got = self._plain(error.report())
            if coded := _CODED.fullmatch(record.argument):
                code, at = coded["code"], coded["at"]
                place = self._plain(_place(error))
                same = RECORDS or record.expected is None or wanted == got
                fits = same and code == error.code and at in (None, place)
                seen = f"code={error.code} at={place}\n{got}"
                wrong = RecordError(self.path, record, f"{record.argument}\n{wanted}", seen)
                return tuple(got.splitlines()), None if fits else wrong
            fits = re.search(record.argument, got, re.DOTALL) if record.expected is None else wanted == got
            return tuple(got.splitlines()), None if fits else RecordError(self.path, record, wanted, got)
        return None, RecordError(self.path, record, wanted, f"no error, and {len(rows)} rows")

    def _query(self, record: Record) -> tuple[tuple[str, ...] | None, RecordError | None]:
        result = self.db.execute(record.body)
        rows = result.fetchall()
        chosen = [option.removeprefix("columns=") for option in record.options if option.startswith("columns=")]
        if chosen:
            places = [list(result.columns).index(name) for name in chosen[0].split(",")]
            rows = [tuple(row[place] for place in places) for row in rows]
        types = "".join(_letter([row[i] for row in rows], letter) for i, letter in enumerate(record.argument))
        width = len(rows[0]) if rows else len(record.argument)
        got = [self._plain("  ".join(map(_shown, row))) for row in rows]
        wanted = list(record.expected or ())
        if "rowsort" in record.options:
            got, wanted = sorted(got), sorted(wanted)
        if types != record.argument or width != len(record.argument):
            found = "\n".join([f"{width} columns of types {types}", *got])
            return tuple(got), RecordError(self.path, record, f"types {record.argument}", found)
        fits = got == wanted
        return tuple(got), None if fits else RecordError(self.path, record, "\n".join(wanted), "\n".join(got))

    def _write(self, record: Record) -> None:
        target = self.files / record.argument
        target.parent.mkdir(parents=True, exist_ok=True)
        if "parquet" in record.options:
            with duckdb.connect() as connection:
                connection.execute(f"COPY ({record.body}) TO '{target}' (FORMAT parquet)")
        else:
            target.write_text(record.body + "\n")

    def _plain(self, text: str) -> str:
        return text.replace(str(self.files), "${TMP}")


def _described(error: Exception) -> str:
    return error.report() if isinstance(error, snapdb.SnapdbError) else f"{type(error).__name__}: {error}"


def _letter(values: Sequence[Any], wanted: str) -> str:
    """Return the type letter of a column's values, or `wanted` if all values are NULL."""
    letters = {_letter_of(value) for value in values if value is not None}
    return "/".join(sorted(letters)) if letters else wanted


def _letter_of(value: Any) -> str:
    if isinstance(value, bool):
        return "B"
    if isinstance(value, int):
        return "I"
    return "R" if isinstance(value, float | Decimal) else "T"


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, float) else str(value)
    return text.replace("\n", "\\n") or "(empty)"


def write_slt(path: Path, outcomes: list[tuple[Record, tuple[str, ...] | None, RecordError | None]]) -> None:
    """Rewrite the file with the results of its queries and the messages of errors that are recorded after `----`."""
    lines = path.read_text().splitlines()
    for record, got, _ in reversed(outcomes):
        if got is None or (record.kind == "error" and record.expected is None):
            continue
        start = record.line + len(record.body.splitlines())
        lines[start : record.stop] = ["----", *got]
    path.write_text("\n".join(lines) + "\n")


class SltFile(pytest.File):
    """A statement file. It is one test per mode, because each record builds on the previous ones."""

    def collect(self) -> Iterator[pytest.Item]:
        refuses = self.path.stem.startswith("errors_")  # rejected before any rule is applied
        once = self.config.getoption("--slt-update") or (refuses and (RECORDS or not SOAK))
        for mode in MODES[:1] if once else MODES:
            yield SltItem.from_parent(self, name=f"{self.path.stem}[{mode.name}]", mode=mode)


class SltItem(pytest.Item):
    """Runs one statement file in one mode."""

    def __init__(self, *, mode: Mode, **given: Any) -> None:
        super().__init__(**given)
        self.mode = mode

    def runtest(self) -> None:
        folder = self.config._tmp_path_factory.mktemp(self.path.stem)  # type: ignore[attr-defined]
        outcomes = run_slt(self.path, folder, self.mode)
        if self.config.getoption("--slt-update") or (RECORDS and self.path.stem.startswith("errors_")):
            write_slt(self.path, outcomes)
        failures = [failure for _, _, failure in outcomes if failure is not None]
        if failures:
            raise ExceptionGroup(f"{len(failures)} records", failures)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if isinstance(excinfo.value, ExceptionGroup) and all(
            isinstance(e, RecordError) for e in excinfo.value.exceptions
        ):
            return "\n\n".join(str(failure) for failure in excinfo.value.exceptions)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.name}.slt"
