"""Prepares a task's body and condition for a run: inserts placeholder values, absolute paths and change counts."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from snapdb.errors import ParseError, Span
from snapdb.remote.files import is_file_url
from snapdb.sql.lexer import (
    CLOSERS,
    OPENERS,
    Rewritten,
    Token,
    explained,
    partners,
    parts,
    rewrite,
    says,
    scan,
    top_level,
)

PLACEHOLDERS = {"date": "20260101", "time": "030000", "version": "1", "run": "1"}
"""The placeholders in a task body, each with a sample of the value that a run inserts."""

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


class _Rendered(NamedTuple):
    """Statements, or a condition, with resolved placeholders and paths."""

    text: str
    places: tuple[str, ...]
    """Sorted absolute paths without duplicates: the files that the text names, and, with a trailing slash, the
    directories of globs and of written files."""


def rendered(text: str, values: Mapping[str, str], folder: str) -> _Rendered:
    """Fill in the placeholders of a body or condition, and make its paths absolute. All other text is unchanged.

    Args:
        text: The body or condition.
        values: The values of `date`, `time`, `version` and `run`.
        folder: The directory that relative paths refer to.

    >>> rendered("COPY t FROM 'in/{date}.csv'; COPY t TO '/out/{run}.csv'", {"date": "20260101", "run": "7"}, "/d")
    _Rendered(text="COPY t FROM '/d/in/20260101.csv'; COPY t TO '/out/7.csv'", places=('/d/in/20260101.csv', '/out/'))
    """
    # Placeholders are filled in first, because paths can contain them.
    body = filled(text, values).text
    named = named_paths(body)
    moved = [(path.span, path.absolute(folder)) for path in named if path.absolute(folder) != path.path]
    replacements = [(span, "'" + path.replace("'", "''") + "'") for span, path in moved]
    return _Rendered(rewrite(body, replacements).text, tuple(sorted({path.place(folder) for path in named})))


def filled(text: str, values: Mapping[str, str]) -> Rewritten:
    """Replace the placeholders in a text with their values.

    >>> filled("CREATE SNAPSHOT shop_{date} OF shop", PLACEHOLDERS).text
    'CREATE SNAPSHOT shop_20260101 OF shop'
    """
    return rewrite(text, [(Span(*match.span()), values[match[1]]) for match in _PLACEHOLDER.finditer(text)])


def statements_of(body: str) -> int:
    """Return the number of statements in a body.

    >>> statements_of("BEGIN; INSERT INTO t VALUES ('{date};'); COMMIT;")
    3
    """
    return sum(1 for _ in parts(body))


_READERS = frozenset(
    (
        "glob",
        "parquet_bloom_probe",
        "parquet_file_metadata",
        "parquet_full_metadata",
        "parquet_kv_metadata",
        "parquet_metadata",
        "parquet_scan",
        "parquet_schema",
        "read_avro",
        "read_blob",
        "read_csv",
        "read_csv_auto",
        "read_duckdb",
        "read_json",
        "read_json_auto",
        "read_json_objects",
        "read_json_objects_auto",
        "read_ndjson",
        "read_ndjson_auto",
        "read_ndjson_objects",
        "read_parquet",
        "read_single_csv_file",
        "read_single_json_file",
        "read_single_parquet_file",
        "read_text",
        "sniff_csv",
    )
)
"""DuckDB's table functions whose first argument is a path or a list of paths."""

_OPENERS = _READERS - {"glob"} | {"query", "query_table"}
"""Functions whose argument is opened as a file. glob only lists names."""

_ENDS = frozenset(
    (
        "EXCEPT",
        "FETCH",
        "GROUP",
        "HAVING",
        "INTERSECT",
        "LIMIT",
        "OFFSET",
        "ORDER",
        "QUALIFY",
        "SELECT",
        "UNION",
        "VALUES",
        "WHERE",
        "WINDOW",
        "WITH",
    )
)
"""The words that end a list of tables. A comma after one of them does not separate tables."""

