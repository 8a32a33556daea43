"""A version, a moment or a tag: what AT and DIFF take."""

from __future__ import annotations

from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import Island, VersionBound
from snapdb.sql.tokens import scan
from snapdb.types import by_word

_Kind = Literal["VERSION", "TIMESTAMP", "TAG"]
BOUNDS: dict[str, _Kind] = by_word(_Kind)


def version_bound(kind: str, value: Island, span: Span) -> VersionBound:
    """The bound that a keyword, whatever its case, and a value stand for; a TAG's value is one string or parameter.

    >>> version_bound("tag", Island("'june'", Span(4, 10)), Span(0, 10)).kind
    'TAG'
    """
    bound = BOUNDS[kind.upper()]
    if bound == "TAG" and [token.kind for token in scan(value.text)] not in (["string"], ["parameter"]):
        raise ParseError(
            f"TAG takes a name in single quotes, found {value.text[:40]}", span=value.span, code="bad-bound"
        )
    return VersionBound(bound, value, span)
