"""Statements that DuckDB runs unchanged: checks for unsupported forms, and the parts that snapdb itself evaluates."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import ClassVar, NamedTuple

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import READS, Token, partners, says, scan, tokens
from snapdb.sql.pattern_tokens import question_quantifiers
from snapdb.sql.syntax import BOUNDS, SqlFragment, Statement, VersionBound, version_bound
from snapdb.sql.unsupported import described_tag, unsupported


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """SELECT, WITH, VALUES, FROM, PIVOT, DESCRIBE <query>, SUMMARIZE <table>: statements that DuckDB runs unchanged."""

    reads: ClassVar[bool] = True

    query: SqlFragment

    def to_sql(self) -> str:
        return self.query.text


LEADING = (*READS, "DESC")
"""The first words of statements that only read."""

WRITES = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE"})
"""The first words of statements that may follow WITH and write."""

_PREFIXES = frozenset({"DESCRIBE", "DESC", "SUMMARIZE", "("})


DESCRIBED = frozenset({"TABLE", "VIEW", "GRAPH", "PROPERTY", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"})
"""The words after DESCRIBE that name a kind of snapdb object."""


def describes_ours(tokens: Sequence[Token]) -> bool:
    """Return whether DESCRIBE or SUMMARIZE refers to a named snapdb object instead of a query."""
    named = len(tokens) > 2 and tokens[2].kind in ("word", "quoted")
    if tokens[0].word == "SUMMARIZE":
        return tokens[1:] != () and tokens[1].word == "SNAPSHOT" and named
    if tokens[0].word not in {"DESCRIBE", "DESC"}:
        return False
    if len(tokens) == 1:
        return True
    if len(tokens) == 2:
        return tokens[1].kind in ("word", "quoted") and tokens[1].word not in DESCRIBED
    if named and len(tokens) == 3 and tokens[1].word == "TAG":
        raise described_tag(tokens[1])
    return len(tokens) > 2 and tokens[1].word in DESCRIBED and tokens[2].word != "."


def check_query(tokens: Sequence[Token]) -> None:
    """Raise ParseError if brackets do not match, or if the statement after WITH writes."""
    pairs = partners(tokens)
    _refuse_catalog(tokens)
    index = next((index for index, token in enumerate(tokens) if token.word not in _PREFIXES), None)
    if index is None:
        return
    token, leading = tokens[index], tokens[0].word
    if leading == "SUMMARIZE" and token.word == "GRAPH" and index + 1 < len(tokens):
        reason, way = (
            "the rows of a graph depend on the version",
            "write SUMMARIZE SNAPSHOT s for a snapshot of the graph",
        )
        raise unsupported("SUMMARIZE GRAPH", reason, way, token.span)
    if token.word != "WITH" and leading in {"DESCRIBE", "DESC", "SUMMARIZE"}:
        return  # any word can be a table name
    main = main_of_with(tokens, pairs, index) if token.word == "WITH" else index
    if main < len(tokens) and tokens[main].word in WRITES:
        word = tokens[main].word
        reason = "a statement that writes must begin with its own keyword"
        way = (
            "write INSERT INTO t WITH … SELECT …"
            if word == "INSERT"
            else f"begin with {word}, and put WITH into its query"
        )
        raise unsupported(f"{tokens[0].word} … {word}", reason, way, tokens[main].span)


def _refuse_catalog(tokens: Sequence[Token]) -> None:
    """Raise ParseError for queries on DuckDB's own catalog."""
    for index, token in enumerate(tokens):
        if (token.word == "INFORMATION_SCHEMA" and says(tokens, index, token.word, ".")) or (
            token.word in {"DUCKDB_COLUMNS", "DUCKDB_TABLES", "DUCKDB_VIEWS"} and says(tokens, index, token.word, "(")
        ):
            way = "read snapdb.tables and snapdb.columns, or write SHOW TABLES"
            raise unsupported(token.text, "the catalog of the SQL engine is not accessible", way, token.span)


def main_of_with(tokens: Sequence[Token], pairs: dict[int, int], index: int) -> int:
    """Return the index of the statement after the common table expressions of the WITH at `index`."""
    while True:
        # Each pass skips one expression: its name and columns, AS, MATERIALIZED, and the query in parentheses.
        while index < len(tokens) and tokens[index].word != "AS":
            index = pairs.get(index, index) + 1
        while index < len(tokens) and index not in pairs:
            index += 1
        index = pairs.get(index, index) + 1
        if index >= len(tokens) or tokens[index].word != ",":
            return index


