"""Converts DuckDB errors to snapdb errors with a class, message, remedy, code, and position in the query."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from snapdb.errors import BindError, CorruptError, InputError, ParseError, QueryError, SnapdbError, Span
from snapdb.remote.files import url_error
from snapdb.sql_engine.sources import outside
from snapdb.types.algorithms import ALGORITHM_NAMES
from snapdb.types.lakes import about_lake
from snapdb.types.text import did_you_mean

Place = Callable[[str, SnapdbError], None]

_KINDS: tuple[tuple[type[Exception], type[SnapdbError]], ...] = (
    (duckdb.ParserException, ParseError),
    (duckdb.CatalogException, BindError),
    (duckdb.BinderException, BindError),
    (duckdb.IOException, InputError),
    (duckdb.Error, QueryError),
)
_ARROW = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_NAMED_FUNCTION = re.compile(r'Function with name "?(\w+)')
_REFUSED = re.compile(r"\.?; (\* SET |Please try installing).*", re.DOTALL)
"""DuckDB's hints that do not apply to snapdb."""
_UNREADABLE = re.compile(r"magic bytes|[Pp]arquet|CSV|[Ff]ile")


@contextmanager
def translated(space: str, query: str, offset: int, place: Place, own: str) -> Iterator[None]:
    """Run the block, and convert DuckDB errors to SnapdbErrors whose spans refer to `query`.

    Args:
        space: The session's namespace, which is removed from messages.
        query: The user's part of the SQL.
        offset: The number of characters before the user's part.
        place: A function that is called with the query and the error before the error is raised.
        own: The database directory. If a file in it cannot be read, the error is a CorruptError.
    """
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError, *_ARROW, RuntimeError, OSError) as error:
        failure = _failure(error, space, query, offset, own)
        if failure is None:
            raise
        place(query, failure)
        raise failure from error


def _failure(error: Exception, space: str, query: str, offset: int, own: str) -> SnapdbError | None:
    """Return the SnapdbError for an error from DuckDB, or from Arrow reading DuckDB results. None for other errors."""
    if isinstance(error, UnicodeDecodeError):  # a DuckDB message contains bytes of a damaged file
        return CorruptError(
            "a file that the statement reads is damaged; run CHECK DATABASE to list the damaged files",
            code="damaged-file",
        )
    if isinstance(error, _ARROW):
        return _not_in_arrow(error)
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in str(error)[:40]:
        raise QueryError("interrupted", code="interrupted") from error
    if "Traceback (most recent call last)" in str(error):  # of the Python file system that reads a URL
        return url_error(str(error))
    if not isinstance(error, duckdb.Error):
        if "Query interrupted" in str(error):
            raise KeyboardInterrupt from None  # DuckDB caught the signal during the query
        if "exception_type" not in str(error):
            return None
    failure = _translate(error, space, query, offset)
    unreadable = isinstance(failure, InputError) and failure.code != "folder-not-allowed"
    if unreadable and own in failure.message and ".parquet" in failure.message:
        reason = failure.message.split("; ")[0]
        return CorruptError(f"cannot read a database file: {reason}; restore it from a backup", code="damaged-file")
    return failure


def _not_in_arrow(error: Exception) -> QueryError:
    """Return the error for a DuckDB result that Arrow, the result format, cannot represent."""
    if "Recursion level" in str(error):
        words = "a column has lists, structs or maps nested more than 62 levels deep, the limit of Arrow"
    else:
        words = f"Arrow cannot represent a column of this result: {_one_line(str(error))}"
    return QueryError(f"{words}; select its inner values, or cast the column to VARCHAR", code="not-in-arrow")


