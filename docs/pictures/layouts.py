"""How the edges of a node are stored: base and delta of a topology, and the four encodings of a snapshot."""

from __future__ import annotations

from drawing import Drawing


def draw() -> str:
    """A row of edges as squares, first with a delta, then in each encoding."""
    d = Drawing(
        560,
        "Base and delta, and the four encodings of a snapshot",
        "A topology holds the edges of each node in time order. A refresh writes a delta: how many edges of the base "
        "stay, and the edges that follow. A snapshot selects edges of a row in one of four encodings: full takes all, "
        "ends takes a prefix, bitmap takes the edges whose bit is 1, materialized has its own copy.",
    )
    d.text(20, 32, "Topology: one row per node, in time order", "bold")
    d.text(20, 66, "base", "code")
    d.cells(130, 48, "12345678", "pppppppp")
    d.text(20, 88, "edges 1 to 8", "small")
    d.text(20, 124, "delta", "code")
    d.cells(130, 106, "12345", "-----")
    d.cells(260, 106, "x78", "app")
    d.text(20, 146, "6 deleted,", "small")
    d.text(20, 163, "late x added", "small")
    d.line((130, 140), (130, 146), (258, 146), (258, 140))
    d.text(194, 163, "the first 5 stay", "small", "middle")
    d.line((262, 140), (262, 146), (338, 146), (338, 140))
    d.text(300, 163, "then these", "small", "middle")

    d.text(20, 212, "Snapshot: the selected edges of a row", "bold")
    rows = [
        ("full", "all edges", "12345678", "bbbbbbbb"),
        ("ends", "the first 5: AS OF", "12345678", "bbbbb---"),
        ("bitmap", "one bit per edge", "11011111", "bb-bbbbb"),
        ("materialized", "a copy of 3 edges", "258", "bbb"),
    ]
    for place, (name, note, labels, kinds) in enumerate(rows):
        y = 230 + place * 66
        d.text(20, y + 18, name, "code")
        d.cells(150, y, labels, kinds)
        d.text(20, y + 40, note, "small")
    d.arrow((280, 342), (280, 325))
    d.text(292, 340, "one end offset", "small")

    d.line((20, 500), (400, 500))
    d.text(20, 524, "Samplers draw a rank in the row. The encoding maps it", "small")
    d.text(20, 543, "to a stored edge, so it never changes a batch.", "small")
    return d.svg()
