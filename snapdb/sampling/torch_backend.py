"""The torch back end: operators over whole hops, on any device, without loops over nodes or edges.

Positions refer to the flat rows of its traversals' adjacency. Values read by position equal those of numba.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.kernels.draw.scores import LOG_TABLE
from snapdb.kernels.draw.uniform import EVERY
from snapdb.kernels.rng import EVERY_HOP
from snapdb.kernels.torch_ops import MOST, chunks
from snapdb.sampling.rounds import RowTable, row_keys, slot_of
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.torch_draws import Drawn, HopDraws, HopKeys, Kept, is_scored
from snapdb.sampling.torch_eligible import Frontier, Hidden, Limits, eligible_edges, stretches
from snapdb.sampling.torch_subgraph import HopEdges, TorchSubgraph, joined
from snapdb.sampling.torch_traversals import TorchTraversal, open_torch_traversals, tensor_on
from snapdb.types import Backend, SampleSpec

_LOOKED_THROUGH = 1 << 24
"""The number of edges per chunk when whole rows are searched. It bounds memory."""


class TorchBackend:
    """The relations of a sampler as tensors on one device."""

    name: Backend = "torch"

    def __init__(self, view: GraphView, spec: SampleSpec, device: str = "cpu", room: int | None = None) -> None:
        """Copy the rows of the relations to the device. Also raises the errors of `open_sampler`.

        Args:
            view: The snapshot.
            spec: The statement.
            device: The name of the device.
            room: The bytes that rows may use on the device. None leaves a fifth of a GPU's memory free.

        Raises:
            InputError: A uniform draw without replacement or a row of a neighbor pool is larger than 1,024, or the rows
                do not fit.
        """
        _check(spec)
        self.device = torch.device(device)
        self.traversals = open_torch_traversals(view, spec, self.device, room_on(self.device) if room is None else room)
        self.host_traversals = tuple(traversal.traversal for traversal in self.traversals)
        self._node_counts = view.node_counts
        self._table = tensor_on(LOG_TABLE, self.device)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Return empty scratch memory, because torch allocates the memory that a batch needs."""
        return Scratch({})

    def begin(self, batch: SampleRequest, traversals: Sequence[Any], scratch: Scratch) -> TorchSubgraph:
        """Return an empty subgraph on the device, to which seeds and hops are added."""
        return _DrawnSubgraph(batch, traversals, self.device, self._node_counts, self._table)