def _translate(error: Exception, space: str, query: str, offset: int) -> SnapdbError:
    detail = _detail(str(error))
    message = re.sub(rf"\b{space}(\.main)?\.", "", str(detail.get("exception_message") or error)).strip()
    message = re.sub(
        rf'"{space}"\.|"snapdb version \d+"\.| when casting from source column snapdb \w+ \d+', "", message
    )
    if inner := re.search(r'\{"exception_type".*?"exception_message":"((?:[^"\\]|\\.)*)".*\}', message):
        message = message.replace(inner[0], inner[1])
    type_ = str(detail.get("exception_type", ""))
    kind = next((kind_ for duckdbs, kind_ in _KINDS if isinstance(error, duckdbs)), QueryError)
    invalid = isinstance(error, duckdb.InvalidInputException) or type_ == "Invalid Input"
    if type_ == "IO" or (kind is QueryError and invalid and _UNREADABLE.search(message)):
        kind = InputError
    code = _code(detail)
    span = _span(detail, query, offset)
    words = _missing(detail, code)
    if words is None:
        line = _one_line(message)
        if span is not None and span.start == len(query) and line.startswith("syntax error"):
            return ParseError(
                "syntax error at end of input: the expression is incomplete", span=span, code="query-syntax"
            )  # the parser reached the ")" that snapdb added
        if translation := _translate_message(line, query, span):
            return translation
        words = line.rstrip("!")
    return kind(words, span=span, code=code)


def _missing(detail: dict[str, Any], code: str | None) -> str | None:
    """Return snapdb's message for a name that does not exist."""
    if code == "unknown-table":
        return f'table or snapshot "{detail["name"]}" does not exist'
    if code == "unknown-column":
        candidates = [c.strip().strip('"').rsplit(".", 1)[-1] for c in str(detail.get("candidates", "")).split(",")]
        known = sorted({c for c in candidates if c and not c.startswith("snapdb ")})
        hint = did_you_mean(detail["name"], known)
        hint = hint or (f"; similar: {', '.join(known)}" if known else "")
        return f'column "{detail["name"]}" does not exist{hint}'
    return None


def _code(detail: dict[str, Any]) -> str | None:
    known = {("MISSING_ENTRY", "Table"): "unknown-table", ("COLUMN_NOT_FOUND", None): "unknown-column"}
    return known.get((str(detail.get("error_subtype")), detail.get("type")))


