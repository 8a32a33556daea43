"""Which statements are DuckDB's to read as they stand, and those that only look so."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import ParseError
from snapdb.sql.brackets import partners
from snapdb.sql.islands import READS, Family, says
from snapdb.sql.refuse import refused
from snapdb.sql.tokens import Token

__all__ = ["LEADING", "check_query", "explained_family"]

LEADING = (*READS, "DESC", "EXPLAIN")
"""First words of statements that only read."""

_WRITES = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE"})
_PREFIXES = frozenset({"EXPLAIN", "DESCRIBE", "DESC", "SUMMARIZE"})


def check_query(tokens: Sequence[Token]) -> None:
    """Raise ParseError when brackets do not match, or when a WITH or an EXPLAIN leads to something else than a read."""
    pairs = partners(tokens)
    index = _inner(tokens, pairs)
    if index is None:
        return
    if tokens[0].word == "EXPLAIN":
        _check_explained(tokens[index], tokens[index - 1])
    token, leading = tokens[index], tokens[0].word
    if leading == "SUMMARIZE" and token.word in {"SNAPSHOT", "GRAPH"} and index + 1 < len(tokens):
        way = "write SUMMARIZE snapshot.element"
        raise refused(f"SUMMARIZE {token.word}", "it is not in this version", way, token.span)
    if token.word != "WITH" and leading in {"DESCRIBE", "DESC", "SUMMARIZE"}:
        return  # a table's name may be any word
    main = _main_of_with(tokens, pairs, index) if token.word == "WITH" else index
    if main < len(tokens) and tokens[main].word in _WRITES:
        word = tokens[main].word
        reason = "a write starts with its own word, so that every version is made by a statement that says so"
        way = "write INSERT INTO t WITH … SELECT …" if word == "INSERT" else f"start with {word}, WITH in its query"
        raise refused(f"{tokens[0].word} … {word}", reason, way, tokens[main].span)


def _check_explained(token: Token, before: Token) -> None:
    """Raise when what follows EXPLAIN and its options is nothing that it can explain."""
    if token.word in (*LEADING, "("):
        return
    if token.word == "ANALYSE":
        raise ParseError("EXPLAIN ANALYSE is spelled EXPLAIN ANALYZE here", span=token.span)
    if token.word == ")" or (before.text == "(" and token.word not in {"CREATE", "REFRESH", "SAMPLE"}):
        raise ParseError(f"EXPLAIN takes its options as (FORMAT text), (FORMAT json) or (ANALYZE), found "
                         f"{token.text[:40]}; leave the parentheses out for the usual", span=token.span)  # fmt: skip
    reason = "in this version EXPLAIN shows how a query, SAMPLE, CREATE SNAPSHOT or REFRESH SNAPSHOT runs"
    way = "write EXPLAIN SELECT …, or run the statement"
    if token.word == "AUDIT":
        way = "write EXPLAIN SAMPLE … for what its batches take, or AUDIT SAMPLE … by itself"
    raise refused(f"EXPLAIN {token.text[:40]}", reason, way, token.span)


def explained_family(tokens: Sequence[Token]) -> Family | None:
    """The grammar of the statement that an EXPLAIN, its options passed over, is about; None for a query of DuckDB's."""
    index = _inner(tokens, partners(tokens))
    if index is None or tokens[index - 1].word not in {"EXPLAIN", "ANALYZE", ")"}:
        return None
    if tokens[index].word == "SAMPLE":
        return "sample"
    kinds = (("CREATE", "SNAPSHOT"), ("CREATE", "OR", "REPLACE", "SNAPSHOT"), ("REFRESH", "SNAPSHOT"))
    return "snapshot" if any(says(tokens, index, *words) for words in kinds) else None


def _inner(tokens: Sequence[Token], pairs: dict[int, int]) -> int | None:
    """The index of the word that says what is read, after EXPLAIN, its options and opening parentheses."""
    index = 0
    while index < len(tokens):
        word = tokens[index].word
        if word in {"EXPLAIN", "ANALYZE"} and index + 1 in pairs and _is_option(tokens[index + 2].word):
            index = pairs[index + 1] + 1
        elif word in _PREFIXES or word in {"(", "ANALYZE"}:
            index += 1
        else:
            return index
    return None


def _is_option(word: str) -> bool:
    return word in {"FORMAT", "ANALYZE"}


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