class _DrawnSubgraph(TorchSubgraph):
    """The subgraph of one batch whose edges are drawn from rows."""

    def __init__(
        self,
        batch: SampleRequest,
        traversals: Sequence[TorchTraversal],
        device: torch.device,
        node_counts: Mapping[str, int],
        table: Tensor,
    ) -> None:
        weighted = batch.spec.drawing.method == "PRIORITY"
        super().__init__(batch, [t.relation for t in traversals], device, node_counts, weighted=weighted)
        self._traversals, self._table = traversals, table
        self._limits = Limits.of(batch.entry, self.spec.temporal, device)
        self._hidden = {
            traversal.relation: hidden
            for traversal in traversals
            if (hidden := self._hidden_from(traversal)) is not None
        }

    def _hidden_from(self, traversal: TorchTraversal) -> Hidden | None:
        """Return the excluded pairs of a traversal, or None.

        If all edges have times and the bound is exclusive, the seed edges are already outside their trees' bounds.
        """
        excluded, temporal = self.batch.entry.excluded, self.spec.temporal
        if excluded is None or excluded.source.size == 0 or traversal.relation.edge != excluded.edge:
            return None
        if temporal is not None and not temporal.inclusive and not traversal.traversal.undated:
            return None
        return Hidden.of(excluded, traversal, self.spec.disjoint, self.device)

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        traversal = self._traversals[place]
        near, far = (self.nodes[name] for name in (traversal.relation.expands, traversal.relation.reaches))
        frontier = Frontier(near.nodes[low:high], near.trees[low:high])
        drawn = self._drawn(self._how(traversal, hop), frontier, self._hidden.get(traversal.relation))
        neighbors = traversal.indices[drawn.positions].to(torch.int64)
        trees = frontier.trees[drawn.sides] if self.spec.disjoint else frontier.trees[:0]
        part = HopEdges(far.meet(neighbors, trees), drawn.sides + low, drawn.positions, drawn.weights)
        self.edges[traversal.relation].append(part)

    def _how(self, traversal: TorchTraversal, hop: int) -> HopDraws:
        """Return the rule and keys of one hop over one relation."""
        spec, batch, fanout, kept = self.spec, self.batch, traversal.count(hop), None
        number = EVERY_HOP if spec.reuse_hops else hop
        ordinals = None if self._limits is None else self._limits.ordinals
        keys = HopKeys(spec.seed, batch.number, number, traversal.relation.hash, ordinals)
        if spec.refresh is not None and fanout != EVERY:
            of_rows = row_keys(spec, traversal.relation, hop, batch.number, batch.rounds)
            size = spec.refresh.row_size(traversal.fanout, fanout)
            table = RowTable(traversal.traversal, slot_of(spec, hop), size, spec.refresh.above)
            kept = Kept(of_rows, size, spec.refresh.above, table.few, spec.refresh.kept(fanout))
        return HopDraws(traversal, spec.drawing, fanout, keys, self._table, kept)

    def _drawn(self, how: HopDraws, frontier: Frontier, hidden: Hidden | None) -> Drawn:
        """Return the edges drawn for a frontier. Rows that must be searched are processed in chunks."""
        traversal, limits = how.traversal, self._limits
        eligible = stretches(traversal, frontier, limits)
        listed = _listed(traversal, frontier, limits, hidden)
        # Scored and listed rows are read whole, and tensors of all their edges at once could exceed the device's
        # memory.
        if is_scored(how.drawing, traversal):
            sizes = (eligible if how.kept is None else stretches(traversal, frontier, None)).degrees
        else:
            sizes = torch.zeros_like(frontier.nodes) if listed is None else torch.where(listed, eligible.degrees, 0)
        parts = []
        for low, high in chunks(sizes, _LOOKED_THROUGH):
            part, some = frontier.part(low, high), eligible.part(low, high)
            if listed is not None:
                some = eligible_edges(traversal, part, limits, hidden, some, listed[low:high])
            drawn = how.draw_edges(part, some)
            parts.append(drawn._replace(sides=drawn.sides + low))
        if len(parts) == 1:
            return parts[0]
        sides, positions = torch.cat([part.sides for part in parts]), torch.cat([part.positions for part in parts])
        return Drawn(sides, positions, joined([part.weights for part in parts]))


def _listed(
    traversal: TorchTraversal, frontier: Frontier, limits: Limits | None, hidden: Hidden | None
) -> Tensor | None:
    """Return a [nodes] mask of nodes whose eligible edges are not contiguous, or None if all are contiguous."""
    if limits is not None and (traversal.until is not None or traversal.born is not None):
        return torch.ones_like(frontier.nodes, dtype=torch.bool)
    return None if hidden is None else hidden.may_meet(frontier)


def room_on(device: torch.device) -> int | None:
    """Return the bytes of a GPU's memory that rows may use, leaving a fifth free for batches. None on the CPU."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return int(max(free - total // 5, 0))


def _check(spec: SampleSpec) -> None:
    """Raise InputError for draws that would take too long, because comparisons are quadratic in the fanout."""
    most = max((count for fanout in spec.fanouts for count in fanout.counts), default=0)
    if spec.refresh is not None and (size := spec.refresh.size(most)) > MOST:
        raise InputError(
            f"REFRESH with a FANOUT of {most} needs rows of {size:,} edges, but the maximum WITH torch is {MOST}; "
            "write a smaller FANOUT or AMPLIFY, or WITH numba",
            code="device",
        )
    if spec.drawing.method == "UNIFORM" and not spec.drawing.replace and not spec.drawing.weighted and most > MOST:
        raise InputError(
            f"a FANOUT of {most} exceeds {MOST}, the maximum WITH torch for uniform draws without "
            "replacement; write a smaller FANOUT or FULL, or WITH numba",
            code="device",
        )
