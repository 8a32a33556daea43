"""Text → statements: each is read by the grammar of its leading words, or left to DuckDB as it stands."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files

import lark
from lark import Lark
from lark.common import LexerConf
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer, LexerState
from lark.parsers.lalr_parser_state import ParserState

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql.caches import build_cache
from snapdb.sql.embedded import Family, fold, says
from snapdb.sql.explain import build_explain
from snapdb.sql.exports import build_copy
from snapdb.sql.graphs import build_graph
from snapdb.sql.lexer import Part, Token, parts
from snapdb.sql.queries import LEADING, Query, check_explained, check_query, find_travels
from snapdb.sql.samples import build_sample
from snapdb.sql.show import build_show
from snapdb.sql.snapshots import build_snapshot
from snapdb.sql.syntax import RESERVED, Island, Leaf, Place, Read, Statement, Tree, span_of
from snapdb.sql.syntax_errors import explain_unexpected
from snapdb.sql.tables import build_table, refuse_write
from snapdb.sql.tasks import build_task
from snapdb.sql.unsupported import (
    CREATED,
    described_tag,
    refuse_mixed,
    refuse_parameters,
    refuse_savepoint,
    unknown_altered,
    unknown_kind,
    unknown_refreshed,
    unknown_show,
    unknown_statement,
)
from snapdb.sql.versions import build_version

_DECLARED = {"quoted": "NAME", "string": "STRING", "number": "NUMBER"}


class StatementLexer(Lexer):
    """Names the terminal of each token; the input is a sequence of `Token`, islands folded."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self.keywords = {terminal.pattern.value.upper(): terminal.name for terminal in conf.terminals}

    def lex(self, lexer_state: LexerState, parser_state: ParserState[int]) -> Iterator[lark.Token]:
        tokens: Iterable[Token] = lexer_state.text  # type: ignore[assignment]  # Lark hands custom input through
        for token in tokens:
            accepted = parser_state.parse_conf.states[parser_state.position]
            terminal = terminal_of(token, accepted, self.keywords)
            start, stop = token.span
            yield lark.Token(terminal, token.text, start_pos=start, end_pos=stop, line=1, column=start + 1)


def terminal_of(token: Token, accepted: Container[str], keywords: Mapping[str, str]) -> str:
    """The terminal of a token; one that no grammar knows where the token can stand nowhere."""
    kind, word = token.kind, token.word
    keyword = keywords.get(word)
    if keyword is not None and keyword in accepted:
        return keyword
    if kind == "word":
        return "RESERVED" if word in RESERVED else "NAME"
    return _DECLARED.get(kind, kind)


@cache
def parser(family: Family) -> Lark:
    """The parser of a family; its input is a sequence of tokens, positions in its trees count in the source."""
    with _without_collision_search():
        return grammar(family)


