"""The idea of snapdb: versioned tables, snapshots of a graph over them, mini-batches from a snapshot."""

from __future__ import annotations

from drawing import Drawing


def draw() -> str:
    """Three boxes, one below the other, with the statement that leads from each to the next."""
    d = Drawing(
        520,
        "From tables to mini-batches",
        "Tables publish a version with each change. CREATE SNAPSHOT pins a graph at a version and a time range. "
        "SAMPLE turns a snapshot into mini-batches, which a training loop reads.",
    )
    d.box(20, 20, 380, 116, "plain", 6)
    d.text(36, 44, "Tables", "bold")
    d.text(384, 44, "Parquet, CSV, SQL", "small", "end")
    for row, (name, versions) in enumerate(
        [("customer", ["v1"]), ("product", ["v2"]), ("bought", ["v3", "v4"])]
    ):
        y = 54 + row * 26
        d.text(36, y + 16, name, "code")
        for place, version in enumerate(versions):
            d.labelled(120 + place * 48, y, 40, 22, version, "blue")
    d.text(384, 100, "each change publishes", "small", "end")
    d.text(384, 118, "a new version", "small", "end")

    d.arrow((70, 136), (70, 176))
    d.text(84, 161, "CREATE SNAPSHOT", "code")

    d.box(20, 178, 380, 116, "plain", 6)
    d.text(36, 202, "Snapshots", "bold")
    d.text(384, 202, "read-only, share one topology", "small", "end")
    for row, (name, range_) in enumerate(
        [("june", "version 4, until 30 June"), ("summer", "version 4, June to August")]
    ):
        y = 214 + row * 36
        d.labelled(36, y, 76, 28, name, "amber")
        d.text(124, y + 19, range_)

    d.arrow((70, 294), (70, 334))
    d.text(84, 319, "SAMPLE … FANOUT … BATCH", "code")

    d.box(20, 336, 380, 100, "plain", 6)
    d.text(36, 360, "Mini-batches", "bold")
    d.text(384, 360, "same query, same bytes", "small", "end")
    for place, label in enumerate(["0", "1", "2", "3", "…"]):
        d.labelled(36 + place * 44, 370, 36, 26, label, "amber")
    d.text(36, 422, "x  y  edge_index  n_id  ids()", "code")

    d.arrow((70, 436), (70, 470))
    d.box(20, 472, 380, 32, "blue", 6)
    d.text(210, 493, "your training loop: torch, PyG, Lightning", "", "middle")
    return d.svg()
