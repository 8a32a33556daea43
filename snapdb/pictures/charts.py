"""Charts as SVG from numbers: the growth of rows over versions or times, and degree histograms in powers of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

from snapdb.pictures.elements import LINES
from snapdb.pictures.markup import FAINT, INK, label, picture, tag, title
from snapdb.types.text import counted

_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 30.0, 38.0
"""The space around the plot, for labels."""
_LINE = 18.0
"""The height of a line of the legend."""
_TICKS = 4
"""The approximate number of ticks of an axis."""
_LETTER = 6.0
"""The approximate width of a character below the plot."""
_MOST_LABELS = 8
"""The maximum number of labels below the plot."""


def growth_chart(
    places: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    heading: str = "Rows by version",
    axis: str = "version",
    noun: str = "row",
    width: float = 560,
    height: float = 240,
) -> str:
    """Return a line chart with one line per name, such as the rows of tables by version.

    Args:
        places: The labels of the horizontal axis, such as version numbers, from left to right.
        series: Name → one value per place. None means no value, as before a table was created.
        heading: The heading and accessible name of the chart.
        axis: The name of the horizontal axis.
        noun: The noun of a value, for tooltips.
        width: The width in pixels.
        height: The height in pixels, without the legend.

    Examples:
        >>> chart = growth_chart(["1", "2"], {"customer": [20, 25], "bought": [None, 200]})
        >>> chart.count("<polyline"), chart.count('class="point"')
        (2, 3)
    """
    most = max((value for values in series.values() for value in values if value is not None), default=0)
    ticks = _ticks(most)
    plot = _Plot(width, height, len(places), ticks[-1])
    parts = [plot.axes(ticks, places, axis)]
    for i, (name, values) in enumerate(series.items()):
        color, dashes = LINES[i % len(LINES)]
        parts.append(_series(plot, places, name, values, (axis, noun), color, dashes))
    legend = _legend(list(series), width, height + 6)
    rows = ceil(len(series) / _columns(list(series), width))
    content = label(12, 19, heading, font_weight="600") + "".join(parts) + legend
    return picture(width, height + 10 + _LINE * rows, heading, content, class_="snapdb-chart growth")


def degree_chart(counts: Sequence[int], *, heading: str = "Degrees", width: float = 360, height: float = 220) -> str:
    """Return a log-log histogram of degrees with one bar per power of two: 0, 1, 2, 3-4, 5-8, …

    Args:
        counts: The number of vertices in each bin: degree 0, degree 1, degree 2, degrees 3 to 4, 5 to 8 and so on.
        heading: The heading and accessible name of the chart.
        width: The width in pixels.
        height: The height in pixels.

    Examples:
        >>> degree_chart([5, 100, 20, 3]).count('class="bar"')
        4
    """
    decades = max(1, ceil(log10(max(max(counts, default=0), 1) + 1)))
    plot = _Plot(width, height, len(counts), float(decades))
    ticks = [(float(decade), _short(10.0**decade)) for decade in range(decades + 1)]
    labels = [bin_label(i) for i in range(len(counts))]
    parts = [plot.grid(ticks), plot.below(labels, "degree")]
    for i, count in enumerate(counts):
        x, step = plot.left(i), plot.step
        # A bar for one vertex would have no height on a logarithmic scale, so a decade's twentieth is added.
        high = plot.y(0) - plot.y(min(log10(count) + 0.05, decades)) if count else 0.0
        place = {"x": x + 0.12 * step, "y": plot.y(0) - high, "width": 0.76 * step, "height": high}
        bar = tag("rect", **place, fill=LINES[1][0], class_="bar")
        tip = title([f"{counted(count, 'vertex', 'vertices')} of degree {labels[i]}"])
        ground = tag("rect", x=x, y=_TOP, width=step, height=height - _TOP - _BOTTOM, fill=INK, fill_opacity="0")
        parts.append(tag("g", tip + ground + bar, class_="bin"))
    content = label(12, 19, heading, font_weight="600") + "".join(parts)
    return picture(width, height, heading, content, class_="snapdb-chart degrees")


def bin_label(place: int) -> str:
    """Return the degrees of a bin.

    >>> [bin_label(place) for place in range(6)]
    ['0', '1', '2', '3-4', '5-8', '9-16']
    """
    if place <= 2:
        return str(place)
    return f"{2 ** (place - 2) + 1}-{2 ** (place - 1)}"


class _Plot:
    """The area of a chart: positions of values in pixels, and the axes."""

    def __init__(self, width: float, height: float, places: int, most: float) -> None:
        self._width, self._height, self._places, self._most = width, height, max(places, 1), most or 1.0
        self.step = (width - _LEFT - _RIGHT) / self._places
        """The width of a place."""

    def left(self, place: int) -> float:
        """Return the left end of a place."""
        return _LEFT + self.step * place

    def x(self, place: int) -> float:
        """Return the middle of a place."""
        return self.left(place) + self.step / 2

    def y(self, value: float) -> float:
        """Return the height of a value."""
        return self._height - _BOTTOM - (self._height - _TOP - _BOTTOM) * value / self._most

    def axes(self, ticks: Sequence[float], places: Sequence[str], axis: str) -> str:
        """Return the grid with the ticks of the vertical axis, and the labels of the horizontal axis."""
        return self.grid([(tick, _short(tick)) for tick in ticks]) + self.below(places, axis)

    def grid(self, ticks: Sequence[tuple[float, str]]) -> str:
        """Return horizontal lines with their labels."""
        parts = []
        for tick, words in ticks:
            y = self.y(tick)
            parts.append(tag("line", x1=_LEFT, y1=y, x2=self._width - _RIGHT, y2=y, stroke="#d8dee4"))
            parts.append(label(_LEFT - 6, y + 4, words, fill=FAINT, text_anchor="end", font_size="11"))
        return tag("g", "".join(parts), class_="grid")

    def below(self, places: Sequence[str], axis: str) -> str:
        """Return the labels of places, as many as there is room for, and the name of the axis."""
        room = (self._width - _LEFT - _RIGHT) / (_LETTER * max(map(len, places), default=1) + 8)
        every = ceil(len(places) / max(1, min(_MOST_LABELS, int(room)))) or 1
        y = self._height - _BOTTOM + 14
        shown = [i for i in range(len(places)) if i % every == 0]
        parts = [label(self.x(i), y, places[i], fill=FAINT, text_anchor="middle", font_size="11") for i in shown]
        middle = (_LEFT + self._width - _RIGHT) / 2
        parts.append(label(middle, self._height - 6, axis, fill=FAINT, text_anchor="middle", font_size="11"))
        return tag("g", "".join(parts), class_="axis")


def _series(
    plot: _Plot,
    places: Sequence[str],
    name: str,
    values: Sequence[float | None],
    words: tuple[str, str],
    color: str,
    dashes: str,
) -> str:
    """Return one line with a point and a tooltip for each value. The line has a gap where there is no value."""
    axis, noun = words
    parts, run = [], list[str]()
    points = []
    for i, value in enumerate(values):
        if value is not None:
            x, y = plot.x(i), plot.y(value)
            run.append(f"{x:.1f},{y:.1f}")
            tip = title([f"{name}: {_exact(value, noun)}", f"{axis} {places[i]}"])
            points.append(tag("g", tip + tag("circle", cx=x, cy=y, r=3, fill=color), class_="point"))
        if run and (value is None or i == len(values) - 1):
            look = {"fill": "none", "stroke": color, "stroke_width": "1.8", "stroke_dasharray": dashes or None}
            parts.append(tag("polyline", points=" ".join(run), **look))
            run = []
    return tag("g", "".join((*parts, *points)), class_="series")


def _exact(value: float, noun: str) -> str:
    return counted(int(value), noun) if float(value).is_integer() else f"{value:,.4g} {noun}s"


def _columns(names: Sequence[str], width: float) -> int:
    wide = max((min(len(name), 30) for name in names), default=1)
    return max(1, int((width - 24) // (48 + 7 * wide)))


def _legend(names: Sequence[str], width: float, y: float) -> str:
    """Return one entry per line of the chart."""
    columns = _columns(names, width)
    parts = []
    for i, name in enumerate(names):
        color, dashes = LINES[i % len(LINES)]
        x, at = 16 + (width - 24) / columns * (i % columns), y + _LINE * (i // columns)
        line = tag(
            "line", x1=x, y1=at, x2=x + 24, y2=at, stroke=color, stroke_width="2", stroke_dasharray=dashes or None
        )
        short = name if len(name) <= 30 else f"{name[:29]}…"
        parts.append(line + label(x + 30, at + 4, short))
    return tag("g", "".join(parts), class_="legend")


def _ticks(most: float) -> list[float]:
    """Return round values from 0 to at least the largest value.

    >>> _ticks(230)
    [0.0, 100.0, 200.0, 300.0]
    """
    if most <= 0:
        return [0.0, 1.0]
    rough = most / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = max(1.0, next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough))
    return [step * i for i in range(ceil(most / step) + 1)]


def _short(value: float) -> str:
    """Return a number in few characters.

    >>> _short(200.0), _short(12_500.0), _short(3_000_000.0)
    ('200', '12.5k', '3M')
    """
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"