def grammar(family: Family, *, strict: bool = False) -> Lark:
    """A family's grammar, built anew. `strict` refuses shift/reduce conflicts (needs the package interegular)."""
    text = files("snapdb_grammar").joinpath(f"{family}.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=StatementLexer, propagate_positions=True, strict=strict)


@contextmanager
def _without_collision_search() -> Iterator[None]:
    """Keep Lark from searching regular expressions for collisions: up to 0.2 s, and only to log a warning.

    It does so wherever interegular happens to be installed, even for its own grammar of grammars.
    """
    before = lark.lexer.has_interegular
    lark.lexer.has_interegular = False
    try:
        yield
    finally:
        lark.lexer.has_interegular = before


_FAMILIES: dict[str, Family] = {
    "ABORT": "version",
    "ALTER": "table",
    "AUDIT": "sample",
    "BACKUP": "version",
    "BEGIN": "version",
    "CHECK": "version",
    "COMMIT": "version",
    "COPY": "copy",
    "DELETE": "table",
    "DIFF": "version",
    "DROP": "show",
    "END": "version",
    "EXECUTE": "task",
    "EXPIRE": "snapshot",
    "EXPLAIN": "explain",
    "INSERT": "table",
    "REFRESH": "snapshot",
    "ROLLBACK": "version",
    "SAMPLE": "sample",
    "SHOW": "show",
    "START": "version",
    "UPDATE": "table",
    "VACUUM": "version",
}


_CREATED: dict[str, Family] = {
    "CACHE": "cache",
    "PROPERTY": "graph",
    "SAMPLER": "sample",
    "SNAPSHOT": "snapshot",
    "TABLE": "table",
    "TAG": "version",
    "TASK": "task",
}


_STORED = {"PROPERTY": "a property graph", "SAMPLER": "a sampler", "SNAPSHOT": "a snapshot", "TASK": "a task"}


_KINDS: dict[str, dict[str, Family]] = {
    "ALTER": {"TABLE": "table", "TASK": "task"},
    "REFRESH": {"SNAPSHOT": "snapshot", "CACHE": "cache"},
}
"""Families of statements whose second word tells."""


_ENDED = {"ALTER": "TABLE, PROPERTY GRAPH or TASK", "REFRESH": "SNAPSHOT or CACHE"}
"""What may follow their first word."""


_DESCRIBED = frozenset({"TABLE", "GRAPH", "PROPERTY", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"})


_DROPPED = _DESCRIBED | {"TAG"}


_SHOWN = (
    "TABLES",
    "COLUMNS",
    "GRAPHS",
    "PROPERTY GRAPHS",
    "SNAPSHOTS",
    "SAMPLERS",
    "TAGS",
    "VERSIONS",
    "CACHES",
    "TASKS",
    "TASK RUNS",
)


_SHOWN_FIRST = frozenset(words.split()[0] for words in _SHOWN)


def family_of(tokens: Sequence[Token]) -> Family | None:
    """The grammar that reads a statement, or None for DuckDB's; ParseError for a statement that nobody reads."""
    leading = tokens[0].word
    if leading == "CREATE":
        return _created(tokens)
    if leading in _FAMILIES:
        _check(tokens)
        return _KINDS[leading].get(tokens[1].word, "graph") if leading in _KINDS and tokens[1:] else _FAMILIES[leading]
    if _looks(tokens):
        return "show"
    if leading in (*LEADING, "("):
        return None
    raise unknown_statement(tokens[0], ("CREATE", *_FAMILIES, *LEADING))


def _looks(tokens: Sequence[Token]) -> bool:
    """Whether a DESCRIBE or SUMMARIZE is about one of our things by its name, and not about a query."""
    named = len(tokens) > 2 and tokens[2].kind in ("word", "quoted")
    if tokens[0].word == "SUMMARIZE":
        return tokens[1:] != () and tokens[1].word == "SNAPSHOT" and named
    if tokens[0].word not in {"DESCRIBE", "DESC"}:
        return False
    if len(tokens) == 1:
        return True
    if len(tokens) == 2:
        return tokens[1].kind in ("word", "quoted") and tokens[1].word not in _DESCRIBED
    if named and len(tokens) == 3 and tokens[1].word == "TAG":
        raise described_tag(tokens[1])
    return len(tokens) > 2 and tokens[1].word in _DESCRIBED and tokens[2].word != "."


def _created(tokens: Sequence[Token]) -> Family:
    """The family of a CREATE."""
    index = 3 if says(tokens, 1, "OR", "REPLACE") else 1
    if index >= len(tokens):
        raise _ended(tokens, CREATED.replace(" and ", " or "))
    kind = tokens[index].word
    if kind not in _CREATED:
        raise unknown_kind("CREATE", tokens[index])
    if kind in _STORED:
        refuse_parameters(tokens, _STORED[kind])
    return _CREATED[kind]


def _check(tokens: Sequence[Token]) -> None:
    """Raise for forms of our other statements that are refused by name."""
    leading, second = tokens[0].word, tokens[1] if len(tokens) > 1 else None
    if second is None:
        if leading in _ENDED:
            raise _ended(tokens, _ENDED[leading])
        return
    if leading == "ALTER" and second.word not in _KINDS["ALTER"]:
        _check_altered(tokens)
    elif leading == "REFRESH" and second.word not in _KINDS["REFRESH"]:
        raise unknown_refreshed(second)
    elif leading == "EXECUTE" and second.word != "TASK":
        raise unknown_statement(tokens[0], ())
    elif leading == "EXPLAIN":
        check_explained(tokens)
    elif leading in {"COPY", "DELETE", "INSERT", "UPDATE"} or (leading == "ALTER" and second.word == "TABLE"):
        refuse_write(tokens)
    elif leading == "DROP" and second.word not in _DROPPED:
        raise unknown_kind("DROP", second)
    elif leading == "SHOW" and second.word not in _SHOWN_FIRST:
        raise unknown_show(second, _SHOWN)
    elif leading in {"ABORT", "ROLLBACK"}:
        refuse_savepoint(second)


def _check_altered(tokens: Sequence[Token]) -> None:
    """Raise unless a graph's retention is set or dropped."""
    named = 3 if says(tokens, 1, "PROPERTY", "GRAPH") else 2
    change = [token.word for token in tokens[named + 1 : named + 3]]
    changed = change not in ([], ["DROP"], ["DROP", "RETENTION"]) and change[0] != "SET"
    if changed or tokens[min(named, len(tokens)) - 1].word not in {"GRAPH", "PROPERTY"}:
        raise unknown_altered(tokens[1])


def _ended(tokens: Sequence[Token], expected: str) -> ParseError:
    end = tokens[-1].span.stop
    return ParseError(
        f"unexpected end of the statement: expected {expected}", span=Span(end, end), code="unexpected-end"
    )


_BUILDERS: dict[Family, Callable[[Tree, Place], Statement]] = {
    "table": build_table,
    "graph": build_graph,
    "cache": build_cache,
    "snapshot": build_snapshot,
    "sample": build_sample,
    "show": build_show,
    "version": build_version,
}


_NESTING: dict[Family, Callable[[Tree, Place, Read], Statement]] = {"copy": build_copy, "explain": build_explain}
"""Families whose statements hold another one."""


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order; spans count in the whole text, empty statements are skipped.

    Raises ParseError with the place of the first mistake; its code is 'refused' for a statement that is understood
    and not allowed.

    >>> [type(statement).__name__ for statement in parse("DROP TABLE t; SELECT 1;")]
    ['Drop', 'Query']
    """
    try:
        return _statements(text)
    except SnapdbError as error:
        raise error.located(text) from None


def parse_one(text: str) -> Statement:
    """The only statement of a text.

    Raises:
        ParseError: it cannot be read, or there is none, or a second one; the place is where one is missing or too much.
    """
    statements = parse(text)
    if len(statements) == 1:
        return statements[0]
    if statements:
        message, span = (
            f"execute takes one statement, found {len(statements)}; use script for several",
            statements[1].span,
        )
    elif text.strip():
        message = (
            "execute takes one statement, found only comments or semicolons; write a statement, such as SHOW TABLES"
        )
        span = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
    else:
        message, span = "execute takes one statement, found an empty text; write one, such as SHOW TABLES", Span(0, 0)
    raise ParseError(message, span=span, text=text, code="several-statements")


def parse_each(text: str) -> Iterator[Statement | SnapdbError]:
    """Each statement of a text, or what is wrong with it, in order; a quote that never ends leaves only its error.

    >>> [type(found).__name__ for found in parse_each("SELEC 1; SELECT 2")]
    ['ParseError', 'Query']
    """
    try:
        found = tuple(parts(text))
    except SnapdbError as error:
        yield error.located(text)
        return
    for part in found:
        try:
            yield _statement(part, text)
        except SnapdbError as error:
            yield error.located(text)


def format_sql(text: str) -> str:
    r"""The statements of a text in one spelling, each ended by a semicolon and a line end; comments are lost.

    Comments inside queries, conditions and expressions stay: those are DuckDB's, and are left as they were written.

    Raises:
        ParseError: Something in it is no statement.

    >>> format_sql("drop table if exists t ; show tags -- all")
    'DROP TABLE IF EXISTS t;\nSHOW TAGS;\n'
    """
    return "".join(f"{statement.to_sql()};\n" for statement in parse(text))


def _statements(text: str) -> tuple[Statement, ...]:
    return tuple(_statement(part, text) for part in parts(text))


def _statement(part: Part, text: str) -> Statement:
    family = family_of(part.tokens)
    refuse_mixed(part.tokens)
    find_travels(part.tokens, text)  # a wrong one is shown in the whole text, whoever rewrites it later
    if family is None:
        check_query(part.tokens)
        return Query(text, part.span, Island(text[part.span.start : part.span.stop], part.span))
    tokens = fold(part.tokens, family, text)
    try:
        tree = parser(family).parse(tokens)
    except UnexpectedToken as error:
        raise explain_unexpected(error, parser(family), part.tokens) from None
    place = Place(text, part.span)
    if family == "task":
        return build_task(tree, place, _statements)
    if family in _NESTING:
        return _NESTING[family](tree, place, lambda leaf: _statement(_inside(part, leaf), text))
    return _BUILDERS[family](tree, place)


def _inside(part: Part, leaf: Leaf) -> Part:
    """The tokens of a statement that were folded into one leaf."""
    start, stop = span_of(leaf)
    return Part(tuple(token for token in part.tokens if start <= token.span.start < stop), part.ended)
