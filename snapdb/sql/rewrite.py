"""A text with some places replaced, and where each of its characters stood before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from snapdb.errors import Span


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after replacements."""

    text: str
    edits: tuple[tuple[Span, Span], ...]
    """Each replacement's place in this text and the place that it took in the original; in order."""

    def place(self, index: int) -> int:
        """Where in the original text a place of this text was; within a replacement, where the replaced part starts.

        >>> rewrite("SELECT at", [(Span(7, 9), '"at"')]).place(11)
        9
        """
        before = bisect_right(self.edits, index, key=lambda edit: edit[0].start) - 1
        if before < 0:
            return index
        new, old = self.edits[before]
        return old.start if index < new.stop else old.stop + index - new.stop


def rewrite(text: str, replacements: Sequence[tuple[Span, str]]) -> Rewritten:
    """The text with other words in some places, which come in any order and do not overlap.

    >>> rewrite("FROM t AT (VERSION => 3) WHERE at", [(Span(31, 33), '"at"'), (Span(5, 24), "t3")]).text
    'FROM t3 WHERE "at"'
    """
    pieces: list[str] = []
    edits: list[tuple[Span, Span]] = []
    length = position = 0
    for span, words in sorted(replacements):
        if span.start < position:
            raise ValueError(f"replacements overlap at {span.start}")
        kept = text[position : span.start]
        start = length + len(kept)
        length = start + len(words)
        pieces += (kept, words)
        edits.append((Span(start, length), span))
        position = span.stop
    return Rewritten("".join((*pieces, text[position:])), tuple(edits))
