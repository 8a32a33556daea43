"""The name a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHORT = 5
"""Letters from which a name is long."""
_LONGEST = 200
"""Letters of the longest name that there may be; comparing longer ones takes seconds."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of an error message that names the nearest candidate, whatever its case; '' when none is near.

    >>> did_you_mean("Bougt", ["bought", "viewed"])
    '; did you mean "bought"?'
    >>> did_you_mean("zebra", ["bought", "viewed"])
    ''
    >>> did_you_mean("foo", ["floor"]), did_you_mean("nmae", ["name"])
    ('', '; did you mean "name"?')
    """
    near = nearest(name, candidates)
    return "" if near is None else f'; did you mean "{near}"?'


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is spelt nearest to a name, whatever its case; None when none is near.

    >>> nearest("Bougt", ["bought", "viewed"])
    'bought'
    """
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    folded = name.lower()
    if folded in by_folded:
        near = [folded]
    elif len(folded) > _LONGEST:
        near = []
    elif len(folded) < _SHORT:  # half of a short name is soon like another
        alike = [known for known in by_folded if abs(len(known) - len(folded)) <= 1]
        swapped = [known for known in alike if sorted(known) == sorted(folded)]
        near = get_close_matches(folded, by_folded, 1, 0.8) or swapped or get_close_matches(folded, alike, 1, 0.75)
    else:
        near = get_close_matches(folded, by_folded, n=1)
    return by_folded[near[0]] if near else None
