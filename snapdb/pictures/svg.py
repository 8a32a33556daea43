"""Draws a sample as SVG: nodes on rings, arrows as messages flow, late edges in red, a legend and a caption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import atan2, ceil, cos, hypot, pi, sin
from textwrap import wrap
from typing import TYPE_CHECKING

from snapdb.catalog.system_tables import time_text
from snapdb.pictures.elements import LATE, DrawnEdge, DrawnNode, SeedEdge, line_of, look_of
from snapdb.pictures.layout import rings
from snapdb.pictures.markup import FAINT, INK, label, picture, plain, tag, title

if TYPE_CHECKING:
    from snapdb.pictures.drawing import SampleDrawing

_MARGIN = 48.0
_LINE = 18.0
"""The height of a line of the legend and the caption."""
_NARROWEST = 460.0
_WIDEST = 900.0
"""The maximum width in pixels."""
_SEED, _NODE = 13.0, 8.0
"""The radii of seeds and of other nodes."""
_LABELLED = 60
"""The maximum number of nodes of a drawing in which all nodes have labels. In larger ones, only the seeds have."""
_KEY = 14
"""The maximum number of characters of a label."""
_BEND = 16.0
"""The distance between parallel edges."""

_Point = tuple[float, float]


def sample_svg(drawing: SampleDrawing) -> str:
    """Return a drawn sample as an SVG picture.

    Nodes and edges are elements with the classes `node` and `edge` and the attributes `data-node` and `data-edge`,
    which contain their ids.
    """
    layout = rings(drawing.nodes, drawing.edges)
    reach = max(layout.radii, default=0.0) + _MARGIN
    width = max(2 * reach, _NARROWEST)
    points = [(x + width / 2, y + reach) for x, y in layout.points]
    circles = [
        tag("circle", cx=width / 2, cy=reach, r=radius, fill="none", stroke="#d8dee4", stroke_dasharray="2 4")
        for radius in layout.radii
        if radius
    ]
    parts = [
        tag("g", "".join(circles), class_="rings"),
        tag("g", "".join(_seed_edge(points, pair) for pair in drawing.seed_edges), class_="seed-edges"),
        tag("g", "".join(_keys(drawing, points)), class_="keys"),
        tag("g", "".join(_edges(drawing, points)), class_="edges"),
        tag("g", "".join(_node(drawing, node, points[node.id]) for node in drawing.nodes), class_="nodes"),
    ]
    y = 2 * reach + 4
    legend, y = _legend(drawing, width, y)
    lines = wrap(plain(drawing.caption), max(40, int(width / 6.4)))
    caption = [label(12, y + _LINE * i, line, fill=FAINT, class_="caption") for i, line in enumerate(lines)]
    height = y + _LINE * len(lines)
    content = "".join((*parts, legend, *caption))
    return picture(width, height, drawing.caption, content, class_="snapdb-sample", widest=_WIDEST)


def legend_svg(drawing: SampleDrawing, width: float = 640) -> str:
    """Return the looks of the types of a drawn sample as a picture of its own, for pages that draw the sample."""
    legend, height = _legend(drawing, width, _LINE)
    return picture(width, height, "Legend", legend, class_="snapdb-legend")


def _keys(drawing: SampleDrawing, points: Sequence[_Point]) -> Iterator[str]:
    """Yield the keys of all nodes, or of the seeds in large drawings. Heads of arrows are drawn over them."""
    rises: list[list[float]] = [[] for _ in drawing.nodes]
    for edge in drawing.edges:
        (x0, y0), (x1, y1) = points[edge.source], points[edge.target]
        length = hypot(x1 - x0, y1 - y0) or 1.0
        rises[edge.source].append((y1 - y0) / length)
        rises[edge.target].append((y0 - y1) / length)
    for node in drawing.nodes:
        if node.is_seed or len(drawing.nodes) <= _LABELLED:
            key, (x, y) = plain(node.key), points[node.id]
            short = key if len(key) <= _KEY else f"{key[: _KEY - 1]}…"
            y += -_size(node) - 5 if _is_free_above(rises[node.id]) else _size(node) + 12
            yield label(x, y, short, text_anchor="middle", font_size="11", class_="key")


def _is_free_above(rises: Sequence[float]) -> bool:
    """Return whether the edges of a node leave more room above it than below it.

    >>> _is_free_above([0.9, -0.1]), _is_free_above([0.2, -0.9]), _is_free_above([])
    (True, False, False)
    """
    return max(rises, default=0.0) > -min(rises, default=0.0)


def _size(node: DrawnNode) -> float:
    return _SEED if node.is_seed else _NODE


def _node(drawing: SampleDrawing, node: DrawnNode, at: _Point) -> str:
    """Return a node with its tooltip."""
    shape, color = look_of(drawing.node_types, node.type)
    ring = "2.5" if node.is_seed else "1"
    mark = _shape(shape, at, _size(node), fill=color, stroke=INK, stroke_width=ring)
    class_ = "node seed" if node.is_seed else "node"
    return tag("g", title(node_words(drawing, node)) + mark, class_=class_, data_node=str(node.id))


def node_words(drawing: SampleDrawing, node: DrawnNode) -> list[str]:
    """Return the description of a node, line by line."""
    where = "seed" if node.is_seed else f"hop {node.hop}"
    lines = [f"{node.type} {node.key} ({where})"]
    if node.seed_time is not None:
        lines.append(f"seed time: {time_text(node.seed_time, drawing.unit)}")
    return [*lines, *(f"{name}: {value}" for name, value in node.features)]


def edge_words(drawing: SampleDrawing, edge: DrawnEdge) -> list[str]:
    """Return the description of an edge, line by line."""
    source, target = drawing.nodes[edge.source], drawing.nodes[edge.target]
    reverse = ", in reverse" if edge.direction == "out" else ""
    lines = [f"{edge.type}: {source.type} {source.key} → {target.type} {target.key}{reverse}"]
    lines.append(f"e_id: {edge.e_id}, hop {edge.hop}")
    if edge.time is not None:
        late = ", later than the seed's time" if edge.late else ""
        lines.append(f"time: {time_text(edge.time, drawing.unit)}{late}")
    if edge.weight is not None:
        lines.append(f"weight: {edge.weight:.6g}")
    return [*lines, *(f"{name}: {value}" for name, value in edge.features)]


def _edges(drawing: SampleDrawing, points: Sequence[_Point]) -> Iterator[str]:
    """Yield the edges. Parallel edges are bent apart. Late edges come last, so that they are on top."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for edge in drawing.edges:
        pairs.setdefault(_ends(edge), []).append(edge.id)
    places = {edge: (i, len(edges)) for edges in pairs.values() for i, edge in enumerate(edges)}
    for edge in sorted(drawing.edges, key=lambda edge: edge.late):
        place, count = places[edge.id]
        bend = _BEND * (place - (count - 1) / 2) * (1 if edge.source <= edge.target else -1)
        color, dashes = line_of(drawing.edge_types, edge.type)
        color, dashes = (LATE, "") if edge.late else (color, dashes)
        size = _size(drawing.nodes[edge.target])
        if edge.source == edge.target:
            shape = _loop(points[edge.target], size + 4 * place, color, dashes)
        else:
            shape = _arrow(points[edge.source], points[edge.target], bend, size + 2, color, dashes)
        class_ = "edge late" if edge.late else "edge"
        yield tag("g", title(edge_words(drawing, edge)) + shape, class_=class_, data_edge=str(edge.id))


