"""What a task runs, read when the task is made: with sample values for {date} and the like, so that mistakes show."""

from __future__ import annotations

import re
from collections.abc import Callable

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql.ast import Statement
from snapdb.sql.build import Leaf, span_of
from snapdb.sql.refuse import refuse_parameters, refused
from snapdb.sql.rewrite import Rewritten, rewrite
from snapdb.sql.tokens import Token, scan
from snapdb.types import did_you_mean

__all__ = ["PLACEHOLDERS", "check_body"]

PLACEHOLDERS = {"date": "20260101", "time": "030000", "version": "1", "run": "1"}
"""What may stand in braces anywhere in a task's body, and a value such as a run puts there."""

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


def check_body(body: Leaf, parse: Callable[[str], tuple[Statement, ...]]) -> None:
    """Raise the first mistake of a body at its place in the source; `parse` is told of the text with sample values."""
    start, text = _inside(body)
    found = _PLACEHOLDER.finditer(text)
    rendered = rewrite(text, [(Span(*match.span()), PLACEHOLDERS[match[1]]) for match in found])
    try:
        tokens = scan(rendered.text)
        _check(tokens)
        if not parse(rendered.text):
            raise ParseError("this task does nothing; write a statement between the dollars",
                             span=Span(0, len(rendered.text)), code="empty-task")  # fmt: skip
    except SnapdbError as error:
        error.span = None if error.span is None else _placed(error.span, rendered, start)
        raise


def _inside(body: Leaf) -> tuple[int, str]:
    """Where the statements of a body begin in the source, and their text: without dollars around them."""
    span = span_of(body)
    if body.type != "STRING":
        return span.start, str(body)
    if not body.startswith("$"):
        raise ParseError("a task's body is a statement, or several between $$ and $$; take the quotes away",
                         span=span, code="quoted-task")  # fmt: skip
    edge = body.index("$", 1) + 1
    return span.start + edge, body[edge:-edge]


def _check(tokens: tuple[Token, ...]) -> None:
    """Raise for what no task may hold: parameters, other tasks, braces that nothing fills."""
    refuse_parameters(tokens, "a task")
    words = [token.word for token in tokens]
    for index, token in enumerate(tokens):
        if token.word == "TASK" and index and words[index - 1] in {"CREATE", "REPLACE"}:
            raise refused("CREATE TASK in a task", "a task makes no tasks", "make it by itself", token.span)
        if words[index : index + 3 : 2] == ["{", "}"] and tokens[index + 1].kind == "word":
            said, known = tokens[index + 1].text, ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            hint = did_you_mean(said, PLACEHOLDERS) or f"; it knows {known}"
            raise ParseError(f"a task knows no {{{said[:40]}}}{hint}", span=tokens[index + 1].span,
                             code="unknown-placeholder")  # fmt: skip


def _placed(span: Span, rendered: Rewritten, start: int) -> Span:
    """A place of the rendered text as one of the source."""
    first, stop = rendered.place(span.start), rendered.place(span.stop)
    return Span(start + first, start + max(first, stop))
