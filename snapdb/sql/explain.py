"""EXPLAIN, which can precede any other statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import ParseError
from snapdb.sql.lexer import Pairs, Run, Token, explained, partners
from snapdb.sql.queries import LEADING
from snapdb.sql.syntax import Family, Place, Reader, Statement, Tree, first_tree, has, leaves, span_of, trees


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] [(FORMAT text | json)] statement."""

    statement: Statement
    analyze: bool
    json: bool

    def only_reads(self) -> bool:
        return not self.analyze or self.statement.only_reads()

    def to_sql(self) -> str:
        options = " (FORMAT json)" if self.json else ""
        return f"EXPLAIN{' ANALYZE' * self.analyze}{options} {self.statement.to_sql()}"


def _explain(tree: Tree, place: Place, reader: Reader) -> Explain:
    """Build EXPLAIN. Raises ParseError if an option is specified twice."""
    explained = first_tree(tree, "explained")
    options: set[str] = set()
    for leaf in [] if explained is None else [leaf for setting in trees(explained) for leaf in leaves(setting)]:
        if leaf.type in options or options | {leaf.type} >= {"TEXT", "JSON"}:
            raise ParseError(
                f"{leaf.upper()} is specified twice, or together with another FORMAT; keep one",
                span=span_of(leaf),
                code="duplicate-clause",
            )
        options.add(leaf.type)
    statement = reader.statement(leaves(tree)[0])
    return Explain(*place, statement, has(tree, "analyze") or "ANALYZE" in options, "JSON" in options)


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the statement after EXPLAIN and its options, unless it is another EXPLAIN."""
    first = explained(tokens, pairs)
    if first < len(tokens) and tokens[first].word != "EXPLAIN":
        yield Run("STATEMENT", first, len(tokens))


_FOREIGN = frozenset({"EXTENDED", "FORMAT", "PLAN", "QUERY", "VERBOSE"})
"""Words that follow EXPLAIN in other databases."""


def _check(tokens: Sequence[Token]) -> None:
    """Raise ParseError for EXPLAIN options that exist only in other databases."""
    index = explained(tokens, partners(tokens))
    if index >= len(tokens):
        return
    token = tokens[index]
    if token.word == "ANALYSE":
        raise ParseError(
            "expected ANALYZE, found ANALYSE; write EXPLAIN ANALYZE", span=token.span, code="explain-option"
        )
    if token.word in _FOREIGN:
        raise ParseError(
            f"unknown option {token.text[:40]} of EXPLAIN; write EXPLAIN statement, or EXPLAIN ANALYZE statement",
            span=token.span,
            code="explain-option",
        )
    # A parenthesis may also start the explained query, as in EXPLAIN (SELECT 1).
    inner = tokens[index + 1] if token.word == "(" else token
    if inner.word not in (*LEADING, "(") and inner is not token:
        raise ParseError(
            f"the options of EXPLAIN are (FORMAT text), (FORMAT json) and (ANALYZE), found "
            f"{inner.text[:40]}; leave the parentheses out for text",
            span=inner.span,
            code="explain-option",
        )


FAMILY = Family(grammar="explain", builders={}, nesting={"explain": _explain}, fragments=_fragments, check=_check)
