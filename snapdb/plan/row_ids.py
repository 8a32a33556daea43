"""The pseudo-column rowid, which only queries that name it have: * does not include it, as in DuckDB."""

from collections.abc import Iterable, Iterator, Sequence

from snapdb.errors import Span
from snapdb.sql.lexer import Token, partners, scan, top_level
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import ROW_ID, quote
from snapdb.types import Table

_WITHOUT = " NOT LIKE 'rowid'"
_CHANGES = frozenset({"EXCLUDE", "REPLACE", "RENAME"})

_MODIFIERS = frozenset({"EXCLUDE", "REPLACE", "RENAME", "LIKE", "NOT", "ILIKE", "SIMILAR", "("})
"""The words after * that choose columns, so that the query itself decides about rowid."""


def stars_without_row_ids(tokens: Sequence[Token], hidden: Iterable[Span]) -> Iterator[tuple[Span, str]]:
    """Yield each * of a select list, and the start of a query without SELECT, with what leaves rowid out."""
    spans, pairs = [*hidden], partners(tokens)
    for index, token in enumerate(tokens):
        before = tokens[index - 1].word if index else ""
        after = tokens[index + 1].word if index + 1 < len(tokens) else ""
        is_star = token.text == "*" and before in (",", ".", "SELECT", "DISTINCT", "ALL")
        if not is_star or any(span.start <= token.span.start < span.stop for span in spans):
            continue
        if after in _CHANGES and index + 2 in pairs:
            end = tokens[pairs[index + 2]].span.stop
            yield Span(end, end), _WITHOUT
        elif after not in _MODIFIERS:
            yield Span(token.span.stop, token.span.stop), _WITHOUT
    if tokens and tokens[0].word == "FROM":
        words = {tokens[i].word for i in top_level(tokens, partners(tokens))}
        if not words & {"SELECT", "UNION", "EXCEPT", "INTERSECT"}:
            yield Span(tokens[0].span.start, tokens[0].span.start), f"SELECT *{_WITHOUT} "


def row_id_names(fragment: SqlFragment, table: Table) -> list[tuple[Span, str]]:
    """Return each rowid in a condition or value with the name that row ids have in the rows to change.

    In a fragment with a subquery, only those outside brackets refer to the table.
    """
    if "rowid" not in fragment.text.lower() or table.column("rowid") is not None:
        return []
    tokens = scan(fragment.text)
    nested = any(token.word == "SELECT" for token in tokens)
    places = top_level(tokens, partners(tokens)) if nested else range(len(tokens))
    return [(tokens[i].span, quote(ROW_ID)) for i in places if tokens[i].kind == "word" and tokens[i].word == "ROWID"]
