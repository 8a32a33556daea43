"""Text for users: counted nouns, HTML tables, bar charts, suggestions of similar names, and sizes with units."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from html import escape
from typing import Any, NamedTuple, get_args


def by_word(kind: object) -> dict[Any, Any]:
    """Map each string of a Literal type to itself, so `words: dict[str, Overlap] = by_word(Overlap)` narrows a str.

    A type checker cannot relate the returned values to the Literal, so the caller's annotation specifies the type.

    >>> from typing import Literal
    >>> by_word(Literal["skip", "queue"])
    {'skip': 'skip', 'queue': 'queue'}
    """
    return {word: word for word in get_args(kind)}


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """Format a number with its noun in the singular or plural.

    >>> counted(1, "row"), counted(12000, "row"), counted(2, "vertex", "vertices")
    ('1 row', '12,000 rows', '2 vertices')
    """
    return f"{number} {noun}" if number == 1 else f"{number:,} {nouns or noun + 's'}"


_LEFT, _RIGHT = "text-align:left", "text-align:right"
_FAINT = "opacity:0.6"


class Head(NamedTuple):
    """The header of a table column."""

    name: str
    type: str = ""
    right: bool = False
    """Whether the column's values are right-aligned, like numbers."""


class Markup(str):
    """HTML that a table includes without escaping."""

    __slots__ = ()


_BAR, _HEIGHT = 7, 28
"""The width of a bar and the height of a chart, in pixels."""


def bar_chart(counts: Sequence[int], title: str, bars: Sequence[str] = ()) -> Markup:
    """Return a small SVG bar chart with one bar per count, in the colour of the surrounding text.

    Args:
        counts: The heights of the bars. The tallest bar fills the height of the chart.
        title: A description of the chart for tooltips and screen readers.
        bars: The descriptions of the bars.

    >>> bar_chart([1, 2], "edges")[:70]
    '<svg role="img" width="14" height="28" viewBox="0 0 14 28" style="vert'
    """
    most = max(counts, default=0) or 1
    width = _BAR * len(counts)
    drawn = []
    for place, count in enumerate(counts):
        # A nonzero count gets at least one pixel, so that it is visible next to much larger counts.
        high = max(round(count * (_HEIGHT - 1) / most), 1 if count else 0)
        text = f"<title>{escape(bars[place])}</title>" if bars else ""
        # The transparent rectangle shows the tooltip over a bar's whole column.
        ground = f'<rect x="{place * _BAR}" width="{_BAR}" height="{_HEIGHT}" fill-opacity="0"/>'
        bar = f'<rect x="{place * _BAR}" y="{_HEIGHT - high}" width="{_BAR - 1}" height="{high}"/>'
        drawn.append(f"<g>{text}{ground}{bar}</g>")
    return Markup(
        f'<svg role="img" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" '
        f'style="vertical-align:middle" fill="currentColor"><title>{escape(title)}</title>{"".join(drawn)}</svg>'
    )


def html_table(heads: Sequence[Head], rows: Iterable[Sequence[str | None]], footer: str = "") -> str:
    """Return an HTML table with a footer. None is shown as NULL.

    >>> html_table([Head("n")], [["<b>"]])[-40:]
    'lt;b&gt;</td></tr></tbody></table></div>'
    """
    head = "".join(_head(h) for h in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row, heads))}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if heads else ""
    note = f'<p style="{_FAINT}">{escape(footer)}</p>' if footer else ""
    return f"<div>{table}{note}</div>"


def block(text: str) -> str:
    """Return preformatted text in a fixed-width font. Long lines scroll."""
    return f'<pre style="font-family:monospace;white-space:pre;overflow-x:auto">{escape(text)}</pre>'


def _head(head: Head) -> str:
    type_ = f'<br><small style="{_FAINT};font-weight:normal">{escape(head.type)}</small>' if head.type else ""
    return f'<th style="{_RIGHT if head.right else _LEFT}">{escape(head.name)}{type_}</th>'


def _cell(text: str | None, head: Head) -> str:
    style = f"{_RIGHT if head.right else _LEFT};white-space:pre-wrap"
    if text is None:
        return f'<td style="{style};{_FAINT}"><i>NULL</i></td>'
    return f'<td style="{style}">{text if isinstance(text, Markup) else escape(text)}</td>'


_SHORT = 5
"""The length at and above which a name is considered long."""
_LONGEST = 200
"""The maximum length of a name that is compared, because comparisons of longer names take seconds."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a suggestion of the nearest candidate, ignoring case, to append to a message, or '' if none is similar.

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
    """Return the candidate with the most similar spelling, ignoring case, or None if none is similar.

    >>> nearest("Bougt", ["bought", "viewed"])
    'bought'
    """
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    folded = name.lower()
    if folded in by_folded:
        near = [folded]
    elif len(folded) > _LONGEST:
        near = []
    elif len(folded) < _SHORT:  # short names can be similar by chance
        alike = [known for known in by_folded if abs(len(known) - len(folded)) <= 1]
        swapped = [known for known in alike if sorted(known) == sorted(folded)]
        # A transposition, such as nmae for name, takes precedence over a name that shares most of its letters.
        near = get_close_matches(folded, by_folded, 1, 0.8) or swapped or get_close_matches(folded, alike, 1, 0.75)
    else:
        near = get_close_matches(folded, by_folded, n=1)
    return by_folded[near[0]] if near else None


def size_words(size: int) -> str:
    """Format a number of bytes with a unit.

    >>> size_words(1), size_words(999), size_words(123_456_789), size_words(2 * 10**12)
    ('1 byte', '999 bytes', '123.5 MB', '2.0 TB')
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return counted(size, "byte")
