"""WHEN of a task, read when the task is made: its mistakes show then, and its names are looked up by each run."""

from __future__ import annotations

from collections.abc import Iterator

from snapdb.errors import SnapdbError, Span
from snapdb.relational import Relational
from snapdb.sql.ast import Island
from snapdb.sql.body_paths import named_paths
from snapdb.sql.conditions import changed_graphs
from snapdb.sql.rewrite import Rewritten, rewrite
from snapdb.sql.task_body import PLACEHOLDERS, filled
from snapdb.sql.travel import bare_ats, time_travels


def check_condition(condition: Island, relational: Relational) -> None:
    """Nothing when a condition can be read; no name in it is looked up.

    Raises:
        ParseError: at the place of the first mistake.
    """
    sample = filled(condition.text, PLACEHOLDERS)
    edits: tuple[Rewritten, ...] = (sample,)
    try:
        named_paths(sample.text)
        plain = rewrite(sample.text, [*_ours(sample.text)])
        edits = (plain, sample)
        with relational.session() as session:
            session.check_syntax("SELECT (", plain.text, ")")
    except SnapdbError as error:
        if error.span is not None:
            error.span = _placed(error.span, edits, condition.span.start)
        raise


def _ours(text: str) -> Iterator[tuple[Span, str]]:
    """What DuckDB's parser would stumble over, and what it reads instead."""
    travels = time_travels(text)
    yield from ((travel.span, travel.name.text) for travel in travels)
    others = [(changed.span, "0") for changed in changed_graphs(text)] + [(span, '"at"') for span in bare_ats(text)]
    for span, words in others:
        if not any(travel.span.start <= span.start < travel.span.stop for travel in travels):
            yield span, words


def _placed(span: Span, edits: tuple[Rewritten, ...], start: int) -> Span:
    """A place of a text that was edited, the last edit first, as one of the statement."""
    first, stop = span
    for edit in edits:
        first, stop = edit.place(first), edit.place(stop)
    return Span(start + first, start + max(first, stop))
