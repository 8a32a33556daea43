"""The torch back end: operators over whole hops, on any device, without loops over nodes or edges.

Positions refer to the flat rows of its traversals' adjacency. Values read by position equal those of numba.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.kernels.draw.scores import LOG_TABLE
from snapdb.kernels.draw.uniform import EVERY
from snapdb.kernels.rng import EVERY_HOP
from snapdb.kernels.torch_ops import MOST, chunks, number
from snapdb.sampling.rounds import RowTable, row_keys, slot_of
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Edges, Ints, SeedGroup
from snapdb.sampling.torch_draws import Drawn, HopDraws, HopKeys, Kept, is_scored
from snapdb.sampling.torch_eligible import Frontier, Hidden, Limits, eligible_edges, stretches
from snapdb.sampling.torch_traversals import TorchTraversal, open_torch_traversals, tensor_on
from snapdb.types import Backend, Relation, SampleSpec

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
        self.traversals = open_torch_traversals(view, spec, self.device, _room(self.device) if room is None else room)
        self.host_traversals = tuple(traversal.traversal for traversal in self.traversals)
        self._node_counts = view.node_counts
        self._table = tensor_on(LOG_TABLE, self.device)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Return empty scratch memory, because torch allocates the memory that a batch needs."""
        return Scratch({})

    def begin(self, batch: SampleRequest, traversals: Sequence[Any], scratch: Scratch) -> _TorchSubgraph:
        """Return an empty subgraph on the device, to which seeds and hops are added."""
        return _TorchSubgraph(batch, traversals, self.device, self._node_counts, self._table)


@dataclass(slots=True)
class _Numbered:
    """The nodes of one vertex type in a batch. A node's position is its local id."""

    base: int
    """The number of dense ids."""
    nodes: Tensor
    """[nodes] dense ids."""
    trees: Tensor
    """[nodes] the tree of each node. Empty if trees are not disjoint."""

    @property
    def count(self) -> int:
        return self.nodes.numel()

    def append(self, nodes: Tensor) -> Tensor:
        """Return new local ids for these nodes, including duplicates."""
        low = self.count
        self.nodes = torch.cat((self.nodes, nodes))
        return torch.arange(low, self.count, device=nodes.device)

    def meet(self, nodes: Tensor, trees: Tensor) -> Tensor:
        """Return the local ids of these (tree, node) pairs. New nodes are numbered by first appearance."""
        if trees.numel():
            # Encode (tree, vertex) as one integer, so that one sort relabels pairs.
            local, new = number(self.trees * self.base + self.nodes, trees * self.base + nodes)
            self.trees = torch.cat((self.trees, trees[new]))
        else:
            local, new = number(self.nodes, nodes)
        self.nodes = torch.cat((self.nodes, nodes[new]))
        return local


class _HopEdges(NamedTuple):
    """The edges that one hop draws over one relation."""

    neighbors: Tensor
    """[edges] local ids of neighbours."""
    sides: Tensor
    """[edges] local ids of the expanded nodes."""
    positions: Tensor
    """[edges] positions in the flat rows."""
    weights: Tensor | None
    """[edges] Horvitz-Thompson weights, or None."""