def _ends(edge: DrawnEdge) -> tuple[int, int]:
    return min(edge.source, edge.target), max(edge.source, edge.target)


def _arrow(start: _Point, stop: _Point, bend: float, size: float, color: str, dashes: str) -> str:
    """Return a line with a head at the edge of the target, as a quadratic curve if it is bent."""
    (x0, y0), (x1, y1) = start, stop
    length = hypot(x1 - x0, y1 - y0) or 1.0
    middle = ((x0 + x1) / 2 - bend * 2 * (y1 - y0) / length, (y0 + y1) / 2 + bend * 2 * (x1 - x0) / length)
    angle = atan2(y1 - middle[1], x1 - middle[0])
    tip = (x1 - size * cos(angle), y1 - size * sin(angle))
    neck = (tip[0] - 6 * cos(angle), tip[1] - 6 * sin(angle))
    path = f"M{x0:.1f} {y0:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {neck[0]:.1f} {neck[1]:.1f}"
    return _line(path, color, dashes) + _head(tip, angle, color)


def _loop(at: _Point, size: float, color: str, dashes: str) -> str:
    """Return an edge from a node to itself."""
    x, y = at
    path = f"M{x - size:.1f} {y - 2:.1f}C{x - 3 * size:.1f} {y - 3 * size:.1f} {x + 3 * size:.1f} {y - 3 * size:.1f} "
    tip = (x + size * 0.8, y - size * 0.6)
    return _line(f"{path}{tip[0]:.1f} {tip[1]:.1f}", color, dashes) + _head(tip, pi * 0.65, color)


