"""SQL to run with all that running it needs, and where in the statement each part of it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from snapdb.errors import Span
from snapdb.sql.embedded import rewrite
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import Names, together

Parameters = Sequence[Any] | Mapping[str, Any] | None


class _Piece(NamedTuple):
    """A part of composed SQL that stands in the statement as it is."""

    start: int
    """Index of its first character in the SQL."""
    stop: int
    place: int
    """Index of its first character in the statement's text."""


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query or condition of the user, or one composed of several."""

    text: str
    span: Span
    """The place in the statement for a complaint about no part of it that the user wrote."""
    names: Names = Names()  # noqa: RUF009  # frozen, and empty
    shapes: Names | None = None
    """The same names without rows, which suffice to describe it and read no file; None: only `names` tell."""
    parameters: Parameters = None
    pieces: tuple[_Piece, ...] = ()

    def place(self, span: Span | None) -> Span:
        """Where in the statement's text a part of `text` was written."""
        if span is None:
            return self.span
        found = next((p for p in self.pieces if p.start <= span.start < p.stop), None)
        if found is None:
            return self.span
        shift = found.place - found.start
        return Span(span.start + shift, min(span.stop, found.stop) + shift)


def written(
    island: SqlFragment,
    names: Names | None = None,
    parameters: Parameters = None,
    replacements: Sequence[tuple[Span, str]] = (),
    shapes: Names | None = None,
) -> BoundQuery:
    """An island as the user wrote it, but for replacements, whose spans count in it.

    >>> asked = written(SqlFragment("SELECT at", Span(10, 19)), replacements=[(Span(7, 9), '"at"')])
    >>> asked.text, asked.place(Span(0, 6)), asked.place(Span(7, 11))
    ('SELECT "at"', Span(start=10, stop=16), Span(start=17, stop=19))
    """
    text, at, pieces = island.text, island.span.start, []
    if replacements:
        changed = rewrite(text, replacements)
        done = 0
        for new, old in changed.edits:
            pieces.append(_Piece(done, new.start, at + old.start - (new.start - done)))
            pieces.append(_Piece(new.start, min(new.stop, new.start + old.stop - old.start), at + old.start))
            done = new.stop
        tail = changed.text[done:]
        pieces.append(_Piece(done, len(changed.text) + 1, at + len(text) - len(tail)))
        text = changed.text
    else:
        pieces.append(_Piece(0, len(text) + 1, at))
    return BoundQuery(text, island.span, names or Names(), shapes, parameters, tuple(pieces))


def compose(span: Span, *parts: str | BoundQuery) -> BoundQuery:
    """Our SQL and the user's, one after another; the parameters of the parts are those of one statement.

    >>> compose(Span(0, 9), "SELECT ", written(SqlFragment("a + 1", Span(4, 9)))).place(Span(11, 12))
    Span(start=8, stop=9)
    """
    text = ""
    pieces: list[_Piece] = []
    parameters: Parameters = None
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        pieces += [_Piece(p.start + len(text), p.stop + len(text), p.place) for p in part.pieces]
        text += part.text
        if isinstance(part.parameters, Mapping):
            parameters = {**(parameters if isinstance(parameters, Mapping) else {}), **part.parameters}
        elif part.parameters is not None:
            parameters = part.parameters
    asked = [part for part in parts if isinstance(part, BoundQuery)]
    names = together(part.names for part in asked)
    shapes = together(part.shapes or part.names for part in asked)
    return BoundQuery(text, span, names, shapes, parameters, tuple(pieces))
