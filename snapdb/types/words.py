"""Numbers with their nouns, as messages say them."""

from __future__ import annotations


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """The number and its noun.

    >>> counted(1, "row"), counted(12000, "row"), counted(2, "vertex", "vertices")
    ('1 row', '12,000 rows', '2 vertices')
    """
    return f"{number} {noun}" if number == 1 else f"{number:,} {nouns or noun + 's'}"