_SHOWS = frozenset({"DESC", "DESCRIBE", "PIVOT", "PIVOT_LONGER", "PIVOT_WIDER", "SUMMARIZE", "TABLE", "UNPIVOT"})
"""The words other than FROM and JOIN that precede a table."""

_HAVE_FROM = frozenset({"EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM"})
"""Functions whose parentheses contain FROM before a value."""

WORDS_BEFORE_FILES = frozenset(word.lower() for word in {"FROM", "JOIN", "USING", *_SHOWS}) | _OPENERS
"""A query without any of these words does not open a file."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))")

_GLOB = re.compile(r"[*?[]")

_READS = "read only local files and s3, gs, az and https URLs"
_WRITES = "write only local files, and publish"


class _NamedPath(NamedTuple):
    """A string that a statement opens as a path."""

    span: Span
    """The span of the string, including its quotes."""
    path: str
    """The value of the string."""
    written: bool
    """Whether COPY … TO writes the path. Otherwise it is read, and may be a glob."""
    publication: bool = False
    """Whether it is the URL or the folder of a publication."""

    def absolute(self, folder: str) -> str:
        """Return the path, resolved against a directory if it is relative.

        >>> _NamedPath(Span(0, 0), "in/*.csv", False).absolute("/data/[1]")
        '/data/[[]1]/in/*.csv'
        """
        start, rest = self._start(folder)
        # Only the base is escaped, because wildcard characters in it are literal, whereas the relative path can be a
        # glob.
        return os.path.join(start if self.written else _GLOB.sub(r"[\g<0>]", start), rest)

    def place(self, folder: str) -> str:
        """Return the path of the file, or of the directory that contains all matching files, with a trailing slash.

        Files are first written under a temporary name in the same directory, so the result for a written path is its
        directory. For a glob, it is the last directory before the first wildcard.

        >>> [_NamedPath(Span(0, 0), path, False).place("/data") for path in ("in/*.csv", "/a/b.csv", "*/b.csv")]
        ['/data/in/', '/a/b.csv', '/data/']
        """
        start, rest = self._start(folder)
        if self.publication:
            return rest if _URL.match(rest) else os.path.join(start, rest, "")
        if self.written:
            return os.path.join(os.path.dirname(os.path.join(start, rest).rstrip("/")), "")
        plain, *marked = _GLOB.split(_LOCAL.sub("", rest), maxsplit=1)
        place = os.path.join(start, plain)
        return os.path.join(os.path.dirname(place), "") if marked else place

    def _start(self, folder: str) -> tuple[str, str]:
        """Split a path into its base and the part after it. The base of an absolute path is ''."""
        if self.path.startswith("/") or _URL.match(self.path) or _LOCAL.match(self.path):
            return "", self.path
        db_dir, _, rest = self.path.partition("/")
        if db_dir.startswith("~") and (known := os.path.expanduser(db_dir)) != db_dir:
            return known, rest
        return folder, self.path


def named_paths(text: str) -> tuple[_NamedPath, ...]:
    """Return the paths in the statements of a text, in order.

    Raises:
        ParseError: A path is on another machine, or would give access to all files on this machine.

    >>> text = "COPY t FROM 'a.csv'; SELECT 'x' FROM read_csv(['b.csv'], delim = ';') WHERE c IN ('d.csv', 'e.csv')"
    >>> [named.path for named in named_paths(text)]
    ['a.csv', 'b.csv']
    """
    paths = [named for part in parts(text) for named in _paths(part.tokens)]
    for named in paths:
        span, path, written, publication = named
        read = _LOCAL.match(path) or is_file_url(path)
        if _URL.match(path) and not publication and (written or not read):
            raise ParseError(
                f"a task can {_WRITES if written else _READS}, found '{path[:80]}'; copy the file to this machine, and "
                "write the path of the copy",
                span=span,
                code="task-url",
            )
        # A path such as /*.csv would require access to the root directory.
        if not os.path.normpath(named.place("-")).strip("/"):
            raise ParseError(
                f"'{path[:80]}' would give the task access to all files of this machine; write a path in a folder",
                span=span,
                code="task-everywhere",
            )
    return tuple(sorted(paths))


def file_arguments(tokens: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """Yield the arguments that a query opens as files: tables that are strings or quoted names, and reader arguments.

    `query` and `query_table` count as readers, because their argument is a query or a table name.

    >>> from snapdb.sql.lexer import scan
    >>> text = "SELECT 'a' FROM 'b.csv', read_text('c' || $x, size => 1) WHERE d = 'e'"
    >>> [" ".join(token.text for token in argument) for argument in file_arguments(scan(text))]
    ["'b.csv'", "'c' | | $x"]
    """
    pairs = partners(tokens)
    deletes = any(token.word == "USING" for token in tokens)
    yield from ((token,) for token in _tables(tokens, pairs, deletes=deletes, readers=frozenset()))
    for index, token in enumerate(tokens[:-1]):
        if token.kind == "quoted" and "/" in token.text:
            yield (token,)
        elif (
            token.kind in {"word", "quoted"} and tokens[index + 1].text == "(" and token.identifier.lower() in _OPENERS
        ):
            yield _first_argument(tokens, pairs, index + 1)
    if tokens[-1].kind == "quoted" and "/" in tokens[-1].text:
        yield (tokens[-1],)


def _first_argument(tokens: Sequence[Token], pairs: dict[int, int], opener: int) -> tuple[Token, ...]:
    first, stop = opener + 1, pairs[opener]
    comma = next((index for index in top_level(tokens[:stop], pairs, first) if tokens[index].word == ","), stop)
    return tuple(tokens[first:comma])


def _paths(tokens: Sequence[Token]) -> Iterator[_NamedPath]:
    """Yield the paths of one statement."""
    pairs = partners(tokens)
    first = explained(tokens, pairs) if tokens[0].word == "EXPLAIN" else 0
    if says(tokens, first, "COPY"):
        for index in top_level(tokens, pairs, first):
            if tokens[index].word == "TO" and index + 1 < len(tokens) and tokens[index + 1].kind == "string":
                yield _NamedPath(tokens[index + 1].span, tokens[index + 1].string_value, written=True)
    if says(tokens, first, "BACKUP", "DATABASE", "TO") and tokens[first + 3 :] and tokens[first + 3].kind == "string":
        yield _NamedPath(tokens[first + 3].span, tokens[first + 3].string_value, written=True)
    if says(tokens, first, "PUBLISH"):
        for index in top_level(tokens, pairs, first):
            if tokens[index].word == "TO" and index + 1 < len(tokens) and tokens[index + 1].kind == "string":
                yield _NamedPath(tokens[index + 1].span, tokens[index + 1].string_value, written=True, publication=True)
    if says(tokens, first, "VACUUM") and tokens[first + 1 :] and tokens[first + 1].kind == "string":
        yield _NamedPath(tokens[first + 1].span, tokens[first + 1].string_value, written=True, publication=True)
    deletes = says(tokens, first, "DELETE")
    for token in _tables(tokens, pairs, deletes=deletes):
        if path := token.string_value:
            yield _NamedPath(token.span, path, written=False)


@dataclass(slots=True)
class _Bracket:
    """An open bracket, or the statement around all brackets."""

    function: str
    """The word before the bracket."""
    lists: bool
    """Whether a list of tables continues inside the bracket."""


def _tables(
    tokens: Sequence[Token], pairs: dict[int, int], *, deletes: bool, readers: frozenset[str] = _READERS
) -> Iterator[Token]:
    """Yield the strings that are used as tables, and the strings in the arguments of readers used as tables."""
    # A small state machine: FROM and JOIN expect a table, and a comma continues the list in the innermost open bracket.
    expected = False
    around = [_Bracket("", lists=False)]
    for index, token in enumerate(tokens):
        word, before = token.word, tokens[index - 1].word if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind == "mark":
            expected = _after_mark(word, before, around, expected)
        elif token.kind == "string":
            if expected:
                yield token
            expected = False
        elif before != "." and (_opens(tokens, index, around[-1].function) or (deletes and word == "USING")):
            around[-1].lists = expected = True
        elif before != "." and (word == "JOIN" or word in _SHOWS):
            expected = word == "JOIN" or following != "("
        elif before != "." and word in _ENDS:
            around[-1].lists = expected = False
        elif expected:
            if following == "(" and token.identifier.lower() in readers:
                yield from _given(tokens, pairs, index + 1)
            expected = word == "LATERAL" or following in {".", ":"}


def _after_mark(mark: str, before: str, around: list[_Bracket], expected: bool) -> bool:
    """Return whether a table name is valid after a symbol, and update the open brackets."""
    if mark in OPENERS:
        around.append(_Bracket(before, lists=expected and mark == "("))
        return around[-1].lists
    if mark in CLOSERS:
        around.pop()
        return False
    return around[-1].lists if mark == "," else expected and mark in {".", ":"}


def _opens(tokens: Sequence[Token], index: int, function: str) -> bool:
    """Return whether FROM at the index starts a list of tables."""
    if tokens[index].word != "FROM" or function in _HAVE_FROM:
        return False
    before = tokens[index - 1].word if index else ""
    return before != "DISTINCT" and not (index > 1 and says(tokens, index - 2, "FOR", "EVENT_TIME"))


def _given(tokens: Sequence[Token], pairs: dict[int, int], opener: int) -> Iterator[Token]:
    """Yield the strings in the first argument of a function that are complete paths."""
    first, stop = opener + 1, pairs[opener]
    if tokens[first].text == "[":
        first, stop = first + 1, pairs[first]
    else:
        stop = next((index for index in top_level(tokens[:stop], pairs, first) if tokens[index].word == ","), stop)
    for index in top_level(tokens[:stop], pairs, first):
        # A string next to an operator is only part of a path, which is known only at run time.
        beside = {tokens[index - 1].text, tokens[index + 1].text}
        if tokens[index].kind == "string" and beside <= {"(", "[", ",", "]", ")"}:
            yield tokens[index]


class _Changed(NamedTuple):
    """changed('graph') in a condition: the number of rows added and removed since the last successful run."""

    name: str
    """The graph name as written."""
    span: Span
    """The span from the word to the closing parenthesis."""


def changed_graphs(condition: str) -> tuple[_Changed, ...]:
    """Return the calls of changed('graph') in a condition, in order. Spans are relative to the condition.

    Raises:
        ParseError: The argument is not a single string.

    >>> changed_graphs("changed('shop') > 10 OR 'changed(1)' = x")
    (_Changed(name='shop', span=Span(start=0, stop=15)),)
    """
    tokens = scan(condition)
    pairs = partners(tokens)
    changes = []
    for index, token in enumerate(tokens):
        if token.word != "CHANGED" or not says(tokens, index + 1, "(") or (index and says(tokens, index - 1, ".")):
            continue
        closer = pairs[index + 1]
        span = Span(token.span.start, tokens[closer].span.stop)
        if closer != index + 3 or tokens[index + 2].kind != "string":
            raise ParseError(
                "the argument of changed must be a graph's name in quotes: changed('shop')",
                span=span,
                code="bad-changed",
            )
        changes.append(_Changed(tokens[index + 2].string_value, span))
    return tuple(changes)


def with_counts(condition: str, counts: Mapping[str, int]) -> str:
    """Replace changed('graph') in a condition with numbers, using the names as written in the condition.

    >>> with_counts("changed('shop') > 10 OR CHANGED ( 'bank' ) > 0", {"shop": 12, "bank": 0})
    '12 > 10 OR 0 > 0'
    """
    return rewrite(condition, [(span, str(counts[name])) for name, span in changed_graphs(condition)]).text