def _detail(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        return {}
    try:
        detail = json.loads(text[start:])
    except json.JSONDecodeError:
        return {}
    return detail if isinstance(detail, dict) else {}


def _span(detail: dict[str, Any], query: str, offset: int) -> Span | None:
    if "position" not in detail:
        return None
    start = int(detail["position"]) - offset
    if not 0 <= start <= len(query):
        return None
    length = 1
    if "location" in detail:
        length = int(json.loads(detail["location"])[1])
    if (name := detail.get("name")) and query[start : start + len(name)].lower() == str(name).lower():
        length = len(name)
    return Span(start, min(start + max(length, 1), len(query)))


def _one_line(message: str) -> str:
    """Return DuckDB's message without its excerpt of the query. Hints are preserved if they apply."""
    kept = message.split("\n\nLINE ", maxsplit=1)[0]
    line = "; ".join(part.strip() for part in kept.splitlines() if part.strip())
    line = line.replace("; Did you mean", " Did you mean")
    instead = (
        "extensions are not supported: copy the data to this machine first" if "extension" in line else "leave it out"
    )
    named = _NAMED_FUNCTION.search(line)
    lake = about_lake(named[1]) if named else ""
    return _REFUSED.sub(f"; {lake or instead}", line)


def _translate_message(message: str, query: str = "", span: Span | None = None) -> SnapdbError | None:
    """Return snapdb's error for a one-line DuckDB message, or None if DuckDB's own text is good enough.

    >>> _translate_message('Referenced table "q" not found!; Candidate tables: "p"').message
    'table "q" is not in the FROM clause; available: p'
    """
    for code, pattern, text in _TRANSLATIONS:
        if match := re.search(pattern, message, re.DOTALL):
            groups = (group or "" for group in match.groups())
            words = text.format(*groups) if isinstance(text, str) else text(match)
            return _CLASSES.get(code, BindError)(words, span=span, code=code)
    if match := _SYNTAX.search(message):
        before, after = ("", "") if span is None else (query[: span.start], query[span.stop :])
        return ParseError(_unexpected(match[1], before, after), span=span, code="query-syntax")
    return None


_Match = re.Match[str]

_LISTED = 4
"""The maximum number of candidates that a message names."""

_TYPES = {
    "BOOL": "BOOLEAN",
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
    "UINT128": "UHUGEINT",
    "INTEGER_LITERAL": "INTEGER",
    "STRING_LITERAL": "VARCHAR",
}
"""DuckDB's internal type name → its SQL name."""

_KNOWN_TYPES = (
    *(name for name in _TYPES.values() if name != "BOOLEAN"),
    *("BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "INTERVAL", "JSON", "TEXT", "TIME"),
    *("TIMESTAMP", "TIMESTAMPTZ", "UUID", "VARCHAR"),
)

_NUMBERED = frozenset({"AUTOINCREMENT", "AUTO_INCREMENT", "BIGSERIAL", "IDENTITY", "SERIAL", "SMALLSERIAL"})
"""Types and column options that other databases use for automatic row numbers."""
_NUMBER_ROWS = "columns are not numbered automatically; write BIGINT, and row_number() OVER () in the INSERT"

_RELATIVE = ", which is relative to the working directory"

_OPENING = frozenset({"AND", "BY", "FROM", "HAVING", "IN", "JOIN", "LIMIT", "NOT", "ON", "OR", "SELECT", "WHERE"})
"""Words that cannot end a query."""

_KEYWORDS = ("FROM", "GROUP", "HAVING", "JOIN", "LIMIT", "ORDER", "UNION", "USING", "WHERE")


def _types(text: str) -> str:
    return re.sub(r"\w+", lambda word: _TYPES.get(word[0], word[0]), text)


def _names(text: str | None) -> list[str]:
    return re.findall(r'"([^"]+)"', text or "")


def _near(name: str, known: list[str], otherwise: str) -> str:
    """Return the nearest known name, or all known names if none is similar."""
    shown = ", ".join(known[:_LISTED]) + (", …" if len(known) > _LISTED else "")
    return did_you_mean(name, known) or (f"; {otherwise} {shown}" if known else "")


def _column(match: _Match) -> str:
    known = [name for name in _names(match[3]) if not name.startswith("snapdb ")]
    return f'column "{match[2]}" does not exist in {match[1]}{_near(match[2], known, "available:")}'


def _function(match: _Match) -> str:
    name = match[1]
    if name.lower() in ALGORITHM_NAMES:
        return f"{name} is a table function; write SELECT * FROM {name}('snapshot')"
    what = "function" if name[0].isalpha() or name[0] == "_" else "operator"
    return f'{what} "{name}" does not exist{did_you_mean(name, _names(match[2]))}'


def _table_function(match: _Match) -> str:
    """Return the message for an unknown function in FROM, which can be meant as an algorithm."""
    known = [*sorted(ALGORITHM_NAMES), *_names(match[2])]
    return f'function "{match[1]}" does not exist{did_you_mean(match[1], known)}'


def _type(match: _Match) -> str:
    numbered = match[1].strip('"').upper() in _NUMBERED
    hint = f"; {_NUMBER_ROWS}" if numbered else did_you_mean(match[1], _KNOWN_TYPES)
    return f'type "{match[1]}" does not exist{hint}'


def _arguments(match: _Match) -> str:
    name, given = match[1], _types(match[2])
    if not name[0].isalpha():
        return f"operator {name} does not exist for {given.replace(', ', ' and ')}; cast one of them"
    candidates = re.findall(r"; [^;(]*\(([^;]*?)\)", match[3])
    taken = [_types(one.removesuffix(", /").replace(", /,", ",")) for one in candidates]
    ways = [f"({one})" for one in taken[:_LISTED]] + (["…"] if len(taken) > _LISTED else [])
    return f"function {name} does not exist for ({given}); cast the arguments to {' or '.join(ways)}"


def _no_file(match: _Match) -> str:
    absolute = match[1].startswith(("/", "~")) or ":" in match[1]
    return f'file "{match[1]}" does not exist; check the path' + (_RELATIVE if not absolute else "")


def _not_a_value(match: _Match) -> str:
    where = f" in column {match[3]}" if match[3] else ""
    return f"{match[1]}{where} is not a valid {_types(match[2])}; correct it, or write TRY_CAST, which returns NULL"


def _too_large(match: _Match) -> str:
    return f"{match[1]} is out of range for {_types(match[2])}; use a wider type, or TRY_CAST, which returns NULL"


def _overflow(match: _Match) -> str:
    return f"{match[3]} is out of range for {_types(match[2])}; cast an operand to a wider type ({match[1]})"


def _unexpected(word: str, before: str, after: str) -> str:
    """Return the message for an unexpected word.

    The previous word may be a misspelt keyword that was parsed as a name.
    """
    if word.upper() in _OPENING and not after.strip(" \n;)"):
        return f'syntax error at end of input after "{word}": the clause is incomplete'
    earlier = (re.findall(r"\w+", before) or [""])[-1]
    if word == "=>":
        meant = did_you_mean(earlier, ("VERSION", "TAG", "TIMESTAMP"))
        return f'expected VERSION, TAG or TIMESTAMP, found "{earlier}"{meant}'
    if _TRAVEL.search(f"{before[-30:]}{word}{after[:30]}"):
        way = "AT (VERSION => 3), AT (TAG => …) or AT (TIMESTAMP => …)"
        return f'syntax error at or near "{word}"; write {way} after the table'
    if before.rstrip(" \t").endswith("\n") and word.upper() in {"CREATE", "INSERT", "SAMPLE", "SELECT", "SHOW"}:
        return f'syntax error at or near "{word}"; end the statement before it with ";"'
    ended = not after.strip(" \n;")  # DuckDB names the last word of a query that ends too early
    if way := _elsewhere(word, earlier, before, ended):
        return f'syntax error at or near "{word}"; {way}'
    known = earlier.upper() in _KEYWORDS or word.upper() in _KEYWORDS
    hint = "" if known else did_you_mean(earlier, _KEYWORDS) or did_you_mean(word, _KEYWORDS)
    return f'syntax error at or near "{word}"{hint}'


def _elsewhere(word: str, earlier: str, before: str, ended: bool) -> str:
    """Return the remedy for syntax that only other databases accept."""
    if word.upper() in _NUMBERED:
        return _NUMBER_ROWS
    if earlier.upper() == "TOP" and word.isdecimal():
        return f"write LIMIT {word} at the end of the query"
    joins = [joined.upper() for joined in _JOINED.findall(before)]
    if joins and joins[-1] == "JOIN" and (ended or word.upper() in _AFTER_JOIN):
        return "a JOIN needs ON condition or USING (column)"
    return ""


_JOINED = re.compile(r"\b((?:CROSS\s+|NATURAL\s+|POSITIONAL\s+)?JOIN|ON|USING)\b", re.IGNORECASE)
_AFTER_JOIN = frozenset({"GROUP", "HAVING", "LIMIT", "ORDER", "UNION", "WHERE", ";", ")"})
"""The clauses that can follow a join."""
_TRAVEL = re.compile(
    r"\b(?:FOR\s+(?:SYSTEM_TIME|SYSTEM_VERSION|TIMESTAMP|VERSION)|AS\s+OF\s+(?:TAG|VERSION)"
    r"|(?:TIMESTAMP|VERSION)\s+AS\s+OF|AT\"?\s+(?:TAG|VERSION))\b|\w@\w",
    re.IGNORECASE,
)
"""Time travel in the syntax of other databases."""
_SYNTAX = re.compile(r'^syntax error at or near "(.*)"', re.DOTALL)
_Text = str | Callable[[_Match], str]

_CLASSES: dict[str, type[SnapdbError]] = {
    **dict.fromkeys(("too-deep", "refused"), ParseError),
    **dict.fromkeys(("several-rows", "bad-value", "value-range", "out-of-memory"), QueryError),
    **dict.fromkeys(("no-file", "folder-not-allowed", "unreadable-file"), InputError),
}
"""Error code → the error class. Other codes use `BindError`."""

_TRANSLATIONS: tuple[tuple[str, str, _Text], ...] = (
    (
        "too-deep",
        r"^Max expression depth limit of (\d+) exceeded",
        "expressions are nested more than {} levels deep; split them, for example with WITH",
    ),
    ("unknown-function", r"Table Function with name (\S+) does not exist!(.*)", _table_function),
    ("unknown-function", r"Function with name (\S+) does not exist!(.*)", _function),
    ("unknown-type", r"^Type with name (\S+) does not exist!", _type),
    ("argument-types", r"argument types '(\S+?)\((.*?)\)'\..*?Candidate functions:(.*)", _arguments),
    ("unknown-column", r'(?:Table|Values list) "([^"]*)" does not have a column named "([^"]*)"(.*)', _column),
    (
        "unknown-column",
        r"Cannot extract field '([^']*)' from expression \"([^\"]*)\" because it is not a struct",
        'column "{0}" does not exist in {1}',
    ),
    (
        "not-in-query",
        r'Referenced table "([^"]*)" not found!(.*)',
        lambda f: f'table "{f[1]}" is not in the FROM clause{_near(f[1], _names(f[2]), "available:")}',
    ),
    (
        "unknown-column",
        r'Column "([^"]*)" in (\w+) list not found in FROM clause(.*)',
        lambda f: f'column "{f[1]}" of {f[2]} is not in the FROM clause{_near(f[1], _names(f[3]), "available:")}',
    ),
    (
        "unknown-column",
        r'No matching columns found that match regex "(.*?)"',
        'no column matches "{0}"; DESCRIBE lists the columns',
    ),
    (
        "unknown-column",
        r'Column "([^"]*)" does not exist on (left|right) side of join',
        'column "{0}" does not exist on the {1} side of the join; write ON … = …',
    ),
    (
        "unknown-field",
        r'Could not find key "([^"]*)" in struct(.*)',
        lambda f: f'field "{f[1]}" does not exist in this struct{_near(f[1], _names(f[2]), "available:")}',
    ),
    (
        "unknown-setting",
        r'unrecognized configuration parameter "([^"]*)"',
        'setting "{0}" does not exist; SELECT name FROM duckdb_settings() lists them',
    ),
    (
        "refused",
        r'^Cannot change configuration option "+([^"]*)"',
        "changing {0} is not supported: it would change the SQL engine for all statements; leave it out",
    ),
    (
        "unknown-parameter",
        r'[Ii]nvalid named parameter "([^"]*)" for function (\w+)',
        'parameter "{0}" of {1} does not exist; the documentation of DuckDB lists its parameters',
    ),
    ("duplicate-name", r'^Column with name "([^"]*)" already exists', 'column "{0}" is specified twice; rename one'),
    (
        "bad-default",
        r"^DEFAULT value cannot contain (.*)",
        "a DEFAULT must be a constant, without {0}; write the value in INSERT",
    ),
    (
        "ambiguous-column",
        r'Ambiguous reference to column name "([^"]*)" \(use: (.*)\)',
        lambda f: f'column "{f[1]}" is ambiguous; write {f[2].replace(chr(39), "")}',
    ),
    (
        "not-grouped",
        r'column "snapdb [^"]*" must appear in the GROUP BY',
        "an aggregate is not allowed here; write it in a subquery, (SELECT …)",
    ),
    (
        "not-grouped",
        r'column "([^"]*)" must appear in the GROUP BY',
        'column "{0}" must appear in GROUP BY or in an aggregate; add it to GROUP BY, or write any_value({0})',
    ),
    (
        "misplaced-aggregate",
        r"^aggregate function calls cannot be nested",
        "aggregates cannot be nested; write the inner one in a subquery, FROM (SELECT …)",
    ),
    (
        "misplaced-aggregate",
        r"^(\w+) clause cannot contain (aggregates|window functions)",
        "{1} are not allowed in {0}; filter them with HAVING or QUALIFY, or in a subquery",
    ),
    (
        "misplaced-aggregate",
        r"^Window functions are not supported here",
        "a window function needs OVER (…) and is not allowed in this clause",
    ),
    ("table-function", r'^Function "(\w+)" is a table function', "{0} is a table function; write SELECT * FROM {0}(…)"),
    (
        "several-rows",
        r"More than one row returned by a subquery",
        "a subquery used as a value returns more than one row; add an aggregate or LIMIT 1",
    ),
    (
        "column-count",
        r"Set operations can only apply to expressions with the same number",
        "the sides of UNION, INTERSECT or EXCEPT must have the same number of columns",
    ),
    (
        "column-count",
        r"Subquery returns (\d+) columns - expected (\d+)",
        "the subquery must return {1} columns, found {0}",
    ),
    (
        "order-place",
        r"^ORDER term out of range - should be between 1 and (\d+)",
        "a position in ORDER BY must be from 1 to {0}; write one of them, or a name",
    ),
    (
        "bad-value",
        r"Could not convert string ('.*?') to (\S+)(?: when casting from source column (\w+))?",
        _not_a_value,
    ),
    (
        "bad-value",
        r"^Type (.+?) can't be cast as UNION\(.*\. The cast is ambiguous, .* members in target: (.*?)\. ",
        "a value of type {0} fits several members of the UNION: {1}; choose one with union_value(member := value)",
    ),
    (
        "bad-value",
        r"^Type (.+?) can't be cast as (UNION\(.*\))\. .* can't be implicitly cast to any",
        "a value of type {0} fits no member of {1}; cast it to the type of a member",
    ),
    (
        "bad-value",
        r"^Type (UNION\(.*\)) can't be cast as (UNION\(.*\))\. The member '(.*)' is not present in target union",
        "a value of type {0} fits no member of {1}, which has no member {2}",
    ),
    ("value-range", r"with value (\S+) can't be cast .*destination type (\w+)", _too_large),
    ("value-range", r"^Overflow in (\w+) of (\w+) \((.*)\)", _overflow),
    (
        "value-range",
        r"Could not cast value (\S+) to DECIMAL\(38,0\)",
        "{0} has 39 digits; a HUGEINT column stores at most 38",
    ),
    ("value-range", r"Could not cast value (\S+) to (\w+\(.*?\))", _too_large),
    (
        "bad-value",
        r'invalid (\w+) field format: "([^"]*)", expected format is (.*)',
        '"{1}" is not a valid {0}; write it as {2}',
    ),
    (
        "bad-value",
        r'Could not parse string "(.*?)" according to format specifier "(.*?)"',
        '"{0}" does not match the format "{1}"; correct it, or write try_strptime, which returns NULL',
    ),
    (
        "bad-value",
        r"^Malformed JSON(?! in file).*?: (.*)",
        "invalid JSON: {0}; correct it, or write TRY_CAST(… AS JSON)",
    ),
    ("no-file", r'^No files found that match the pattern "(.*)"', _no_file),
    (
        "folder-not-allowed",
        r'^Cannot access (?:file|directory) "(.*)" - file system operations are disabled',
        lambda f: outside(f[1]),
    ),
    (
        "unknown-format",
        r'^No extension found that is capable of reading the file "(.*?)"',
        "the format of file \"{0}\" is unknown; write read_csv('{0}'), read_json or read_parquet",
    ),
    (
        "out-of-memory",
        r"Out of Memory|[Ff]ailed to allocate|could not allocate",
        "out of memory; read fewer rows at once, or use a machine with more memory",
    ),
    ("unknown-table", r'because schema "([^"]*)" does not exist', 'table or snapshot "{0}" does not exist'),
    (
        "misplaced-at",
        r"does not support time travel",
        "AT (…) must follow a table's name; files, registered data and the names of WITH have no versions",
    ),
    (
        "unreadable-file",
        r"TProtocolException|Thrift|[Dd]ecompress|ZSTD|Snappy",
        "a Parquet file that the statement reads is damaged; run CHECK DATABASE to list the damaged files",
    ),
    (
        "unreadable-file",
        r"^No magic bytes found at end of file '(.*?)'",
        "{0} is not a Parquet file, or is truncated; check its content",
    ),
)
"""The code, the pattern of DuckDB's message, and snapdb's text or a function that derives it from the match."""
