"""REFRESH: for how many batches a node's row serves, and which other clauses go with that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from snapdb.errors import BindError, Span
from snapdb.sql import parse
from snapdb.sql.ast import RefreshClause, Sample
from snapdb.sql.print_samples import print_refresh_clause
from snapdb.sql.rewrite import rewrite
from snapdb.types import FULL, Drawing, Fanout, Method, Refresh, SampleSpec

LEAST_PLACE = -40
"""Decimal places of a number in a clause; more would make fractions of any length."""

_AMPLIFY = Decimal(2)
_MOST_BATCHES = 2**31
_MOST_EDGES = 2**31 - 1
_MOST_DEGREE = 2**63 - 1

_ROWLESS: dict[Method, str] = {
    "LATEST": "takes the newest edges, the same in every batch",
    "TOPK": "takes the heaviest edges, the same in every batch",
    "FULL": "takes every edge",
    "BOTTOMK": "draws by a key of each edge and batch",
    "LABOR": "draws by a key of each neighbour and batch, and DEPENDENT BATCHES keeps its draws for several",
}
"""Why some methods draw from no row."""


def bind_refresh_clause(statement: Sample, fanouts: Sequence[Fanout], drawing: Drawing) -> Refresh | None:
    """Which rows serve several batches; None where every batch draws afresh: REFRESH FBL, or no REFRESH.

    Raises:
        BindError: a number is out of its bounds, or another clause does not go with rows that serve several batches.
    """
    clause = statement.clauses.refresh
    if clause is None or clause.strategy == "FBL":
        return None
    _check_drawing(statement, clause, drawing)
    every = None if clause.every == "AUTO" else clause.every
    refresh = Refresh(
        strategy=clause.strategy,
        every=None if every is None else _whole(clause, "EVERY", every, 1, _MOST_BATCHES),
        share=Fraction(1) if clause.percent is None else _share(clause, "OTF", clause.percent),
        amplify=_amplify(clause),
        fetch=None if clause.fetch is None else _share(clause, "FETCH", clause.fetch),
        visited=clause.scope == "VISITED",
        shared=clause.shared,
        above=_whole(clause, "DEGREE ABOVE", clause.above or 0, 0, _MOST_DEGREE),
    )
    most = max((count for fanout in fanouts for count in fanout.counts if count != FULL), default=0)
    if refresh.size(most) > _MOST_EDGES:
        raise _outside(
            clause,
            f"a row of {refresh.size(most)} edges, which is AMPLIFY times a fanout of {most}, is "
            f"above {_MOST_EDGES}, the most that one holds; say FULL for every neighbour",
        )
    return refresh


def with_every(spec: SampleSpec, every: int) -> SampleSpec:
    """The same sampler, whose REFRESH and text say EVERY n BATCHES, where they said EVERY AUTO or nothing."""
    assert spec.refresh is not None, "rows have a period"
    (statement,) = parse(spec.text)
    assert isinstance(statement, Sample), "a sampler's text is a SAMPLE statement"
    clause = statement.clauses.refresh
    assert clause is not None, "the text says what the spec does"
    said = print_refresh_clause(replace(clause, every=every))
    text = rewrite(spec.text, [(clause.span, said)]).text
    return replace(spec, refresh=replace(spec.refresh, every=every), text=text)


def _check_drawing(statement: Sample, clause: RefreshClause, drawing: Drawing) -> None:
    """Nothing when rows can serve what is drawn: edges that are alike and none of them twice, or METHOD PRIORITY."""
    clauses, what = statement.clauses, f"REFRESH {clause.strategy}"
    if drawing.method in _ROWLESS and clauses.method is not None:
        raise _clash(
            f"METHOD {drawing.method} {_ROWLESS[drawing.method]}; leave {what} out, or take METHOD UNIFORM or PRIORITY",
            clauses.method.span,
        )
    if clauses.replace is not None and drawing.replace:
        raise _clash(
            f"{what} draws from rows that hold an edge once; leave WITH REPLACEMENT out, or {what}",
            clauses.replace.span,
        )
    if clauses.weights is not None and drawing.method != "PRIORITY":
        raise _clash(
            f"{what} draws by weight under METHOD PRIORITY only, which tells how likely each edge was; "
            "add it, or leave WEIGHT BY out",
            clauses.weights.span,
        )


def _clash(message: str, span: Span) -> BindError:
    return BindError(message, span=span, code="clauses-clash")


def _amplify(clause: RefreshClause) -> Fraction:
    """How many times its fanout a row holds."""
    said = _AMPLIFY if clause.amplify is None else clause.amplify
    if said < 1:
        raise _outside(clause, f"AMPLIFY takes 1 or more, found {said}")
    return _exact(clause, "AMPLIFY", said)


def _share(clause: RefreshClause, name: str, percent: Decimal) -> Fraction:
    """A percentage as a share; that of FETCH may be 0."""
    least = "0 to" if name == "FETCH" else "more than 0 and at most"
    if not 0 <= percent <= 100 or (percent == 0 and name != "FETCH"):
        raise _outside(clause, f"{name} takes {least} 100 PERCENT, found {percent}")
    return _exact(clause, name, percent) / 100


def _exact(clause: RefreshClause, name: str, said: Decimal) -> Fraction:
    exponent = said.as_tuple().exponent
    if not isinstance(exponent, int) or not LEAST_PLACE <= exponent <= -LEAST_PLACE:
        raise _outside(clause, f"{name} takes a number of at most {-LEAST_PLACE} decimals, found {said}")
    return Fraction(said)


def _whole(clause: RefreshClause, name: str, said: int, least: int, most: int) -> int:
    if not least <= said <= most:
        raise _outside(clause, f"{name} takes {least} to {most}, found {said}")
    return said


def _outside(clause: RefreshClause, message: str) -> BindError:
    return BindError(message, span=clause.span, code="out-of-range")
