"""The two axes of a snapshot: the version of the tables, and event time."""

from __future__ import annotations

from drawing import Drawing

_LEFT, _BOTTOM, _MONTH, _VERSION = 56, 250, 50, 44
_EDGES = [
    (1, 0.4),
    (1, 1.3),
    (1, 2.2),
    (2, 2.7),
    (2, 3.4),
    (2, 4.3),
    (3, 4.8),
    (3, 5.3),
    (3, 6.1),
    (4, 1.8),
    (4, 6.5),
]
"""(version that added the edge, its event time in months)."""


def _x(month: float) -> float:
    return _LEFT + month * _MONTH


def _y(version: float) -> float:
    return _BOTTOM - version * _VERSION


def draw() -> str:
    """Edges as dots by version and event time; two snapshots as rectangles that hold some of them."""
    d = Drawing(
        364,
        "The two axes of a snapshot",
        "Each edge is a dot at its event time and at the version that added it. Snapshot june holds the edges of "
        "versions 1 to 3 until 30 April. A late edge, added by version 4 with an event time in February, is not in "
        "it. Snapshot recent holds the edges of versions 1 to 4 of the last two months.",
    )
    d.text(16, 26, "version that added the edge", "small")
    d.box(_LEFT, _y(3.45), 4 * _MONTH, 3.45 * _VERSION, "blue")
    d.box(_x(4.5), _y(4.45), 2.05 * _MONTH, 4.45 * _VERSION, "amber")
    for version in range(1, 5):
        d.text(_LEFT - 12, _y(version) + 5, f"v{version}", "code", "end")
        d.line((_LEFT, _y(version)), (_x(7), _y(version)), dashed=True)
    d.arrow((_LEFT, _BOTTOM), (_LEFT, 40))
    d.arrow((_LEFT, _BOTTOM), (_x(7) + 8, _BOTTOM))
    for month, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul"]):
        d.text(_x(month + 0.5), _BOTTOM + 20, name, "small", "middle")
    d.text(404, _BOTTOM + 40, "event time", "small", "end")
    for version, month in _EDGES:
        d.dot(_x(month), _y(version))
    d.text(_x(1.8) + 10, _y(4) - 8, "a late edge", "small")

    d.box(20, 304, 18, 18, "blue")
    d.text(46, 318, "AT (VERSION => 3) … AS OF DATE '2026-04-30'", "code")
    d.box(20, 332, 18, 18, "amber")
    d.text(46, 346, "WINDOW INTERVAL '2 months', at v4", "code")
    return d.svg()
