"""Places the nodes of a drawn sample on rings around the seeds, as a radial tree. The result depends only on the nodes.

Each node is next to the node that first sampled it (its parent). A ring is as large as its nodes need.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin
from typing import NamedTuple

from snapdb.pictures.elements import DrawnEdge, DrawnNode

_GAP = 30.0
"""The minimum distance of nodes on a ring."""
_RING = 84.0
"""The minimum distance of two rings."""
_SEED_GAP = 56.0
"""The minimum distance of seeds."""


class Layout(NamedTuple):
    """The positions of nodes around the origin."""

    points: tuple[tuple[float, float], ...]
    """The position of each node."""
    radii: tuple[float, ...]
    """The radius of the ring of each hop."""


def rings(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> Layout:
    """Return the positions of the nodes: seeds at the centre, and one ring per hop."""
    children, roots = _tree(nodes, edges)
    radii = _radii(nodes)
    widths = _widths(nodes, children, radii)
    total = sum(widths[root] for root in roots)
    if total > 2 * pi:  # larger rings need less of the circle, in proportion
        radii = [radius * total / (2 * pi) for radius in radii]
    angles = [0.0] * len(nodes)
    _spread(roots, widths, children, angles, total)
    points = [
        (radii[node.hop] * cos(angle), radii[node.hop] * sin(angle)) for node, angle in zip(nodes, angles, strict=True)
    ]
    return Layout(tuple((round(x, 1), round(y, 1)) for x, y in points), tuple(round(radius, 1) for radius in radii))


def _tree(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> tuple[list[list[int]], list[int]]:
    """Return the children of each node, and the nodes without a parent."""
    parents: dict[int, int] = {}
    for edge in edges:
        if nodes[edge.source].hop == nodes[edge.target].hop + 1:
            parents.setdefault(edge.source, edge.target)
    children: list[list[int]] = [[] for _ in nodes]
    for child, parent in sorted(parents.items()):
        children[parent].append(child)
    return children, [node.id for node in nodes if node.id not in parents]


def _radii(nodes: Sequence[DrawnNode]) -> list[float]:
    counts = [0] * (max((node.hop for node in nodes), default=0) + 1)
    for node in nodes:
        counts[node.hop] += 1
    radii = [0.0 if counts[0] <= 1 else max(_SEED_GAP / 2, counts[0] * _SEED_GAP / (2 * pi))]
    for count in counts[1:]:
        radii.append(max(radii[-1] + _RING, count * _GAP / (2 * pi)))
    return radii


def _widths(nodes: Sequence[DrawnNode], children: Sequence[Sequence[int]], radii: Sequence[float]) -> list[float]:
    """Return the angle that each node needs with all its descendants, in radians."""
    widths = [0.0] * len(nodes)
    for node in sorted(nodes, key=lambda node: -node.hop):
        gap = _SEED_GAP if node.is_seed else _GAP
        own = gap / radii[node.hop] if radii[node.hop] else 0.01
        widths[node.id] = max(own, sum(widths[child] for child in children[node.id]))
    return widths


def _spread(
    roots: Sequence[int], widths: Sequence[float], children: Sequence[Sequence[int]], angles: list[float], total: float
) -> None:
    """Set the angle of every node. The whole circle is divided among the roots by their widths."""
    at = -pi / 2
    pending: list[tuple[int, float, float]] = []
    for root in roots:
        width = 2 * pi * widths[root] / total
        pending.append((root, at, width))
        at += width
    while pending:
        node, start, width = pending.pop()
        angles[node] = start + width / 2
        needed = sum(widths[child] for child in children[node]) or 1.0
        for child in children[node]:
            share = width * widths[child] / needed
            pending.append((child, start, share))
            start += share
