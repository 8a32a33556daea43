"""What could stand at the cursor: words of the language and names of the database, without a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.lexers import Lexer, PygmentsLexer
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name

from .commands import COMMANDS

__all__ = ["KEYWORDS", "NamesCompleter", "highlighter", "suggest"]

Names = Mapping[str, Sequence[str]]

_STARTS = (
    "ALTER TABLE", "AUDIT SAMPLE FROM", "BEGIN", "CHECK DATABASE", "COMMIT", "CREATE TABLE", "CREATE PROPERTY GRAPH",
    "CREATE SNAPSHOT", "CREATE TAG", "COPY", "DELETE FROM", "DESCRIBE", "DIFF GRAPH", "DIFF SNAPSHOT", "DIFF TABLE",
    "DROP TABLE", "DROP PROPERTY GRAPH", "DROP SNAPSHOT", "DROP TAG", "EXPIRE SNAPSHOTS", "EXPLAIN", "FROM",
    "INSERT INTO", "REFRESH SNAPSHOT", "ROLLBACK", "SAMPLE FROM", "SELECT", "SHOW TABLES", "SHOW GRAPHS",
    "SHOW SNAPSHOTS", "SHOW TAGS", "SHOW VERSIONS", "SUMMARIZE", "UPDATE", "VACUUM", "VALUES", "WITH",
)  # fmt: skip
_OURS = (
    "ADD", "ANALYZE", "AS", "AT", "BATCH", "BOTH", "CASCADE", "COLUMN", "CSV", "DANGLING", "DEFAULT", "DESTINATION",
    "DROP", "DRY RUN", "DUPLICATE", "EDGE", "ELEMENTS", "ENDING", "EPOCHS", "JSON", "LAYOUT", "NULLS", "OLDER THAN",
    "RENAME", "RESTRICT", "RETAIN INTERVAL", "RETAIN LAST", "ROWS", "SET", "SPARSE", "STATIC", "TAG", "TAGS", "TYPE",
    "ERROR", "EVENT", "EVENT_TIME", "EXISTS", "FANOUT", "FEATURES", "FIRST", "FIXED", "FOR", "FORMAT", "FULL", "GRAPH",
    "GRAPHS", "HEADER", "IF", "IN", "KEY", "LAST", "LIKE", "MESSAGE", "OF", "ON", "ORDER", "OUT", "PARQUET", "PROPERTY",
    "REFERENCES", "REPEATABLE", "REPLACE", "SAMPLE", "SEEDS", "SHOW", "SHUFFLE", "SKIP", "SNAPSHOT", "SNAPSHOTS",
    "SOURCE", "TABLE", "TABLES", "TARGET", "TIME", "TIMESTAMP", "TO", "VERSION", "VERSIONS", "VERTEX", "WEIGHT",
)  # fmt: skip
_SAMPLING = (
    "ALLOW", "AUDIT", "BATCHES", "BEFORE", "BLOCKS", "BOTTOMK", "DEGREE", "DEPENDENT", "DIRECTIONS", "DUPLICATES",
    "EDGES", "EPOCH", "EVER", "HOPS", "KEEP", "KNOWN", "LABOR", "LATEST", "METHOD", "NEGATIVES", "NODES", "NUMBA",
    "PER", "PERCENT", "POSITIVE", "PRIORITY", "REPLACEMENT", "REUSE", "SEED_TIME", "SUBSET", "TEMPORAL", "TOPK",
    "TORCH", "UNIFORM", "WEIGHTED", "WITHIN", "WITHOUT",
)  # fmt: skip
_SQL = (
    "ALL", "AND", "ANY_VALUE", "ASC", "AVG", "BETWEEN", "BIGINT", "BOOLEAN", "BY", "CASE", "CAST", "COALESCE", "COUNT",
    "DATE", "DESC", "DISTINCT", "DOUBLE", "ELSE", "END", "EXCEPT", "EXCLUDE", "FALSE", "FILTER", "FLOAT", "FROM",
    "FULL JOIN", "GROUP BY", "HAVING", "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LEFT JOIN", "LIMIT",
    "MAX", "MIN", "NOT", "NULL", "OFFSET", "OR", "ORDER BY", "OVER", "PARTITION BY", "QUALIFY", "READ_CSV",
    "READ_PARQUET", "SELECT", "SUM", "THEN", "TRUE", "UNION ALL", "USING", "VARCHAR", "WHEN", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
KEYWORDS = tuple(sorted({*_OURS, *_SAMPLING, *_SQL}))
"""Words that may stand inside a statement."""

_RELATIONS = ("tables", "snapshots")
_AFTER: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"\b(TAG(\s+IF\s+EXISTS)?|TAG\s*=>)\s+", ("tags",)),
    (r"\b(SAMPLE\s+FROM|SNAPSHOT(\s+IF\s+EXISTS)?)\s+", ("snapshots",)),
    (r"\bDIFF\s+SNAPSHOT\s+\S+\s+WITH\s+", ("snapshots",)),
    (r"\bVERSIONS\s+OF\s+", ("tables",)),
    (r"\b(OF|GRAPH(\s+IF\s+EXISTS)?)\s+", ("graphs",)),
    (r"\b(TABLE(\s+IF\s+EXISTS)?|INTO|COPY|DELETE\s+FROM|UPDATE|VACUUM|REFERENCES)\s+", ("tables",)),
    (r"\b(FROM|JOIN)\s+", _RELATIONS),
    (r"\b(FANOUT|ELEMENTS)\s*\(([^()]*,)?\s*|\bSEEDS\s+EDGES\s+", ("types",)),
    (r"\bWEIGHT\s+BY\s+([\w$.\s]*,\s*)?", ("columns", "types")),
    (r"\)\s*AS\s+", ("types",)),
    (r"^\s*\\d\s+", ("tables", "graphs", "snapshots")),
)
"""Which names may follow which words, the first that fits."""
_WORD = re.compile(r"[\w$]*$")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def suggest(text: str, names: Names) -> list[str]:
    """Words and names that the last, perhaps empty, word of `text` may become, the likeliest first.

    >>> suggest("SELECT * FROM pay", {"tables": ["payments"], "columns": ["payer"]})
    ['payments']
    >>> suggest("SAMPLE FROM s METHOD BO", {})
    ['BOOLEAN', 'BOTH', 'BOTTOMK']
    >>> suggest("sho", {})[0]
    'show tables'
    """
    word = _WORD.search(text)
    assert word is not None
    typed = word[0]
    return [
        c for c in _candidates(text[: word.start()], typed, names) if c.strip('"').lower().startswith(typed.lower())
    ]


def _candidates(before: str, typed: str, names: Names) -> list[str]:
    statement = before.rpartition(";")[2]
    if statement.rstrip().endswith("\\") or statement.strip() == ".":
        return []
    if statement.endswith("."):
        return _quoted([*names.get("types", ()), *names.get("columns", ())])
    for pattern, kinds in _AFTER:
        if re.search(pattern + r"\Z", statement, re.IGNORECASE):
            return _quoted(name for kind in kinds for name in names.get(kind, ()))
    words = KEYWORDS if statement.strip() else _STARTS
    cased = [w.lower() if typed.islower() else w for w in words]
    known = _quoted(n for kind in ("columns", "tables", "types", "snapshots", "graphs") for n in names.get(kind, ()))
    # Without a letter to go by, names say more than a hundred keywords
    return [*(known if statement.strip() else ()), *(cased if typed or not statement.strip() else ())]


def _quoted(names: Iterable[str]) -> list[str]:
    """Names once each, in double quotes where SQL needs them."""
    return list(dict.fromkeys(n if _PLAIN_NAME.match(n) else '"' + n.replace('"', '""') + '"' for n in names))


class NamesCompleter(Completer):
    """Completion at the prompt from `suggest`, the commands and whatever names the database has by then."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The completions at the cursor."""
        text = document.text_before_cursor
        if text.startswith(("\\", ".")) and " " not in text:
            found = [name for command in COMMANDS for name in command.names if name.startswith(text)]
            yield from (Completion(name, -len(text)) for name in found)
            return
        word = _WORD.search(text)
        if word is None or (not word[0] and not complete_event.completion_requested and not text.endswith(".")):
            return
        yield from (Completion(found, -len(word[0])) for found in suggest(text, self._names()))


_WORDS = frozenset((*_OURS, *_SAMPLING))


class _Words(SqlLexer):  # type: ignore[misc]  # pygments has no types
    """SQL, and our own words as keywords."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        for place, kind, value in super().get_tokens_unprocessed(text):
            yield place, Keyword if kind is Name and value.upper() in _WORDS else kind, value


def highlighter() -> Lexer:
    """Colours for SQL and for our own words."""
    return PygmentsLexer(_Words)
