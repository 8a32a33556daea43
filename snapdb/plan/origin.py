"""Where the parts of a composed statement were written, so that what is wrong in it is shown there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from snapdb.errors import SnapdbError, Span


@dataclass(frozen=True, slots=True)
class Origin:
    """A sampler's statement, and clauses of another one in it."""

    sampler: str
    """The sampler's name."""
    text: str
    """The sampler's own statement."""
    edits: tuple[tuple[Span, Span, Span], ...]
    """Of each clause that was put in: its place in the composed text, what it took in the sampler's text, and where it
    stands in the user's; in order. Clauses that took the place of none took the empty end."""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Errors of the block whose places count in the composed text are shown where that was written."""
        try:
            yield
        except SnapdbError as error:
            if error.text is None and error.span is not None:
                self._show(error, error.span)
            raise

    def _show(self, error: SnapdbError, span: Span) -> None:
        shift = 0
        for composed, replaced, written in self.edits:
            if composed.start <= span.start < composed.stop:
                by = written.start - composed.start
                error.span = Span(span.start + by, min(span.stop, composed.stop) + by)
                return
            if composed.start <= span.start:
                shift = replaced.stop - composed.stop
        error.message = f"in sampler {self.sampler}: {error.message}"
        error.located(self.text)
        error.span = Span(*(min(max(place + shift, 0), len(self.text)) for place in span))
