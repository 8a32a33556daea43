"""Which of many words were meant by the letters typed so far: beginnings, then middles, then slips of the finger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

_MOST_SLIPS = 5
_NEAR = 0.75
"""How alike a misspelt word and what was meant have to be, 1 being the same."""


def matching(typed: str, candidates: Sequence[str]) -> list[str]:
    """The candidates that `typed` may stand for, the likeliest first and otherwise in their order; all for nothing.

    Case never counts. Letters that stand apart in a word are looked for only where nothing holds them together, and a
    misspelling only where the letters are nowhere.

    >>> matching("per", ["superb", "my_person", "person"])
    ['person', 'my_person', 'superb']
    >>> matching("cid", ["customer_identity", "amount"]), matching("perosn", ["amount", "person"])
    (['customer_identity'], ['person'])
    """
    if not typed:
        return list(dict.fromkeys(candidates))
    sought = typed.lower()
    ranked: tuple[list[str], list[str], list[str]] = ([], [], [])
    for candidate in dict.fromkeys(candidates):
        folded = candidate.lower()
        place = folded.find(sought)
        if place < 0:
            continue
        begins_word = place > 0 and not folded[place - 1].isalnum()
        ranked[0 if place == 0 or (place == 1 and folded[0] == '"') else 1 if begins_word else 2].append(candidate)
    found = [*ranked[0], *ranked[1], *(ranked[2] if len(sought) > 2 else ())]
    return found or _spread(sought, candidates) or _slips(sought, candidates)


def _spread(sought: str, candidates: Sequence[str]) -> list[str]:
    """The candidates in which the letters stand in order, the first of them at the beginning of a word."""
    if len(sought) < 2:
        return []
    letters = "[^\n]*?".join(map(re.escape, sought))
    # All candidates as the lines of one text: one search of ten thousand is faster than ten thousand searches
    line = re.compile(rf"^(?:[^\n]*?[^a-z0-9\n])??{letters}[^\n]*$", re.MULTILINE)
    found = set(line.findall("\n".join(candidates).lower()))
    if not found:
        return []
    close = re.compile(rf"(?:^|[\W_]){letters}")
    near = []
    for candidate in dict.fromkeys(candidates):
        if candidate.lower() in found and (match := close.search(candidate.lower())):
            near.append((match.end() - match.start(), candidate))
    return [candidate for _, candidate in sorted(near, key=lambda pair: pair[0])]


def _slips(sought: str, candidates: Iterable[str]) -> list[str]:
    """The candidates whose beginning is nearly what was typed."""
    if len(sought) < 3:
        return []
    matcher = SequenceMatcher(b=sought, autojunk=False)
    near = []
    length = len(sought)
    needed = frozenset(sought[:3])
    for candidate in dict.fromkeys(candidates):
        folded = candidate.lower()
        if len(needed.intersection(folded[:4])) < 2:
            continue  # most of ten thousand names are passed by here
        # A word may be misspelt as a whole, or as far as it is typed
        best = 0.0
        for beginning in {folded[:length], folded[: length + 1]}:
            matcher.set_seq1(beginning)
            if matcher.real_quick_ratio() >= _NEAR and matcher.quick_ratio() >= _NEAR:
                best = max(best, matcher.ratio())
        if best >= _NEAR:
            near.append((-best, candidate))
            if len(near) == _MOST_SLIPS * 20:
                break
    return [candidate for _, candidate in sorted(near, key=lambda pair: pair[0])[:_MOST_SLIPS]]
