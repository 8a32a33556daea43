"""Constraints in the definition of a table: PRIMARY KEY, UNIQUE, CHECK and REFERENCES, by column or for the table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import Span
from snapdb.sql.lexer import Pairs, Token, partners, says, scan, top_level
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.unsupported import unsupported
from snapdb.types import ConstraintKind

_STARTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "REFERENCES"})
_ACTIONS = (("NO", "ACTION"), ("RESTRICT",))
"""The actions of ON DELETE and ON UPDATE that are the default: a referenced key cannot be changed."""


@dataclass(frozen=True, slots=True)
class ConstraintClause:
    """A constraint as written."""

    kind: ConstraintKind
    name: Name | None
    columns: tuple[Name, ...]
    """The columns of the constraint. Empty for CHECK."""
    expression: SqlFragment | None
    """The condition of CHECK."""
    table: Name | None
    """The table after REFERENCES."""
    keys: tuple[Name, ...]
    """The columns after REFERENCES, or none for the primary key of the table."""
    enforced: bool
    """False with NOT ENFORCED."""
    span: Span


@dataclass(frozen=True, slots=True)
class Definition:
    """The text in the parentheses of CREATE TABLE, split into what DuckDB parses and constraints."""

    constraints: tuple[ConstraintClause, ...]
    hidden: tuple[Span, ...]
    """The parts of the fragment that DuckDB must not see: REFERENCES to tables, and NOT ENFORCED. Spans are relative to
    the fragment."""


def parse_definition(definition: SqlFragment) -> Definition:
    """Return the constraints in column definitions. Raises ParseError for actions such as ON DELETE CASCADE."""
    tokens = scan(definition.text)
    if not any(token.word in _STARTS for token in tokens):
        return Definition((), ())
    reader = _Reader(definition, tokens, partners(tokens))
    commas = [i for i in top_level(tokens, reader.pairs) if tokens[i].word == ","]
    clauses: list[ConstraintClause] = []
    hidden: list[Span] = []
    starts = [0, *(comma + 1 for comma in commas)]
    for start, stop in zip(starts, [*commas, len(tokens)], strict=True):
        is_table = tokens[start].word in _STARTS and tokens[start].kind == "word"
        for clause, first, last in reader.clauses(start, stop, is_table=is_table):
            clauses.append(clause)
            if clause.kind == "FOREIGN KEY" or (not clause.enforced and clause.kind != "CHECK"):
                # A constraint of the table goes with the comma before it, or after it.
                before = 1 if is_table and first else 0
                after = 1 if is_table and not first and last < len(tokens) else 0
                hidden.append(Span(tokens[first - before].span.start, tokens[last + after - 1].span.stop))
            elif not clause.enforced:
                hidden.append(Span(tokens[last - 2].span.start, tokens[last - 1].span.stop))
    return Definition(tuple(clauses), tuple(hidden))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads constraints from the tokens of a definition."""

    definition: SqlFragment
    tokens: Sequence[Token]
    pairs: Pairs

    def clauses(self, start: int, stop: int, *, is_table: bool) -> Iterator[tuple[ConstraintClause, int, int]]:
        """Yield the constraints of one item with the indexes of their first token and of the token after the last."""
        own = () if is_table or start >= stop else (self._name(start),)
        index = start if is_table else start + 1
        while index < stop:
            if self.tokens[index].kind != "word" or self.tokens[index].word not in _STARTS:
                index = self.pairs.get(index, index) + 1
                continue
            first, name = index, None
            if self.tokens[index].word == "CONSTRAINT" and index + 2 < stop:
                name, index = self._name(index + 1), index + 2
            clause, after = self._clause(first, index, stop, own, name)
            if clause is not None:
                yield clause, first, after
            index = max(after, index + 1)

    def _clause(
        self, first: int, index: int, stop: int, own: tuple[Name, ...], name: Name | None
    ) -> tuple[ConstraintClause | None, int]:
        """Return the constraint at an index, or None for another word, which DuckDB parses or rejects."""
        tokens, columns, keys = self.tokens, own, tuple[Name, ...]()
        expression = table = None
        kind: ConstraintKind
        if says(tokens, index, "PRIMARY", "KEY"):
            kind, index = "PRIMARY KEY", index + 2
            columns, index = self._columns(index, own)
        elif says(tokens, index, "UNIQUE"):
            kind = "UNIQUE"
            columns, index = self._columns(index + 1, own)
        elif says(tokens, index, "CHECK") and index + 1 in self.pairs:
            kind, columns, closing = "CHECK", (), self.pairs[index + 1]
            at = self.definition.span.start
            inside = Span(tokens[index + 1].span.stop, tokens[closing].span.start)
            text = self.definition.text[inside.start : inside.stop]
            expression, index = SqlFragment(text, Span(at + inside.start, at + inside.stop)), closing + 1
        elif says(tokens, index, "FOREIGN", "KEY") or says(tokens, index, "REFERENCES"):
            kind = "FOREIGN KEY"
            if says(tokens, index, "FOREIGN"):
                columns, index = self._columns(index + 2, own)
            if not says(tokens, index, "REFERENCES") or index + 1 >= stop:
                return None, index + 1
            table = self._name(index + 1)
            keys, index = self._columns(index + 2, ())
            index = self._actions(index, stop)
        else:
            return None, index + 1
        enforced = not says(tokens, index, "NOT", "ENFORCED")
        index += 0 if enforced else 2
        span = Span(tokens[first].span.start, tokens[index - 1].span.stop)
        return ConstraintClause(kind, name, columns, expression, table, keys, enforced, self._moved(span)), index

    def _columns(self, index: int, default: tuple[Name, ...]) -> tuple[tuple[Name, ...], int]:
        """Return the names in parentheses at an index, or the default without parentheses, and the index after them."""
        if index not in self.pairs:
            return default, index
        closing = self.pairs[index]
        names = tuple(self._name(i) for i in range(index + 1, closing) if self.tokens[i].word != ",")
        return names, closing + 1

    def _actions(self, index: int, stop: int) -> int:
        """Return the index after ON DELETE and ON UPDATE."""
        while index + 2 < stop and says(self.tokens, index, "ON"):
            action = next((words for words in _ACTIONS if says(self.tokens, index + 2, *words)), None)
            if action is None:
                what = " ".join(token.word for token in self.tokens[index : index + 3])
                span = Span(self.tokens[index].span.start, self.tokens[index + 2].span.stop)
                reason, way = "a referenced key cannot be deleted or changed", "change the rows that refer to it first"
                raise unsupported(what, reason, way, self._moved(span))
            index += 2 + len(action)
        return index

    def _name(self, index: int) -> Name:
        return Name(self.tokens[index].identifier, self._moved(self.tokens[index].span))

    def _moved(self, span: Span) -> Span:
        at = self.definition.span.start
        return Span(at + span.start, at + span.stop)
