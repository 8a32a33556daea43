"""What a stream is asked for: a sampler by its name, or a SAMPLE statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snapdb.errors import BindError, ParseError, Span
from snapdb.sql import parse
from snapdb.sql.ast import Clauses, Name, Sample, SampleUsing
from snapdb.sql.tokens import Token, identifier, scan


@contextmanager
def streamed(query: str) -> Iterator[Sample | SampleUsing]:
    """The statement; one word, or one name in quotes, is a sampler's name and nothing else.

    An error of the block that no sampler has the name tells what else can be given.

    >>> with streamed("sample") as statement:
    ...     print(statement.sampler)
    sample

    Raises:
        BindError: it is neither, or says EPOCHS.
    """
    if (token := _only_name(query)) is None:
        yield _statement(query)
        return
    try:
        yield SampleUsing(query, token.span, Name(identifier(token), token.span), Clauses())
    except BindError as error:
        if error.code == "unknown-sampler":
            error.message += " (a stream takes a sampler's name, or a whole SAMPLE statement)"
        raise


def _only_name(query: str) -> Token | None:
    """The only token of a text, when that is a name."""
    try:
        (token,) = scan(query)
    except (ValueError, ParseError):  # none or several, or what the parser complains about in its own words
        return None
    return token if token.kind in ("word", "quoted") else None


def _statement(query: str) -> Sample | SampleUsing:
    (statement, *more) = parse(query) or (None,)
    if not isinstance(statement, Sample | SampleUsing) or more:
        raise BindError(
            "stream takes a sampler's name, or one SAMPLE statement",
            text=query,
            span=Span(0, len(query.rstrip()) or 1),
            code="not-a-sample",
        )
    epochs = statement.clauses.epochs
    if epochs is not None and epochs.value != 1:
        raise BindError(
            "a stream is iterated once for each epoch; leave EPOCHS out",
            text=query,
            span=epochs.span,
            code="epochs-in-stream",
        )
    return statement
