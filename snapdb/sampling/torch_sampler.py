"""The sampler as torch operators over whole hops, on any device: the same batches as numba's, bit for bit.

There are no loops over nodes or edges. What comes out counts positions in flat rows, which its walks' adjacency is
made of; all that is read by position is the same.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.kernels.logtable import LOG_TABLE
from snapdb.kernels.sample import EVERY
from snapdb.kernels.torch_floyd import MOST
from snapdb.kernels.torch_rows import chunks
from snapdb.sampling.keys import EVERY_HOP
from snapdb.sampling.rounds import Rounds, RowTable, row_keys, row_size, slot_of
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Edges, Entry, Group, Ints, Subgraph
from snapdb.sampling.torch_batch import Growing, Hop, Numbered
from snapdb.sampling.torch_draws import Drawn, HopDraws, draw_edges, is_scored
from snapdb.sampling.torch_eligible import Frontier, Hidden, Limits, eligible_edges, stretches
from snapdb.sampling.torch_kept import Kept
from snapdb.sampling.torch_keys import HopKeys
from snapdb.sampling.torch_walks import TorchWalk, open_torch_walks, tensor_on
from snapdb.types import Relation, SampleSpec

_LOOKED_THROUGH = 1 << 24
"""Rows are looked through in chunks of about so many edges, to bound the memory that takes."""


class TorchSampler:
    """Samples neighbourhoods in one snapshot, on one device. It holds no state: threads share it."""

    def __init__(self, view: GraphView, spec: SampleSpec, device: str = "cpu", room: int | None = None) -> None:
        """Sends the rows of the relations that the sampler walks to the device.

        `room` is how many bytes they may take there; None leaves a fifth of a GPU's memory free.

        Raises:
            BindError: two fanouts lead to the same key of a batch, or an edge type has no weights.
            CorruptError: a relation's rows or columns are not those of its nodes.
            DataError: weights are not finite, or negative.
            InputError: a uniform draw without replacement or a row that serves many batches is larger than 1,024,
                or the rows have no room.
            ValueError: a fanout is negative and not FULL, or the seed type is not in the snapshot.
        """
        _check(view, spec)
        self.spec = spec
        self.device = torch.device(device)
        self.walks = open_torch_walks(view, spec, self.device, _room(self.device) if room is None else room)
        ends = [] if spec.link is None else [spec.link.edge.destination]
        reached = [name for walk in self.walks for name in (walk.relation.expands, walk.relation.reaches)]
        self.node_types = tuple(dict.fromkeys([spec.seed_type, *ends, *reached]))
        """The seed type, that of seed edges' destinations, then the others in the order in which walks name them."""
        self.relations = tuple(walk.relation for walk in self.walks)
        self._node_counts = {name: view.node_counts[name] for name in self.node_types}
        self._table = tensor_on(LOG_TABLE, self.device)

    def scratch(self) -> Scratch:
        """No working memory: torch allocates what a batch needs."""
        return Scratch({})

    def sample(self, entry: Entry, batch: int, scratch: Scratch, rounds: Rounds | None = None) -> Subgraph:
        """The neighbourhood of those who enter, in global batch number `batch`: arrays, or tensors on a GPU.

        `rounds` of rows are given under REFRESH OTF SCOPE VISITED; without them all rows are of round 0.

        The same arguments give the same bits on every device. Raises IndexError when an id is not of the snapshot.
        """
        growing = self._start(entry, batch, rounds)
        each = not self.spec.disjoint and self.spec.link is None and len(entry.groups) == 1
        entered = tuple(self._enter(growing, group, each) for group in entry.groups)
        met = [dict.fromkeys(self.node_types, 0), growing.counts()]
        for hop in range(self.spec.hops):
            for walk in self.walks:
                low, high = (counts[walk.relation.expands] for counts in met[-2:])
                low = 0 if self.spec.layout == "BLOCKS" else low
                found = self._draw(growing, walk, hop, low, high)
                growing.drawn[walk.relation].append(found)
            met.append(growing.counts())
        return self._subgraph(growing, entered, met)

    def _start(self, entry: Entry, batch: int, rounds: Rounds | None) -> Growing:
        """A batch that nobody has entered."""
        none = torch.empty(0, dtype=torch.int64, device=self.device)
        numbered = {name: Numbered(count, none, none) for name, count in self._node_counts.items()}
        limits = Limits.of(entry, self.spec.temporal, self.device)
        drawn = {relation: [self._nothing()] for relation in self.relations}
        return Growing(batch, rounds, numbered, limits, self._hidden(entry), drawn)

    def _hidden(self, entry: Entry) -> dict[Relation, Hidden]:
        """What a batch must not see, by relation. Of edges with times before a seed's nothing is kept from its tree."""
        excluded, temporal = entry.excluded, self.spec.temporal
        if excluded is None or excluded.source.size == 0:
            return {}
        return {
            walk.relation: Hidden.of(excluded, walk, self.spec.disjoint, self.device)
            for walk in self.walks
            if walk.relation.edge == excluded.edge and (temporal is None or temporal.inclusive or walk.walk.undated)
        }

    def _enter(self, growing: Growing, group: Group, each: bool) -> Tensor:
        """The local ids of a group's vertices; `each` gets a new one."""
        count, ids = self._node_counts[group.type], group.ids
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
            raise IndexError(
                f"seeds of {group.type} are dense ids 0 ≤ id < {count}, found {int(ids.min())} to {int(ids.max())}"
            )
        numbered, nodes = growing.numbered[group.type], tensor_on(ids, self.device)
        if each:
            return numbered.append(nodes)
        return numbered.meet(nodes, tensor_on(group.trees, self.device) if self.spec.disjoint else numbered.trees)

    def _draw(self, growing: Growing, walk: TorchWalk, hop: int, low: int, high: int) -> Hop:
        """The edges that one hop draws over one relation, for the nodes from low up to high."""
        fanout = walk.walk.count(hop)
        if not fanout or low >= high:
            return self._nothing()
        near, far = (growing.numbered[name] for name in (walk.relation.expands, walk.relation.reaches))
        frontier = Frontier(near.nodes[low:high], near.trees[low:high])
        drawn = self._edges(self._how(growing, walk, hop), frontier, growing.limits, growing.hidden.get(walk.relation))
        neighbours = walk.indices[drawn.positions].to(torch.int64)
        trees = frontier.trees[drawn.sides] if self.spec.disjoint else frontier.trees[:0]
        return Hop(far.meet(neighbours, trees), drawn.sides + low, drawn.positions, drawn.weights)

    def _how(self, growing: Growing, walk: TorchWalk, hop: int) -> HopDraws:
        """How one hop draws over one relation."""
        spec, fanout, kept = self.spec, walk.walk.count(hop), None
        number = EVERY_HOP if spec.reuse_hops else hop
        ordinals = None if growing.limits is None else growing.limits.ordinals
        keys = HopKeys(spec.seed, growing.number, number, walk.relation.hash, ordinals)
        if spec.refresh is not None and fanout != EVERY:
            of_rows = row_keys(spec, walk.relation, hop, growing.number, growing.rounds)
            size = row_size(spec.refresh, walk.fanout, fanout)
            table = RowTable(walk.walk, slot_of(spec, hop), size, spec.refresh.above)
            kept = Kept(of_rows, size, spec.refresh.above, table.few, spec.refresh.kept(fanout))
        return HopDraws(walk, spec.drawing, fanout, keys, self._table, kept)

    def _edges(self, how: HopDraws, frontier: Frontier, limits: Limits | None, hidden: Hidden | None) -> Drawn:
        """The edges drawn of a frontier; rows that must be looked through are taken in chunks."""
        walk = how.walk
        found = stretches(walk, frontier, limits)
        listed = _listed(walk, frontier, limits, hidden)
        if is_scored(how.drawing, walk):
            sizes = (found if how.kept is None else stretches(walk, frontier, None)).degrees
        else:
            sizes = torch.zeros_like(frontier.nodes) if listed is None else torch.where(listed, found.degrees, 0)
        parts = []
        for low, high in chunks(sizes, _LOOKED_THROUGH):
            part, some = frontier.part(low, high), found.part(low, high)
            if listed is not None:
                some = eligible_edges(walk, part, limits, hidden, some, listed[low:high])
            drawn = draw_edges(how, part, some)
            parts.append(drawn._replace(sides=drawn.sides + low))
        if len(parts) == 1:
            return parts[0]
        sides, positions = torch.cat([part.sides for part in parts]), torch.cat([part.positions for part in parts])
        return Drawn(sides, positions, _joined([part.weights for part in parts]))

    def _nothing(self) -> Hop:
        none = torch.empty(0, dtype=torch.int64, device=self.device)
        return Hop(none, none, none, none.to(torch.float64) if self.spec.drawing.method == "PRIORITY" else None)

    def _subgraph(self, growing: Growing, entered: tuple[Tensor, ...], met: list[dict[str, int]]) -> Subgraph:
        """What was drawn, as arrays where it lies in the host's memory."""
        edges, ends = {}, {}
        for relation, hops in growing.drawn.items():
            index = torch.stack(
                [torch.cat([part.neighbours for part in hops]), torch.cat([part.sides for part in hops])]
            )
            position, weight = _joined([part.positions for part in hops]), _joined([part.weights for part in hops])
            edges[relation] = Edges(_values(index), _values(position), _values(weight))
            ends[relation] = list(accumulate(part.positions.numel() for part in hops))
        return Subgraph(
            {name: _values(found.nodes) for name, found in growing.numbered.items()},
            tuple(
                tuple(edges[relation].block(relation, *ends[relation][hop : hop + 2]) for relation in self.relations)
                for hop in range(self.spec.hops)
            ),
            {name: tuple(after[name] - before[name] for before, after in pairwise(met)) for name in self.node_types},
            edges,
            tuple(map(_values, entered)),
            {name: _values(found.trees) for name, found in growing.numbered.items()} if self.spec.disjoint else None,
        )


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The parts one after another; nothing where there are none."""
    found = [part for part in parts if part is not None]
    return torch.cat(found) if found else None


def _values(tensor: Tensor | None) -> Ints:
    """The tensor, as an array where it lies in the host's memory."""
    return tensor.numpy() if tensor is not None and tensor.device.type == "cpu" else tensor


