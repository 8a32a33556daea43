"""Which statements are DuckDB's to read as they stand, and those that only look so."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import ParseError
from snapdb.sql.brackets import partners
from snapdb.sql.islands import READS, explained, says
from snapdb.sql.refuse import refused
from snapdb.sql.tokens import Token

LEADING = (*READS, "DESC")
"""First words of statements that only read."""

_WRITES = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE"})
_PREFIXES = frozenset({"DESCRIBE", "DESC", "SUMMARIZE", "("})


def check_query(tokens: Sequence[Token]) -> None:
    """Raise ParseError when brackets do not match, or when a WITH leads to something else than a read."""
    pairs = partners(tokens)
    _refuse_patterns(tokens)
    index = next((index for index, token in enumerate(tokens) if token.word not in _PREFIXES), None)
    if index is None:
        return
    token, leading = tokens[index], tokens[0].word
    if leading == "SUMMARIZE" and token.word == "GRAPH" and index + 1 < len(tokens):
        reason, way = "a graph's rows differ from version to version", "write SUMMARIZE SNAPSHOT s, of that graph"
        raise refused("SUMMARIZE GRAPH", reason, way, token.span)
    if token.word != "WITH" and leading in {"DESCRIBE", "DESC", "SUMMARIZE"}:
        return  # a table's name may be any word
    main = _main_of_with(tokens, pairs, index) if token.word == "WITH" else index
    if main < len(tokens) and tokens[main].word in _WRITES:
        word = tokens[main].word
        reason = "a write starts with its own word, so that every version is made by a statement that says so"
        way = "write INSERT INTO t WITH … SELECT …" if word == "INSERT" else f"start with {word}, WITH in its query"
        raise refused(f"{tokens[0].word} … {word}", reason, way, tokens[main].span)


def _refuse_patterns(tokens: Sequence[Token]) -> None:
    """Raise at the first GRAPH_TABLE (…), and at what would list DuckDB's tables, of which there are none."""
    for index, token in enumerate(tokens):
        if len(token.text) == len("GRAPH_TABLE") and says(tokens, index, "GRAPH_TABLE", "("):
            way = "join a snapshot's elements: FROM q.knows k JOIN q.person p ON k.src = p.id"
            raise refused("GRAPH_TABLE", "patterns are not in this version", way, token.span)
        if (token.word == "INFORMATION_SCHEMA" and says(tokens, index, token.word, ".")) or (
            token.word in {"DUCKDB_COLUMNS", "DUCKDB_TABLES", "DUCKDB_VIEWS"} and says(tokens, index, token.word, "(")
        ):
            way = "read snapdb.tables and snapdb.columns, or write SHOW TABLES"
            raise refused(token.text, "the engine under the statements has no tables of its own", way, token.span)


def check_explained(tokens: Sequence[Token]) -> None:
    """Raise for settings of EXPLAIN that other databases have."""
    index = explained(tokens, partners(tokens))
    if index >= len(tokens):
        return
    token = tokens[index]
    if token.word == "ANALYSE":
        raise ParseError("EXPLAIN ANALYSE is spelled EXPLAIN ANALYZE here", span=token.span, code="explain-option")
    inner = tokens[index + 1] if token.word == "(" else token
    if inner.word not in (*LEADING, "(") and inner is not token:
        raise ParseError(
            f"EXPLAIN takes its options as (FORMAT text), (FORMAT json) or (ANALYZE), found "
            f"{inner.text[:40]}; leave the parentheses out for the usual",
            span=inner.span,
            code="explain-option",
        )


def _main_of_with(tokens: Sequence[Token], pairs: dict[int, int], index: int) -> int:
    """The index of the statement that follows the common table expressions of the WITH at `index`."""
    while True:
        while index < len(tokens) and tokens[index].word != "AS":
            index = pairs.get(index, index) + 1
        while index < len(tokens) and index not in pairs:
            index += 1
        index = pairs.get(index, index) + 1
        if index >= len(tokens) or tokens[index].word != ",":
            return index
