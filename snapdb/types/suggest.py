"""The name a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of an error message that names the nearest candidate, whatever its case; '' when none is near.

    >>> did_you_mean("Bougt", ["bought", "viewed"])
    '; did you mean "bought"?'
    >>> did_you_mean("zebra", ["bought", "viewed"])
    ''
    """
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    folded = name.lower()
    near = [folded] if folded in by_folded else get_close_matches(folded, by_folded, n=1)
    return f'; did you mean "{by_folded[near[0]]}"?' if near else ""
