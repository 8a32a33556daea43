"""Which physical form an edge type of a snapshot gets: the one that costs least, and why."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import BindError
from snapdb.types import Form

_SMALL = 1 << 20
"""Bytes up to which rows of one's own cost nothing worth saving."""
_DEAD = 0.01
"""Share of dead positions up to which a bitmap is chosen: it takes about 1.5 to 1.7 times as long to sample through as
rows of one's own, and a hundredth of their bytes. Of 20 million edges and 1 million nodes, fanouts 15, 10, 5, one
thread, it took 1.5 times the CPU time at 1 % dead, 1.5 to 1.85 times at 2 %, 1.8 at 5 % and 2.1 to 2.3 at 10 %; over a
patch of 1 %, 1.85 times at 1 %."""


_PLAIN: tuple[Form, str] = ("materialized", "rows of its own, where no rule chooses a form")


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the form of one edge type."""

    element: str
    nodes: int
    edges: int
    """In the snapshot."""
    held: int
    """In the topology."""
    width: int
    """Bytes of one edge in rows of its own: neighbour, edge id, times, weight."""
    prefix: bool
    """In every row, the edges of the snapshot are the first ones."""
    patched: bool = False
    """The topology has a patch, through which a bitmap is slower still."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A form, what it takes on the disk beside the topology, and why it was chosen."""

    form: Form
    bytes: int
    reason: str


def form_bytes(form: Form, shape: Shape) -> int:
    """The bytes that a form takes beside the topology.

    >>> form_bytes("ends", Shape("e", 10, 50, 100, 16, True)), form_bytes("bitmap", Shape("e", 10, 50, 100, 16, True))
    (40, 16)
    """
    match form:
        case "full":
            return 0
        case "ends":
            return 4 * shape.nodes
        case "bitmap":
            return 8 * ((shape.held + 63) // 64)
        case "materialized":
            return shape.width * shape.edges + 8 * (shape.nodes + 1)


def choose_form(shape: Shape, asked: Form | None, *, cheapest: bool = True) -> Choice:
    """The form that was asked for, or else the cheapest.

    Args:
        cheapest: Else rows of its own, which hold any snapshot.

    Raises:
        BindError: the form that was asked for cannot hold this snapshot.

    >>> choose_form(Shape("bought", 1000, 90_000, 100_000, 16, True), None).form
    'ends'
    """
    form, reason = (
        (_cheapest(shape) if cheapest else _PLAIN) if asked is None else (asked, "asked for by WITH (layout)")
    )
    instead = f"leave WITH (layout) out for {shape.element}, or say 'bitmap' or 'materialized'"
    if form == "full" and shape.edges < shape.held:
        raise BindError(
            f"layout 'full' holds every edge, and {shape.held - shape.edges:,} are left out here; {instead}",
            code="layout-does-not-fit",
        )
    if form == "ends" and not shape.prefix:
        raise BindError(
            f"layout 'ends' leaves out only the latest edges of each node, and others are here; {instead}",
            code="layout-does-not-fit",
        )
    return Choice(form, form_bytes(form, shape), reason)


def _cheapest(shape: Shape) -> tuple[Form, str]:
    if shape.edges == shape.held:
        return "full", "every edge of the topology is in it"
    own = form_bytes("materialized", shape)
    if shape.prefix:
        ends = form_bytes("ends", shape)
        if own <= ends:
            return "materialized", f"rows of its own take less ({own:,} bytes) than an end a node ({ends:,})"
        return "ends", f"rows are in time order, so an end a node says it all: {ends:,} bytes instead of {own:,}"
    dead = 1 - shape.edges / shape.held
    if own <= _SMALL:
        return "materialized", f"rows of its own are small: {own:,} bytes"
    if dead <= _DEAD and not shape.patched:
        bits = form_bytes("bitmap", shape)
        return "bitmap", f"only {dead:.1%} of the edges are left out: {bits:,} bytes instead of {own:,}"
    return "materialized", f"{dead:.1%} of the edges are left out: skipping them would cost every batch more"
