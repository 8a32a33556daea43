"""SAMPLE USING: a sampler's statement with clauses of another one in place of its own, as one text parsed whole."""

from __future__ import annotations

from dataclasses import fields

from snapdb.errors import CorruptError, ParseError, Span
from snapdb.plan.origin import Origin
from snapdb.relational import quote_odd
from snapdb.sql import parse
from snapdb.sql.ast import Clauses, Sample, SampleUsing
from snapdb.sql.rewrite import rewrite
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
