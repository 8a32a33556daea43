"""Trees of sample.lark as SAMPLE, by itself, after AUDIT, or kept as a sampler."""

from __future__ import annotations

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import Audit, CreateSampler, Sample, SampleUsing, Statement
from snapdb.sql.build import Place, Tree, has, leaves, name, once, span_of, trees
from snapdb.sql.build_clauses import build_clauses


def build_sample(tree: Tree, place: Place) -> Statement:
    """SAMPLE, AUDIT SAMPLE or CREATE SAMPLER."""
    (statement,) = trees(tree)
    if statement.data in ("sample", "using"):
        return _sampled(statement, place)
    inner = trees(statement)[-1]
    sample = _sampled(inner, Place(place.source, span_of(inner)))
    if statement.data == "audit":
        return Audit(*place, sample)
    return CreateSampler(*place, name(leaves(statement)[0]), sample, has(statement, "replace"), has(statement, "guard"))


def _sampled(tree: Tree, place: Place) -> Sample | SampleUsing:
    of, clauses = name(leaves(tree)[0]), build_clauses(once(trees(tree)), place.source)
    if tree.data == "using":
        return SampleUsing(*place, of, clauses)
    if clauses.seeds is None:
        raise _lacking("SEEDS clause; add e.g. SEEDS (SELECT id FROM t) AS vertex_type", place)
    if clauses.fanouts is None:
        raise _lacking("FANOUT clause; add e.g. FANOUT (DEFAULT => [10, 10])", place)
    return Sample(*place, of, clauses)


def _lacking(what: str, place: Place) -> ParseError:
    return ParseError(f"expected a {what}", span=Span(place.span.stop, place.span.stop), code="missing-clause")
