"""A drawn sample: the nodes and edges of one batch as plain values, for JSON, SVG and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from snapdb.attribute_docs import document_attributes
from snapdb.catalog.system_tables import time_text
from snapdb.errors import InputError
from snapdb.pictures.details import details_html
from snapdb.pictures.elements import DrawnEdge, DrawnNode, LeftOut, SeedEdge, line_of, look_of
from snapdb.pictures.layout import rings
from snapdb.pictures.svg import sample_svg
from snapdb.types import TimeUnit
from snapdb.types.text import counted


@document_attributes
@dataclass(frozen=True, slots=True)
class SampleDrawing:
    """A real batch of a sampler, as nodes and edges to look at. `db.draw` returns one, and notebooks show it.

    The batch is one of the sampler with BATCH and EPOCHS replaced. `statement` returns exactly the drawn edges as the
    rows with the number of the batch, unless `left_out` counts nodes or edges of outer hops.
    """

    sampler: str
    """The name of the sampler, or the SAMPLE statement."""
    snapshot: str
    """The name of the snapshot."""
    statement: str
    """The SAMPLE statement to which the batch belongs, with BATCH and EPOCHS replaced."""
    batch: int
    """The number of the batch in its epoch, starting at 0."""
    batch_size: int
    """The number of seeds per batch, which replaces BATCH."""
    batches: int
    """The number of batches of the epoch."""
    seeds: int
    """The number of seeds of the batch. Ends of a seed edge count as one seed."""
    seed_type: str
    """The vertex type of the seeds, or the edge type of seed edges."""
    nodes: tuple[DrawnNode, ...]
    """The nodes, by type: seeds first, then hop by hop."""
    edges: tuple[DrawnEdge, ...]
    """The edges, in the order of SAMPLE's rows."""
    seed_edges: tuple[SeedEdge, ...]
    """The pairs of seed edges and their negatives. Empty if the seeds are vertices."""
    node_types: tuple[str, ...]
    """The vertex types of the nodes, in the order of their looks."""
    edge_types: tuple[str, ...]
    """The edge types of the edges, in the order of their looks."""
    timed: bool
    """Whether seeds have times, so that edges can be late."""
    unit: TimeUnit | None
    """The unit of times: microseconds since 1970 UTC ('timestamp'), or the column's integers ('integer')."""
    left_out: LeftOut
    """What the drawing leaves out of the requested batch."""
    reason: str
    """The reason for what is left out, or an empty string."""

    @property
    def late(self) -> int:
        """The number of edges that are later than the time of their seed allows."""
        return sum(edge.late for edge in self.edges)

    @property
    def caption(self) -> str:
        """A description of the drawing in one paragraph."""
        counts = ", ".join((self._seeds_text(), counted(len(self.nodes), "node"), counted(len(self.edges), "edge")))
        name = "the statement" if " " in self.sampler.strip() else self.sampler
        parts = [
            f"Batch {self.batch} of {name} with BATCH {self.batch_size} and EPOCHS 1 instead of its own: {counts}."
        ]
        if self.timed:
            late = "No edge is" if not self.late else counted(self.late, "edge is", "edges are")
            parts.append(f"{late} later than the time of {'its seed' if self.late <= 1 else 'their seeds'}.")
        if self.reason:
            parts.append(self.reason)
        return " ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the drawing as plain JSON values, with texts for times and positions for all nodes.

        `nodes` and `edges` are lists in the order of their ids. `x` and `y` are relative to the centre of the rings.
        """
        layout = rings(self.nodes, self.edges)
        return {
            "sampler": self.sampler,
            "snapshot": self.snapshot,
            "statement": self.statement,
            "batch": self.batch,
            "batch_size": self.batch_size,
            "batches": self.batches,
            "seeds": self.seeds,
            "seed_type": self.seed_type,
            "caption": self.caption,
            "timed": self.timed,
            "late": self.late,
            "left_out": {
                "seeds": self.left_out.seeds,
                "nodes": self.left_out.nodes,
                "edges": self.left_out.edges,
                "reason": self.reason,
            },
            "rings": list(layout.radii),
            "node_types": [
                {"name": name, "shape": look_of(self.node_types, name)[0], "color": look_of(self.node_types, name)[1]}
                for name in self.node_types
            ],
            "edge_types": [
                {"name": name, "color": line_of(self.edge_types, name)[0], "dashes": line_of(self.edge_types, name)[1]}
                for name in self.edge_types
            ],
            "nodes": [self._node_json(node, *layout.points[node.id]) for node in self.nodes],
            "edges": [self._edge_json(edge) for edge in self.edges],
            "seed_edges": [
                {"source": pair.source, "target": pair.target, "negative": pair.negative} for pair in self.seed_edges
            ],
        }

    def svg(self) -> str:
        """Return the drawing as an SVG picture without scripts, styles or addresses of other files."""
        return sample_svg(self)

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file, as SVG or as an HTML page by the suffix of its name.

        Args:
            path: The file, whose name ends with .svg or .html. An existing file is replaced.

        Returns:
            The path of the file.

        Raises:
            InputError: The name has another suffix.
        """
        file = Path(path)
        match file.suffix.lower():
            case ".svg":
                content = f'<?xml version="1.0" encoding="UTF-8"?>\n{self.svg()}\n'
            case ".html":
                heading = escape(f"Batch {self.batch} of {self.sampler}")
                content = (
                    f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title></head>'
                    f"<body>{self._repr_html_()}</body></html>\n"
                )
            case _:
                raise InputError(f"a drawing is saved as .svg or .html, found {file.name!r}", code="drawing-format")
        file.write_text(content, encoding="utf-8")
        return file

    def __repr__(self) -> str:
        return f"<{self.caption}>"

    def _repr_html_(self) -> str:
        """Return the picture with lists of its nodes and edges for notebooks."""
        return f"<div>{self.svg()}{details_html(self)}</div>"

    def _seeds_text(self) -> str:
        noun = "seed edge" if self.seed_edges else "seed"
        return f"{counted(self.seeds, noun)} of {self.seed_type}"

    def _node_json(self, node: DrawnNode, x: float, y: float) -> dict[str, Any]:
        return {
            "id": node.id,
            "type": node.type,
            "key": node.key,
            "hop": node.hop,
            "seed": node.is_seed,
            "tree": node.tree,
            "seed_time": time_text(node.seed_time, self.unit),
            "features": dict(node.features),
            "x": x,
            "y": y,
        }

    def _edge_json(self, edge: DrawnEdge) -> dict[str, Any]:
        return {
            "id": edge.id,
            "source": edge.source,
            "target": edge.target,
            "type": edge.type,
            "direction": edge.direction,
            "hop": edge.hop,
            "e_id": edge.e_id,
            "time": time_text(edge.time, self.unit),
            "late": edge.late,
            "weight": edge.weight,
            "features": dict(edge.features),
        }
