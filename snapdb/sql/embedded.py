"""Which runs of tokens inside our statements are DuckDB's to read, and folding each into one token.

Our grammars never look into an island: they see one token of a kind in capitals that carries the island's span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from snapdb.errors import Span
from snapdb.sql.lexer import Token, TokenKind, partners


class Run(NamedTuple):
    """Tokens `first` up to, not including, `stop` are an island."""

    kind: TokenKind
    first: int
    stop: int


READS = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT", "SUMMARIZE", "TABLE", "DESCRIBE")
"""First words of queries; one may also start with a parenthesis."""


Pairs = dict[int, int]


Family = str
"""The name of a grammar file: table, graph, copy and the like."""


def fold(tokens: Sequence[Token], family: Family, source: str) -> tuple[Token, ...]:
    """The tokens of a statement with every island as one token; ParseError when brackets do not match."""
    pairs = partners(tokens)
    find = _FINDERS.get(family)
    runs = sorted(find(tokens, pairs), key=lambda run: run.first) if find else []
    folded: list[Token] = []
    position = 0
    for run in runs:
        if run.first < position or run.first >= run.stop:
            continue
        if run.kind == "QUERY" and tokens[run.first].word not in (*READS, "("):
            continue  # left as it is, so that the grammar refuses its first word
        span = Span(tokens[run.first].span.start, tokens[run.stop - 1].span.stop)
        folded += tokens[position : run.first]
        folded.append(Token(run.kind, source[span.start : span.stop], span))
        position = run.stop
    return (*folded, *tokens[position:])


def top_level(tokens: Sequence[Token], pairs: Pairs, first: int = 0) -> Iterator[int]:
    """The indexes from `first` on of tokens outside brackets, opening brackets included."""
    index = first
    while index < len(tokens):
        yield index
        index = pairs.get(index, index) + 1


def says(tokens: Sequence[Token], first: int, *words: str) -> bool:
    """Whether the tokens from `first` on are these keywords or marks."""
    found = tokens[first : first + len(words)]
    return bool(found) and found[0].word == words[0] and [token.word for token in found[1:]] == [*words[1:]]


def _has_message(tokens: Sequence[Token]) -> bool:
    """Whether the last two tokens are MESSAGE '…'."""
    return says(tokens[-2:-1], 0, "MESSAGE") and tokens[-1].kind == "string"


def _body_stop(tokens: Sequence[Token]) -> int:
    return len(tokens) - 2 if _has_message(tokens) else len(tokens)


def _table(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    leading = tokens[0].word
    if leading == "CREATE":
        yield from _created(tokens, pairs)
    elif leading == "INSERT":
        yield from _inserted(tokens, pairs)
    elif leading == "UPDATE":
        yield from _updated(tokens, pairs)
    elif leading == "DELETE":
        yield from _clauses(tokens, pairs, 3, "USING")
    elif leading == "ALTER":
        yield from _altered(tokens)


def _created(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What stands in the first parentheses, or after AS."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "AS":
            yield Run("QUERY", index + 1, _body_stop(tokens))
            return
        if tokens[index].word == "(":
            yield Run("COLUMNS", index + 1, pairs[index])
            return


def _inserted(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What follows the table's name and its columns, if it names columns."""
    first = 3
    if first in pairs and _names_columns(tokens[first + 1 : pairs[first]]):
        first = pairs[first] + 1
    yield Run("QUERY", first, _body_stop(tokens))


def _names_columns(inside: Sequence[Token]) -> bool:
    """Whether parentheses after INSERT INTO t hold columns: names between commas, or at least no query."""
    names, commas = inside[::2], inside[1::2]
    if all(token.kind in ("word", "quoted") for token in names) and all(token.word == "," for token in commas):
        return True
    return inside[0].word not in (*READS, "(")


