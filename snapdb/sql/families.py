"""Which grammar reads a statement: its leading words tell, and what is refused by name is refused here."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import ParseError, Span
from snapdb.sql import queries
from snapdb.sql.islands import Family, says
from snapdb.sql.refuse import (
    CREATED,
    described_tag,
    refuse_parameters,
    refuse_savepoint,
    unknown_altered,
    unknown_kind,
    unknown_refreshed,
    unknown_show,
    unknown_statement,
)
from snapdb.sql.refuse_write import refuse_write
from snapdb.sql.tokens import Token

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
    if leading in (*queries.LEADING, "("):
        return None
    raise unknown_statement(tokens[0], ("CREATE", *_FAMILIES, *queries.LEADING))


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
        queries.check_explained(tokens)
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