_RESERVED = (
    "ALL ANALYSE ANALYZE AND ANTI ANY ARRAY AS ASC ASOF ASYMMETRIC AUTHORIZATION BINARY BOTH BY CASE CAST CHECK "
    "COLLATE COLLATION COLUMN COLUMNS CONCURRENTLY CONSTRAINT CREATE CROSS DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT "
    "DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FREEZE FROM FULL GENERATED GLOB GROUP HAVING ILIKE IN INITIALLY INNER "
    "INTERSECT INTO IS ISNULL JOIN LAMBDA LATERAL LEADING LEFT LIKE LIMIT MAP NATURAL NOT NOTNULL NULL OFFSET ON ONLY "
    "OR ORDER OUTER OVERLAPS PIVOT PIVOT_LONGER PIVOT_WIDER PLACING POSITIONAL PRIMARY QUALIFY REFERENCES RETURNING "
    "RIGHT SELECT SEMI SHOW SIMILAR SOME STRUCT SUMMARIZE SYMMETRIC TABLE TABLESAMPLE THEN TO TRAILING TRUE TRY_CAST "
    "TUPLE UNION UNIQUE UNPACK UNPIVOT USING VARIADIC VERBOSE WHEN WHERE WINDOW WITH "
)

_DEEPEST = 16
"""The maximum nesting depth of AT clauses. The value of an AT clause can be a query that contains AT."""

_AT = frozenset({"AT", "At", "aT", "at"})

NO_NAMES = frozenset(_RESERVED.split())
"""The words that DuckDB accepts as table names only in quotes."""


class TimeTravel(NamedTuple):
    """A reference to a table at an earlier version (SQL:2011 calls it a system-versioned table)."""

    name: Token
    """The table name, quoted or not. It is the last part of a dotted path."""
    bound: VersionBound
    span: Span
    """The span from the start of the name to the closing parenthesis."""
    schema: str = ""
    """The schema before the name, or ''. The span then starts at the schema."""


def time_travels(text: str) -> tuple[TimeTravel, ...]:
    """Return the tables with AT (VERSION | TIMESTAMP | TAG => …) in a text, in order. Spans are relative to the text.

    A reference inside the value of another reference is not returned, because it belongs to that value.

    >>> (travel,) = time_travels("SELECT at FROM bought AT (VERSION => 3) b")
    >>> travel.name.text, travel.bound.kind, travel.bound.value.text, travel.span
    ('bought', 'VERSION', '3', Span(start=15, stop=39))
    """
    return find_travels(scan(text), text)


def find_travels(tokens: Sequence[Token], source: str) -> tuple[TimeTravel, ...]:
    """Return the result of `time_travels` for scanned tokens. Raises ParseError for a bound without a value."""
    # This runs for every token of a script, so the cheap text comparison comes first.
    starts = [
        index - 1 for index, token in enumerate(tokens) if token[1] in _AT and index and _is_travel(tokens, index - 1)
    ]
    pairs = partners(tokens) if starts else {}
    travels: list[TimeTravel] = []
    # The closing parentheses of the references that enclose the current one.
    around: list[int] = []
    for index in starts:
        while around and around[-1] < index:
            around.pop()
        if len(around) == _DEEPEST:
            raise ParseError(
                f"AT is nested more than {_DEEPEST} levels deep in values of AT; write the version itself",
                span=tokens[index + 1].span,
                code="too-deep",
            )
        if not around:
            travels.append(_travel(tokens, index, pairs[index + 2], source))
        around.append(pairs[index + 2])
    return tuple(travels)


def bare_ats(text: str, every: Sequence[Token] | None = None) -> tuple[Span, ...]:
    """Return the spans of the unquoted name `at` outside AT clauses. DuckDB requires quotes around it.

    Args:
        text: The text.
        every: The tokens to search, or None for all tokens of the text.

    >>> text = "SELECT at, ts AT TIME ZONE 'UTC' FROM t AT (VERSION => 3) ORDER BY t.at"
    >>> [text[: span.start] for span in bare_ats(text)]
    ['SELECT ', "SELECT at, ts AT TIME ZONE 'UTC' FROM t AT (VERSION => 3) ORDER BY t."]
    """
    tokens = scan(text) if every is None else every
    if not any(token.word == "AT" for token in tokens):
        return ()
    return tuple(_names(tokens, tuple(travel.span for travel in find_travels(tokens, text))))


def opens_bound(tokens: Sequence[Token], index: int) -> bool:
    """Return whether AT (VERSION => starts at the index."""
    words = [token.word for token in tokens[index : index + 4]]
    return len(words) == 4 and words[0] == "AT" and words[1] == "(" and words[2] in BOUNDS and words[3] == "=>"