class _TorchSubgraph:
    """The subgraph of one batch: node ids and draws as tensors that grow with every hop."""

    def __init__(
        self,
        batch: SampleRequest,
        traversals: Sequence[TorchTraversal],
        device: torch.device,
        node_counts: Mapping[str, int],
        table: Tensor,
    ) -> None:
        self._batch, self._traversals, self._device, self._table = batch, traversals, device, table
        self._spec = spec = batch.spec
        none = torch.empty(0, dtype=torch.int64, device=device)
        ends = [] if spec.link is None else [spec.link.edge.destination]
        reached = [
            name for traversal in traversals for name in (traversal.relation.expands, traversal.relation.reaches)
        ]
        types = dict.fromkeys([spec.seed_type, *ends, *reached])
        self._nodes = {name: _Numbered(node_counts[name], none, none) for name in types}
        self._limits = Limits.of(batch.entry, spec.temporal, device)
        weights = none.to(torch.float64) if spec.drawing.method == "PRIORITY" else None
        self._edges = {traversal.relation: [_HopEdges(none, none, none, weights)] for traversal in traversals}
        self._hidden = {
            traversal.relation: hidden
            for traversal in traversals
            if (hidden := self._hidden_from(traversal)) is not None
        }

    def _hidden_from(self, traversal: TorchTraversal) -> Hidden | None:
        """Return the excluded pairs of a traversal, or None.

        If all edges have times and the bound is exclusive, the seed edges are already outside their trees' bounds.
        """
        excluded, temporal = self._batch.entry.excluded, self._spec.temporal
        if excluded is None or excluded.source.size == 0 or traversal.relation.edge != excluded.edge:
            return None
        if temporal is not None and not temporal.inclusive and not traversal.traversal.undated:
            return None
        return Hidden.of(excluded, traversal, self._spec.disjoint, self._device)

    def enter(self, group: SeedGroup, *, each: bool) -> Ints:
        numbered, nodes = self._nodes[group.type], tensor_on(group.ids, self._device)
        if each:
            return _values(numbered.append(nodes))
        trees = tensor_on(group.trees, self._device) if self._spec.disjoint else numbered.trees
        return _values(numbered.meet(nodes, trees))

    def node_counts(self) -> dict[str, int]:
        return {name: numbered.count for name, numbered in self._nodes.items()}

    def edge_counts(self) -> dict[Relation, int]:
        return {relation: sum(part.positions.numel() for part in parts) for relation, parts in self._edges.items()}

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        traversal = self._traversals[place]
        near, far = (self._nodes[name] for name in (traversal.relation.expands, traversal.relation.reaches))
        frontier = Frontier(near.nodes[low:high], near.trees[low:high])
        drawn = self._drawn(self._how(traversal, hop), frontier, self._hidden.get(traversal.relation))
        neighbors = traversal.indices[drawn.positions].to(torch.int64)
        trees = frontier.trees[drawn.sides] if self._spec.disjoint else frontier.trees[:0]
        part = _HopEdges(far.meet(neighbors, trees), drawn.sides + low, drawn.positions, drawn.weights)
        self._edges[traversal.relation].append(part)

    def finish(self) -> tuple[dict[str, Ints], dict[Relation, Edges], dict[str, Ints] | None]:
        """Return nodes, edges and trees, as tensors on a GPU or as arrays in host memory."""
        ids = torch.int64 if self._spec.ids == "int64" else torch.int32
        edges = {}
        for relation, parts in self._edges.items():
            index = torch.stack(
                [torch.cat([part.neighbors for part in parts]), torch.cat([part.sides for part in parts])]
            )
            position, weight = _joined([part.positions for part in parts]), _joined([part.weights for part in parts])
            edges[relation] = Edges(_values(index.to(ids)), _values(position), _values(weight))
        nodes = {name: _values(numbered.nodes.to(ids)) for name, numbered in self._nodes.items()}
        if not self._spec.disjoint:
            return nodes, edges, None
        return nodes, edges, {name: _values(numbered.trees) for name, numbered in self._nodes.items()}

    def _how(self, traversal: TorchTraversal, hop: int) -> HopDraws:
        """Return the rule and keys of one hop over one relation."""
        spec, batch, fanout, kept = self._spec, self._batch, traversal.count(hop), None
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
        return Drawn(sides, positions, _joined([part.weights for part in parts]))


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Return the concatenated parts, or None if there are none."""
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None


def _values(tensor: Tensor | None) -> Ints:
    """Return the tensor, or a numpy array that shares its memory if that is host memory."""
    return tensor.numpy() if tensor is not None and tensor.device.type == "cpu" else tensor


def _listed(
    traversal: TorchTraversal, frontier: Frontier, limits: Limits | None, hidden: Hidden | None
) -> Tensor | None:
    """Return a [nodes] mask of nodes whose eligible edges are not contiguous, or None if all are contiguous."""
    if limits is not None and (traversal.until is not None or traversal.born is not None):
        return torch.ones_like(frontier.nodes, dtype=torch.bool)
    return None if hidden is None else hidden.may_meet(frontier)


def _room(device: torch.device) -> int | None:
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