def _listed(walk: TorchWalk, frontier: Frontier, limits: Limits | None, hidden: Hidden | None) -> Tensor | None:
    """Whose rows are not told by stretches alone; None: nobody's."""
    if limits is not None and (walk.until is not None or walk.born is not None):
        return torch.ones_like(frontier.nodes, dtype=torch.bool)
    return None if hidden is None else hidden.may_meet(frontier)


def _room(device: torch.device) -> int | None:
    """The bytes that rows may take of a GPU's memory, a fifth of which stays free; None: what the host has."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return int(max(free - total // 5, 0))


def _check(view: GraphView, spec: SampleSpec) -> None:
    """Refuses seeds that the snapshot cannot have, and draws that would take too long."""
    if spec.seed_type not in view.node_counts:
        found = ", ".join(view.node_counts)
        raise ValueError(f"seeds of type {spec.seed_type!r} were asked, but the snapshot has: {found}")
    most = max((count for fanout in spec.fanouts for count in fanout.counts), default=0)
    if spec.refresh is not None and (size := spec.refresh.size(most)) > MOST:
        raise InputError(
            f"REFRESH with a FANOUT of {most} keeps rows of {size:,} edges, but WITH torch rows hold at most {MOST}; "
            "ask for a smaller FANOUT or AMPLIFY, or WITH numba",
            code="device",
        )
    if spec.drawing.method == "UNIFORM" and not spec.drawing.replace and not spec.drawing.weighted and most > MOST:
        raise InputError(
            f"a FANOUT of {most} was asked, but WITH torch draws at most {MOST} edges a node uniformly without "
            "replacement; ask for fewer or FULL, or WITH numba",
            code="device",
        )