def _names(tokens: Sequence[Token], travels: Sequence[Span]) -> Iterator[Span]:
    for index, token in enumerate(tokens):
        following = tuple(after.word for after in tokens[index + 1 : index + 3])
        if token.word != "AT" or following == ("TIME", "ZONE") or opens_bound(tokens, index):
            continue
        if not any(span.start <= token.span.start < span.stop for span in travels):
            yield token.span


def _is_travel(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a table name followed by AT (VERSION => starts at the index."""
    token = tokens[index]
    named = token.kind == "quoted" or (token.kind == "word" and token.word not in NO_NAMES)
    return named and opens_bound(tokens, index + 1)


def _travel(tokens: Sequence[Token], index: int, last: int, source: str) -> TimeTravel:
    """Build the table reference from the indexes of its name and its closing parenthesis."""
    name, at, kind, closer = tokens[index], tokens[index + 1], tokens[index + 3], tokens[last]
    if index and tokens[index - 1].word == "AS":
        raise ParseError(f"AT must precede the alias; write t AT (…) AS {name.text}", span=at.span, code="at-place")
    if last == index + 5:
        raise ParseError(f"expected a value after {kind.word} =>, found )", span=closer.span, code="bad-bound")
    inside = Span(tokens[index + 5].span.start, tokens[last - 1].span.stop)
    bound = version_bound(kind.text, SqlFragment(source[slice(*inside)], inside), Span(at.span.start, closer.span.stop))
    return TimeTravel(name, bound, Span(name.span.start, closer.span.stop))


_COUNT = ("SELECT", "COUNT", "(", "*", ")")

_BEFORE = ("(", "UNION", "ALL")

_AFTER = (")", ";", "UNION")


class _RowCount(NamedTuple):
    """`count(*) AS n FROM name AT (…) AS t` after SELECT. Only count, FROM and the name are required."""

    name: Token
    """The table name, quoted or not."""
    alias: Token | None
    """The alias of the result."""
    span: Span
    """The span from `count` to the end of the FROM clause."""


def find_counts(tokens: Sequence[Token]) -> tuple[_RowCount, ...]:
    """Return the row counts of whole tables in a query, or none under WITH, where a name can refer to a subquery.

    >>> text = "SELECT count(*) AS n FROM a AT (VERSION => 3) UNION ALL SELECT count(*) FROM b"
    >>> counts = find_counts(scan(text))
    >>> [(count.name.text, count.alias and count.alias.text, text[slice(*count.span)]) for count in counts]
    [('a', 'n', 'count(*) AS n FROM a AT (VERSION => 3)'), ('b', None, 'count(*) FROM b')]
    >>> find_counts(scan("SELECT count(*) FROM a WHERE x > 1"))
    ()
    >>> find_counts(scan("WITH a AS (SELECT 1) SELECT count(*) FROM a"))
    ()
    """
    starts = [i for i, token in enumerate(tokens) if token.word == "COUNT" and _counts(tokens, i - 1)]
    if not starts or any(token.word == "WITH" for token in tokens):
        return ()
    pairs = partners(tokens)
    counts = (_count(tokens, pairs, start) for start in starts)
    return tuple(count for count in counts if count is not None)


def _counts(tokens: Sequence[Token], index: int) -> bool:
    """Return whether SELECT count(*) starts at the index."""
    begins = index == 0 or (index > 0 and tokens[index - 1].word in _BEFORE)
    return begins and tuple(token.word for token in tokens[index : index + len(_COUNT)]) == _COUNT


def _count(tokens: Sequence[Token], pairs: dict[int, int], start: int) -> _RowCount | None:
    """Build the row count at `start`, or return None if anything except a table follows."""
    alias, place = _alias(tokens, start + 4)
    if _word(tokens, place) != "FROM" or not _is_name(tokens, place + 1):
        return None
    name, last = tokens[place + 1], place + 1
    if opens_bound(tokens, last + 1):
        last = pairs[last + 2]
    if _word(tokens, last + 1) == "AS" and _is_name(tokens, last + 2):
        last += 2
    # A comma, a join or a WHERE changes the count, so only the end of the SELECT may follow.
    if last + 1 < len(tokens) and tokens[last + 1].word not in _AFTER:
        return None
    return _RowCount(name, alias, Span(tokens[start].span.start, tokens[last].span.stop))


def _alias(tokens: Sequence[Token], place: int) -> tuple[Token | None, int]:
    """Return the alias of the result, and the index after it."""
    if _word(tokens, place) == "AS" and _is_name(tokens, place + 1):
        return tokens[place + 1], place + 2
    return None, place


def _word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].word if index < len(tokens) else ""


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index] if index < len(tokens) else None
    return token is not None and (token.kind == "quoted" or (token.kind == "word" and token.word not in NO_NAMES))


_SPACE = r"[\t-\r ]*+"

_LITERAL_NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:e[+-]?[0-9]++)?+"

_LITERAL = rf"{_SPACE}(?:{_LITERAL_NUMBER}|'(?:[^']++|'')*+'|NULL|TRUE|FALSE){_SPACE}"

_LITERAL_TEXT = rf"{_SPACE}(?:'(?:[^']++|'')*+'|NULL|TRUE|FALSE){_SPACE}"

_ROW = rf"{_SPACE}\({_LITERAL}(?:,{_LITERAL})*+\){_SPACE}"

_VALUES = re.compile(rf"(VALUES{_ROW})(?:,{_ROW})*+", re.IGNORECASE | re.ASCII)


def first_row(query: str) -> str | None:
    """Return VALUES with only its first row if all values are numbers, strings, NULL, TRUE or FALSE, otherwise None.

    Such a query does not refer to any names, and its first row has as many columns as the whole query.

    >>> first_row("VALUES (1, 'it''s'), (-2.5e3, NULL)"), first_row("VALUES (1), (now())")
    ("VALUES (1, 'it''s')", None)
    """
    match = _VALUES.fullmatch(query)
    return None if match is None else match[1].rstrip()


def has_number_at(query: str, places: Collection[int], width: int) -> bool:
    """Return whether a row of literals in VALUES may have a number at one of these places, which start at 0.

    Args:
        query: VALUES with literals only.
        places: The places.
        width: The number of values in a row.

    >>> query = "VALUES ('a', 1), ('b', 2)"
    >>> has_number_at(query, [0], 2), has_number_at(query, [1], 2)
    (False, True)
    """
    # One regular expression for all rows takes linear time, even for megabytes of text.
    values = (_LITERAL_TEXT if place in places else _LITERAL for place in range(width))
    row = rf"{_SPACE}\({','.join(values)}\){_SPACE}"
    return re.fullmatch(rf"VALUES{row}(?:,{row})*+", query, re.IGNORECASE | re.ASCII) is None


Value = int | float | Decimal | bool | str | None

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)

_QUOTED = re.compile(r"'(?:[^']|'')*'")

_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}


def value_of(text: str) -> Value:
    """Parse a parameter's text: a number, true, false, null, or a quoted string as in SQL. Other text is a string.

    Numbers with leading zeros are strings, because they may be ids or postal codes. Dates are strings too, and the
    query casts them.

    >>> value_of("42"), value_of("1.50"), value_of("1e3"), value_of("NULL"), value_of("'42'"), value_of("007")
    (42, Decimal('1.50'), 1000.0, None, '42', '007')
    """
    if match := _NUMBER.fullmatch(text):
        fraction, exponent = match.groups()
        # As in DuckDB, a literal with an exponent is a DOUBLE, and one with a fraction is an exact DECIMAL.
        return float(text) if exponent else Decimal(text) if fraction else int(text)
    if _QUOTED.fullmatch(text):
        return text[1:-1].replace("''", "'")
    return _WORDS.get(text.lower(), text)


def marks_of(statement: Statement) -> list[str]:
    """Return a statement's parameters as written, without duplicates. Those of PREPARE get their values later.

    >>> from snapdb.sql import parse
    >>> marks_of(parse("SELECT $a, '$b', $a")[0])
    ['$a']
    """
    if statement.stores_parameters:
        return []
    tokens = scan(statement.text)
    quantifiers = question_quantifiers(tokens) if any(token.text == "?" for token in tokens) else frozenset[int]()
    marks = (token.text for i, token in enumerate(tokens) if token.kind == "parameter" and i not in quantifiers)
    return list(dict.fromkeys(marks))


def whole_files(query: str) -> str | None:
    """Return the path or glob of a query that returns exactly the rows in Parquet files, or None for other queries.

    >>> whole_files("SELECT * FROM 'day/*.parquet'"), whole_files("SELECT a FROM 'a.parquet'")
    ('day/*.parquet', None)
    """
    first = tuple(islice(tokens(query), 5))  # read only the first tokens, because VALUES can be megabytes of text
    words = [token.word for token in first[:-1]]
    if words not in (["SELECT", "*", "FROM"], ["FROM"]) or first[-1].kind != "string":
        return None
    path = first[-1].string_value
    return path if path.lower().endswith(".parquet") else None
