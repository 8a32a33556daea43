"""Every physical form of an adjacency, over graphs that change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.selection import STATIC
from snapdb.types import EdgeType
from tests.support import oracle
from tests.support.inside.graph import Adjacency, AdjacencyOpener, GraphView, rows_adjacency
from tests.support.inside.kernels import EdgeSelection, RowRange, live_arrays, logical_parts, plain_array, select_edges
from tests.support.inside.storage import EdgeArrays, build_patch

KNOWS = EdgeType("customer", "knows", "customer")


FORMS = ("full", "ends", "bitmap", "materialized")


STOP = 5
"""The end of the window of forms that contain only a part of their topology."""


@dataclass(frozen=True)
class Changing:
    """A graph with added and removed edges, and a snapshot's filter."""

    nodes: int
    edges: EdgeArrays
    old: npt.NDArray[np.bool_]
    """Whether each edge is in the root."""
    gone: npt.NDArray[np.bool_]
    """Whether each edge has been removed since the root was built."""
    kept: npt.NDArray[np.bool_]
    """Whether each edge passes the snapshot's filter."""

    def pick(self, chosen: npt.NDArray[np.bool_]) -> EdgeArrays:
        """Return the chosen edges."""
        e = self.edges
        assert e.time is not None
        return EdgeArrays(e.source[chosen], e.destination[chosen], e.edge_id[chosen], e.time[chosen], None)

    def stored(self, *, patched: bool) -> Adjacency:
        """Return the topology: a root, or the root of an earlier state with a patch."""
        now = ~self.gone
        if not patched:
            return rows_adjacency(self.pick(now).sort_edges(self.nodes, self.nodes))
        before = max(self.nodes - 3, 1)  # the last three nodes are new
        inside = (self.edges.source < before) & (self.edges.destination < before)
        old, new = self.old & inside, now & ~(self.old & inside)
        root = self.pick(old).sort_edges(before, self.nodes)
        patch = build_patch(root, None, self.pick(old & self.gone), self.pick(new), self.nodes, self.nodes)
        return rows_adjacency(root, patch, nodes=self.nodes)

    def chosen(self, form: str) -> npt.NDArray[np.bool_]:
        """Return the mask of edges in a snapshot of this form."""
        assert self.edges.time is not None
        if form == "full":
            return ~self.gone
        return ~self.gone & (self.edges.time < STOP if form == "ends" else self.kept)

    def adjacency(self, form: str, *, patched: bool) -> Adjacency:
        """Return the in-neighbours of the snapshot."""
        whole = self.stored(patched=patched)
        if form == "full":
            return whole
        selection = self.selection(whole, form)
        if form == "ends":
            assert selection.prefix
            return replace(whole, rows=whole.rows._replace(degrees=plain_array(selection.degrees, np.uint32)))
        live = replace(whole, rows=whole.rows._replace(live=live_arrays(selection.words)))
        return live if form == "bitmap" else rows_adjacency(live.flat())

    def selection(self, whole: Adjacency, form: str) -> EdgeSelection:
        """Return the snapshot's selection from the topology."""
        if form == "ends":
            return select_edges(whole.rows, time=whole.time, stop=STOP)
        passing = np.zeros(self.kept.size, np.bool_)
        passing[self.edges.edge_id] = self.kept
        return select_edges(whole.rows, edge_id=whole.edge_id, selected_ids=passing)

    def oracle(self, form: str) -> oracle.Graph:
        """Return the same snapshot as a list of edges."""
        held = self.pick(self.chosen(form))
        assert held.time is not None
        columns = (held.source, held.destination, held.edge_id, held.time)
        edges = [oracle.Edge(*each) for each in zip(*(c.tolist() for c in columns), strict=True)]
        return oracle.Graph({"customer": self.nodes}, {tuple(KNOWS): edges})


def view_of(adjacency: Adjacency, nodes: int) -> GraphView:
    """Return a snapshot with one edge type."""
    counts = {"customer": nodes}
    shelf = AdjacencyOpener({KNOWS: lambda: adjacency}, counts)
    return GraphView(counts, {"customer": None}, (KNOWS,), shelf, {}, {}, {}, {})


def changing(seed: int, nodes: int, edges: int, hub: int = 0) -> Changing:
    """Return random edges with ties, parallel edges and self loops, of which some are added later and some are removed.

    The `hub` additional edges end at node 0.
    """
    rng = np.random.default_rng(seed)
    count = edges + hub
    destination = rng.integers(0, nodes, count)
    destination[edges:] = 0
    time = np.where(rng.random(count) < 0.1, STATIC, rng.integers(0, 9, count))
    listed = EdgeArrays(rng.integers(0, nodes, count), destination, np.arange(count), time, None)
    old, gone = rng.random(count) < 0.8, rng.random(count) < 0.1
    return Changing(nodes, listed, old, gone, rng.random(count) < rng.choice([0.1, 0.7, 0.95]))


def selected_rows(rows: RowArrays, selection: EdgeSelection, most: int = 1 << 22) -> Iterator[RowRange]:
    """Yield the rows of the selected edges, with about `most` edges per part."""
    return logical_parts(rows._replace(live=live_arrays(selection.words)), most)
