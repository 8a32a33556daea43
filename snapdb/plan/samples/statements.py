"""SAMPLE USING: a sampler's statement with clauses of another one in place of its own, as one text parsed whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from snapdb.errors import BindError, CorruptError, ParseError, Span
from snapdb.plan.samples.plans import Origin
from snapdb.relational import quote_odd
from snapdb.sql import parse
from snapdb.sql.ast import Clauses, Name, Sample, SampleUsing
from snapdb.sql.rewrite import rewrite
from snapdb.sql.tokens import Token, identifier, scan
from snapdb.types import Sampler


def statement_of(sampler: Sampler) -> Sample:
    """The statement that a sampler keeps.

    Raises:
        CorruptError: it keeps something else.
    """
    try:
        (statement,) = parse(sampler.text)
        if isinstance(statement, Sample):
            return statement
    except (ValueError, ParseError):
        pass
    raise CorruptError(
        f"sampler {sampler.name} keeps no SAMPLE statement that can be read but {sampler.text[:40]!r}; make it anew "
        f"with CREATE OR REPLACE SAMPLER {quote_odd(sampler.name)}",
        code="damaged-catalog",
    )


def resolve(statement: SampleUsing, sampler: Sampler) -> tuple[Sample, Origin]:
    """The whole statement of the sampler that is named, and where its parts were written."""
    base = statement_of(sampler)
    own, end = _spans(base.clauses), len(sampler.text)
    said = _spans(statement.clauses)
    replaced = [(own[name], span) for name, span in said.items() if name in own]
    added = sorted(span for name, span in said.items() if name not in own)
    source = statement.source
    composed = rewrite(sampler.text, [(old, source[new.start : new.stop]) for old, new in replaced])
    edits = [(new, old, dict(replaced)[old]) for new, old in composed.edits]
    text = composed.text
    for span in added:
        text += " "
        place = Span(len(text), len(text) + span.stop - span.start)
        text += source[span.start : span.stop]
        edits.append((place, Span(end, end), span))
    (whole,) = parse(text)
    assert isinstance(whole, Sample), "clauses make no other statement of it"
    return whole, Origin(sampler.name, sampler.text, tuple(edits))


def _spans(clauses: Clauses) -> dict[str, Span]:
    """Where each clause stands that is said, by its field."""
    said = {field.name: getattr(clauses, field.name) for field in fields(clauses)}
    return {name: clause.span for name, clause in said.items() if clause is not None}


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