def _line(path: str, color: str, dashes: str) -> str:
    # The wide transparent line makes a thin edge easy to hit with a pointer.
    target = tag("path", d=path, fill="none", stroke=color, stroke_width="9", stroke_opacity="0", class_="hit")
    return target + tag(
        "path", d=path, fill="none", stroke=color, stroke_width="1.4", stroke_dasharray=dashes or None, class_="line"
    )


def _head(tip: _Point, angle: float, color: str) -> str:
    corners = [tip]
    corners += [(tip[0] - 9 * cos(angle + turn), tip[1] - 9 * sin(angle + turn)) for turn in (-0.4, 0.4)]
    return tag("polygon", points=_corners(corners), fill=color, class_="head")


def _seed_edge(points: Sequence[_Point], pair: SeedEdge) -> str:
    """Return a seed edge or a negative as a wide pale line."""
    (x0, y0), (x1, y1) = points[pair.source], points[pair.target]
    words = "negative" if pair.negative else "seed edge"
    dashes = "3 5" if pair.negative else None
    ends = {"x1": x0, "y1": y0, "x2": x1, "y2": y1}
    line = tag("line", **ends, stroke=FAINT, stroke_opacity="0.35", stroke_width="6", stroke_dasharray=dashes)
    return tag("g", title([words]) + line, class_="negative" if pair.negative else "seed-edge")


_CORNERS: Mapping[str, tuple[int, float]] = {
    "square": (4, pi / 4),
    "diamond": (4, 0.0),
    "triangle": (3, -pi / 2),
    "hexagon": (6, 0.0),
    "pentagon": (5, -pi / 2),
    "wedge": (3, pi / 2),
}
"""The number of corners of each regular polygon, and the angle of the first corner."""


def _shape(shape: str, at: _Point, size: float, **attributes: str) -> str:
    """Return the shape of a vertex type around a point."""
    x, y = at
    if shape == "circle":
        return tag("circle", cx=x, cy=y, r=size, **attributes)
    if shape == "star":
        corners = [
            (x + r * cos(-pi / 2 + i * pi / 5), y + r * sin(-pi / 2 + i * pi / 5))
            for i in range(10)
            for r in (size * (1.3 if i % 2 == 0 else 0.6),)
        ]
    else:
        count, first = _CORNERS[shape]
        turns = [first + 2 * pi * i / count for i in range(count)]
        corners = [(x + 1.2 * size * cos(turn), y + 1.2 * size * sin(turn)) for turn in turns]
    return tag("polygon", points=_corners(corners), **attributes)


def _corners(corners: Sequence[_Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _legend(drawing: SampleDrawing, width: float, y: float) -> tuple[str, float]:
    """Return the legend of types, and the position below it."""
    entries = [("node", name) for name in drawing.node_types]
    entries += [("edge", name) for name in drawing.edge_types]
    if drawing.late:
        entries.append(("late", "later than the seed's time"))
    wide = max((len(plain(name)) for _, name in entries), default=0)
    column = min(width - 24, 44 + 7.0 * min(wide, 40))
    across = max(1, int((width - 24) // column))
    parts = []
    for i, (kind, name) in enumerate(entries):
        x, at = 12 + column * (i % across), y + _LINE * (i // across)
        parts.append(_entry(drawing, kind, name, x, at))
    return tag("g", "".join(parts), class_="legend"), y + _LINE * ceil(len(entries) / across) + 8


def _entry(drawing: SampleDrawing, kind: str, name: str, x: float, y: float) -> str:
    """Return one entry of the legend."""
    if kind == "node":
        shape, color = look_of(drawing.node_types, name)
        mark = _shape(shape, (x + 12, y), 6, fill=color, stroke=INK)
    else:
        color, dashes = (LATE, "") if kind == "late" else line_of(drawing.edge_types, name)
        mark = _arrow((x, y), (x + 28, y), 0.0, 2, color, dashes)
    short = plain(name)
    return mark + label(x + 34, y + 4, short if len(short) <= 40 else f"{short[:39]}…")