def _updated(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The value of each assignment after SET, what follows FROM, the condition."""
    named = 4 if says(tokens, 2, "AS") else 2 if says(tokens, 2, "SET") else 3
    if not says(tokens, named, "SET"):
        return
    stop = named
    while stop == named or says(tokens, stop, ","):
        first = stop + 3 if says(tokens, stop + 2, "=") else stop + 1  # without a value the grammar says what is wrong
        stop, start = _boundary(tokens, pairs, first, ",", "FROM", "WHERE"), stop
        if first == start + 3:
            yield Run("EXPRESSION", first, stop)
    yield from _clauses(tokens, pairs, stop, "FROM")


def _clauses(tokens: Sequence[Token], pairs: Pairs, first: int, keyword: str) -> Iterator[Run]:
    """What follows a keyword, FROM or USING, and the condition after WHERE."""
    where = _boundary(tokens, pairs, first, "WHERE")
    others = _boundary(tokens, pairs, first, keyword, "WHERE")
    if others < where:
        yield Run("SOURCES", others + 1, where)
    yield Run("CONDITION", where + 1, _body_stop(tokens))


def _boundary(tokens: Sequence[Token], pairs: Pairs, first: int, *words: str) -> int:
    """The first keyword of some outside brackets that starts a clause, or where the statement's body stops."""
    stop = _body_stop(tokens)
    for index in top_level(tokens, pairs, first):
        if index >= stop:
            break
        word, before = tokens[index].word, tokens[index - 1].word
        if word in words and before != "." and (before, word) != ("DISTINCT", "FROM"):
            return index
    return stop


def _altered(tokens: Sequence[Token]) -> Iterator[Run]:
    """The column's definition after ALTER TABLE [IF EXISTS] t ADD [COLUMN] [IF NOT EXISTS]."""
    table = 4 if says(tokens, 2, "IF", "EXISTS") else 2
    if says(tokens, table + 1, "ADD"):
        first = table + 3 if says(tokens, table + 2, "COLUMN") else table + 2
        yield Run("COLUMNS", first + 3 if says(tokens, first, "IF", "NOT", "EXISTS") else first, _body_stop(tokens))


def _tail(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The condition after WHERE, up to the end."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "WHERE":
            yield Run("CONDITION", index + 1, len(tokens))
            return


def _at(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The value in AT (VERSION => …)."""
    for index in top_level(tokens, pairs):
        if index in pairs and index and tokens[index - 1].word == "AT" and says(tokens, index + 2, "=>"):
            yield Run("EXPRESSION", index + 3, pairs[index])


_AFTER_LENGTH = frozenset({"ENDING", "AT", "ELEMENTS", "WITH", "WHERE"})
"""What may follow the length of a window."""


_BEFORE_TIME = frozenset({"OF", "FROM", "TO", "BETWEEN", "AND", "INTERVAL", "ENDING", "THAN"})


def _snapshot(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The value of AT, a parenthesised time or length, the condition after WHERE."""
    yield from _tail(tokens, pairs)
    yield from _at(tokens, pairs)
    for index in top_level(tokens, pairs):
        if index in pairs and index and tokens[index - 1].word in _BEFORE_TIME:
            yield Run("EXPRESSION", index + 1, pairs[index])
        elif tokens[index].word == "WINDOW":
            yield from _length(tokens, pairs, index + 1)


_OPERATORS = frozenset({"+", "-", "*", "/", "%"})


def _length(tokens: Sequence[Token], pairs: Pairs, first: int) -> Iterator[Run]:
    """A length that is computed: operands between operators, or one expression in parentheses and nothing else.

    A number or an INTERVAL by itself is left to the grammar. What follows the last operand is too, so that a word that
    no clause begins with is refused by its own name.
    """
    stop = _operand_stop(tokens, pairs, first)
    if first in pairs and (stop == len(tokens) or tokens[stop].text not in _OPERATORS):
        yield Run("EXPRESSION", first + 1, pairs[first])
        return
    computed = False
    while stop < len(tokens) and tokens[stop].text in _OPERATORS:
        stop, computed = _operand_stop(tokens, pairs, stop + 1), True
    if computed:
        yield Run("EXPRESSION", first, stop)


def _operand_stop(tokens: Sequence[Token], pairs: Pairs, first: int) -> int:
    """Where an operand ends: a value with its sign, something in parentheses, or INTERVAL with its amount and unit."""
    while first < len(tokens) and tokens[first].text in {"-", "+"}:
        first += 1
    if says(tokens, first, "INTERVAL"):
        amount = _operand_stop(tokens, pairs, first + 1)
        united = amount < len(tokens) and tokens[amount].kind == "word" and tokens[amount].word not in _AFTER_LENGTH
        return amount + 1 if united else amount
    last = pairs.get(first, first)
    return min(last + 1, len(tokens))


def _version(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The value of AT, the two ends of DIFF, the interval of RETAIN."""
    yield from _at(tokens, pairs)
    if tokens[0].word == "DIFF" and not says(tokens, 1, "SNAPSHOT"):
        yield from _ends(tokens, pairs)
    elif tokens[0].word == "VACUUM":
        first = 2 if says(tokens, 1, "RETAIN") else 3
        if says(tokens, first - 1, "RETAIN"):
            yield Run(
                "EXPRESSION", first, len(tokens) - 2 if says(tokens, len(tokens) - 2, "DRY", "RUN") else len(tokens)
            )


def _ends(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What follows VERSION, TIMESTAMP or TAG after DIFF TABLE t FROM or DIFF [PROPERTY] GRAPH g FROM, and after TO."""
    last = {"ROWS"} if says(tokens, 1, "TABLE") else {"ROWS", "FEATURES"}
    stop = len(tokens) - 1 if tokens[-1].word in last else len(tokens)
    named = 4 if says(tokens, 1, "PROPERTY", "GRAPH") else 3
    starts = [index for index in top_level(tokens[:stop], pairs, named) if tokens[index].word in {"FROM", "TO"}]
    for start, end in zip(starts, [*starts, stop][1:], strict=True):
        yield Run("EXPRESSION", start + 2, end)


def _sample(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The contents of the parentheses after SEEDS or SEEDS EDGES t, and after INTERVAL; the word IN before others."""
    for index in top_level(tokens, pairs):
        if index not in pairs or not index:
            continue
        if tokens[index - 1].word == "SEEDS" or (index > 2 and says(tokens, index - 3, "SEEDS", "EDGES")):
            yield Run("QUERY", index + 1, pairs[index])
        elif tokens[index - 1].word == "INTERVAL":
            yield Run("EXPRESSION", index + 1, pairs[index])
        elif tokens[index - 1].word == "IN":
            yield Run("AMONG", index - 1, index)


def _copy(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What stands between COPY ( and ), and the value of AT."""
    if 1 in pairs:
        yield Run("STATEMENT" if says(tokens, 2, "SAMPLE") else "QUERY", 2, pairs[1])
    yield from _at(tokens, pairs)


def _explain(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What follows EXPLAIN and its settings, but for another EXPLAIN."""
    first = explained(tokens, pairs)
    if first < len(tokens) and tokens[first].word != "EXPLAIN":
        yield Run("STATEMENT", first, len(tokens))


def explained(tokens: Sequence[Token], pairs: Pairs) -> int:
    """The index of the first token after EXPLAIN and its settings."""
    first = 2 if says(tokens, 1, "ANALYZE") else 1
    return pairs[first] + 1 if first in pairs and tokens[first + 1].word in {"FORMAT", "ANALYZE"} else first


def _task(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The condition of WHEN, a length in parentheses, and what follows AS unless it is one string."""
    for index in top_level(tokens, pairs):
        word = tokens[index].word
        if word == "AS":
            if [token.kind for token in tokens[index + 1 :]] != ["string"]:
                yield Run("STATEMENT", index + 1, len(tokens))
            return
        if word in {"WHEN", "INTERVAL"} and index + 1 in pairs:
            yield Run("CONDITION" if word == "WHEN" else "EXPRESSION", index + 2, pairs[index + 1])


_FINDERS: dict[Family, Callable[[Sequence[Token], Pairs], Iterator[Run]]] = {
    "table": _table,
    "copy": _copy,
    "explain": _explain,
    "task": _task,
    "snapshot": _snapshot,
    "sample": _sample,
    "show": _at,
    "version": _version,
}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after replacements."""

    text: str
    edits: tuple[tuple[Span, Span], ...]
    """Each replacement's place in this text and the place that it took in the original; in order."""

    def place(self, index: int) -> int:
        """Where in the original text a place of this text was; within a replacement, where the replaced part starts.

        >>> rewrite("SELECT at", [(Span(7, 9), '"at"')]).place(11)
        9
        """
        before = bisect_right(self.edits, index, key=lambda edit: edit[0].start) - 1
        if before < 0:
            return index
        new, old = self.edits[before]
        return old.start if index < new.stop else old.stop + index - new.stop


def rewrite(text: str, replacements: Sequence[tuple[Span, str]]) -> Rewritten:
    """The text with other words in some places, which come in any order and do not overlap.

    >>> rewrite("FROM t AT (VERSION => 3) WHERE at", [(Span(31, 33), '"at"'), (Span(5, 24), "t3")]).text
    'FROM t3 WHERE "at"'
    """
    pieces: list[str] = []
    edits: list[tuple[Span, Span]] = []
    length = position = 0
    for span, words in sorted(replacements):
        if span.start < position:
            raise ValueError(f"replacements overlap at {span.start}")
        kept = text[position : span.start]
        start = length + len(kept)
        length = start + len(words)
        pieces += (kept, words)
        edits.append((Span(start, length), span))
        position = span.stop
    return Rewritten("".join((*pieces, text[position:])), tuple(edits))
