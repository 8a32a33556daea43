"""What a task runs: read when the task is made, so that mistakes show, and as each run is to run it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql.ast import Begin, Commit, ExecuteTask, Explain, Rollback, Statement
from snapdb.sql.body_paths import named_paths
from snapdb.sql.build import Leaf, span_of
from snapdb.sql.refuse import refuse_parameters, refused
from snapdb.sql.rewrite import Rewritten, rewrite
from snapdb.sql.split import parts
from snapdb.sql.tokens import Token, scan
from snapdb.types import did_you_mean

PLACEHOLDERS = {"date": "20260101", "time": "030000", "version": "1", "run": "1"}
"""What may stand in braces anywhere in a task's body, and a value such as a run puts there."""

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


@dataclass(frozen=True, slots=True)
class Rendered:
    """Statements or a condition as a run runs them."""

    text: str
    places: tuple[str, ...]
    """Absolute paths of the files that the text names, and of folders, which end with a slash, for globs and what is
    written; in order, each once."""


def rendered(text: str, values: Mapping[str, str], folder: str) -> Rendered:
    """A body or a condition with its placeholders filled, and its paths made absolute; all else is left as it was.

    Args:
        values: Of `date`, `time`, `version` and `run`.
        folder: Where relative paths count from.

    >>> rendered("COPY t FROM 'in/{date}.csv'; COPY t TO '/out/{run}.csv'", {"date": "20260101", "run": "7"}, "/d")
    Rendered(text="COPY t FROM '/d/in/20260101.csv'; COPY t TO '/out/7.csv'", places=('/d/in/20260101.csv', '/out/'))
    """
    said = filled(text, values).text
    named = named_paths(said)
    moved = [(path.span, path.absolute(folder)) for path in named if path.absolute(folder) != path.path]
    replacements = [(span, "'" + path.replace("'", "''") + "'") for span, path in moved]
    return Rendered(rewrite(said, replacements).text, tuple(sorted({path.place(folder) for path in named})))


def filled(text: str, values: Mapping[str, str]) -> Rewritten:
    """A text with the values of its placeholders.

    >>> filled("CREATE SNAPSHOT shop_{date} OF shop", PLACEHOLDERS).text
    'CREATE SNAPSHOT shop_20260101 OF shop'
    """
    return rewrite(text, [(Span(*found.span()), values[found[1]]) for found in _PLACEHOLDER.finditer(text)])


def statements_of(body: str) -> int:
    """How many statements a body has.

    >>> statements_of("BEGIN; INSERT INTO t VALUES ('{date};'); COMMIT;")
    3
    """
    return sum(1 for _ in parts(body))


def check_body(body: Leaf, parse: Callable[[str], tuple[Statement, ...]]) -> None:
    """Raise the first mistake of a body at its place in the source; `parse` is told of the text with sample values."""
    start, text = _inside(body)
    sample = filled(text, PLACEHOLDERS)
    try:
        _check(scan(sample.text))
        statements = parse(sample.text)
        if not statements:
            raise ParseError(
                "this task does nothing; write a statement between the dollars",
                span=Span(0, len(sample.text)),
                code="empty-task",
            )
        _check_statements(statements)
        named_paths(sample.text)
    except SnapdbError as error:
        if error.span is not None:
            error.span = _placed(error.span, sample, start)
            found = _PLACEHOLDER.fullmatch(text[error.span.start - start : error.span.stop - start])
            if found is not None and error.code == "unexpected-word":
                said = error.message.replace(PLACEHOLDERS[found[1]], found[0])
                error.message = f"{said}, which is digits; begin a name with a letter, such as s_{found[0]}"
        raise


def _inside(body: Leaf) -> tuple[int, str]:
    """Where the statements of a body begin in the source, and their text: without dollars around them."""
    span = span_of(body)
    if body.type != "STRING":
        return span.start, str(body)
    if not body.startswith("$"):
        raise ParseError(
            "a task's body is a statement, or several between $$ and $$; take the quotes away",
            span=span,
            code="quoted-task",
        )
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
            if said in PLACEHOLDERS:  # filled, were it written without blanks
                raise ParseError(
                    f"{{{said}}} stands without blanks in its braces; take them away",
                    span=tokens[index + 1].span,
                    code="unknown-placeholder",
                )
            hint = did_you_mean(said, PLACEHOLDERS) or f"; it knows {known}"
            raise ParseError(
                f"a task knows no {{{said[:40]}}}{hint}", span=tokens[index + 1].span, code="unknown-placeholder"
            )


def _check_statements(statements: Sequence[Statement]) -> None:
    """Raise for a run of another task, and for a transaction that the body does not end, or did not begin."""
    begun: Span | None = None
    for statement in statements:
        inner = statement
        while isinstance(inner, Explain):
            inner = inner.statement
        match inner:
            case ExecuteTask():
                raise refused("EXECUTE TASK in a task", "a task runs no other", "write its statements here", inner.span)
            case Begin() if begun is not None:
                raise _unpaired("BEGIN stands in a transaction that is open; COMMIT or ROLLBACK that first", inner.span)
            case Begin():
                begun = inner.span
            case Commit() | Rollback():
                if begun is None:
                    raise _unpaired("no transaction is open here; write BEGIN before what belongs to it", inner.span)
                begun = None
    if begun is not None:
        raise _unpaired("this task never ends the transaction that it begins; add COMMIT", begun)


def _unpaired(message: str, span: Span) -> ParseError:
    return ParseError(message, span=span, code="task-transaction")


def _placed(span: Span, sample: Rewritten, start: int) -> Span:
    """A place of the text with sample values as one of the source."""
    first, stop = sample.place(span.start), sample.place(span.stop)
    return Span(start + first, start + max(first, stop))
