"""The parts of a drawn sample: nodes, edges, seed edges, and what the drawing leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from snapdb.attribute_docs import document_attributes

Features = tuple[tuple[str, str], ...]
"""Names of features with their values as short text."""


@document_attributes
@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a drawn sample."""

    id: int
    """The position of the node in `SampleDrawing.nodes`. Under TEMPORAL, a vertex has one node per tree."""
    type: str
    """The vertex type."""
    key: str
    """Your own key as text. A composite key is a JSON object."""
    hop: int
    """0 for seeds, otherwise the number of the hop that reached the node first."""
    is_seed: bool
    """Whether the node is a seed, or an end of a seed edge or of a negative."""
    tree: int | None
    """Under TEMPORAL, the index of the seed whose tree contains the node, otherwise None."""
    seed_time: int | None
    """The time of the node's seed in the unit of event times. Without TEMPORAL, only seeds have one. None if SEEDS has
    no `seed_time`."""
    features: Features
    """The features of the node, and the target `y` of a seed."""


@document_attributes
@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a drawn sample, which is one row of SAMPLE."""

    id: int
    """The position of the edge in `SampleDrawing.edges`, which have the order of SAMPLE's rows."""
    source: int
    """The id of the node that sends the message: the neighbour, row 0 of `edge_index`."""
    target: int
    """The id of the node that receives the message: the seed side, row 1 of `edge_index`."""
    type: str
    """The edge type."""
    direction: Literal["in", "out"]
    """The direction in which sampling traverses the edge, as in SAMPLE's rows. With 'out', the message runs against the
    direction of the edge in its table."""
    hop: int
    """The hop that sampled the edge, from 0, as in SAMPLE's rows."""
    e_id: int
    """The id of the edge's row in its table."""
    time: int | None
    """The event time in its unit, or None if the edge has none."""
    late: bool
    """Whether the edge is later than the time of its seed allows. A sampler with TEMPORAL never samples such an edge.
    Without TEMPORAL, the seeds are those that the edge's message can reach."""
    weight: float | None
    """The weight, or None if the edge type has none."""
    features: Features
    """The features of the edge."""


@document_attributes
@dataclass(frozen=True, slots=True)
class SeedEdge:
    """A pair of seed nodes: a seed edge, or a negative."""

    source: int
    """The id of the source node."""
    target: int
    """The id of the destination node."""
    negative: bool
    """Whether the pair is a negative."""


@document_attributes
@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a drawing leaves out of the requested batch because it would be too large."""

    seeds: int = 0
    """The number of seeds."""
    nodes: int = 0
    """The number of nodes."""
    edges: int = 0
    """The number of edges."""

    def __bool__(self) -> bool:
        return bool(self.seeds or self.nodes or self.edges)


SHAPES = ("circle", "square", "diamond", "triangle", "hexagon", "pentagon", "wedge", "star")
"""The shapes of vertex types, in the order of the types."""
COLORS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#f0e442", "#999999")
"""The colours of vertex types: those of Okabe and Ito, which colour-blind people can distinguish, without the red that
marks late edges. Their number and that of the shapes have no common factor, so 56 types have different looks."""
LINES = (("#555555", ""), ("#0072b2", "7 3"), ("#8a6d00", "2 3"), ("#00664b", "9 3 2 3"), ("#8f4470", "4 2"))
"""The colour and the dashes of edge types, in the order of the types."""
LATE = "#d00000"
"""The colour of late edges."""


def look_of(types: Sequence[str], name: str) -> tuple[str, str]:
    """Return the shape and the colour of a vertex type.

    >>> look_of(["customer", "product"], "product")
    ('square', '#e69f00')
    """
    place = list(types).index(name)
    return SHAPES[place % len(SHAPES)], COLORS[place % len(COLORS)]


def line_of(types: Sequence[str], name: str) -> tuple[str, str]:
    """Return the colour and the dashes of an edge type."""
    return LINES[list(types).index(name) % len(LINES)]
