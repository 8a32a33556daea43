"""The torch back end of walks: operators over all walks of a batch, on any device, step by step.

Positions refer to the flat rows of its traversals' adjacency. Values read by position equal those of numba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from snapdb.arrays import UInt64s
from snapdb.graph.view import GraphView
from snapdb.kernels.rng import Domain, fold_parts
from snapdb.kernels.torch_ops import below, chunks, draw, fold, heavy, lower_bound, signed, spread, unsigned_order
from snapdb.kernels.walks.problem import BACKWARD, FIRST_TIME, FORWARD, LAST_TIME, UNTIMED, WalkRule
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Ints, SamplerInput
from snapdb.sampling.torch_backend import room_on
from snapdb.sampling.torch_eligible import Eligible, Frontier, Limits, eligible_edges, stretches
from snapdb.sampling.torch_traversals import TorchTraversal, open_torch_traversals, tensor_on
from snapdb.sampling.walks import Walks, needs_times, node_numbers, walk_of, walk_rule
from snapdb.types import SampleSpec

_ALWAYS = -(2**63)
"""The event time that represents static edges."""


_LOOKED_THROUGH = 1 << 24
"""The number of edges per chunk when whole rows are read. It bounds memory."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One relation of the metapath, prepared for walks."""

    traversal: TorchTraversal
    rule: WalkRule
    second_order: bool


class _Walking(NamedTuple):
    """The walks that take a step: all that have not ended and do not restart."""

    walks: Tensor
    """The number of each walk."""
    keys: Tensor
    """The key of each step."""
    frontier: Frontier
    """The vertex and the seed of each walk."""
    before: Tensor
    """The previous vertex, or -1."""

    def part(self, which: Tensor | slice) -> _Walking:
        """Return the walks of a mask or of indices."""
        frontier = Frontier(self.frontier.nodes[which], self.frontier.trees[which])
        return _Walking(self.walks[which], self.keys[which], frontier, self.before[which])


class TorchWalker:
    """The relations of a metapath as tensors on one device."""

    def __init__(self, view: GraphView, spec: SampleSpec, device: str = "cpu", room: int | None = None) -> None:
        """Copy the rows of the relations to the device. Raises the same errors as `open_walker`.

        Args:
            view: The snapshot.
            spec: The statement.
            device: The name of the device.
            room: The bytes that rows may use on the device. None leaves a fifth of a GPU's memory free.
        """
        self.device = torch.device(device)
        self._spec, self._walk = spec, walk_of(spec)
        opened = open_torch_traversals(view, spec, self.device, room_on(self.device) if room is None else room)
        self.traversals = tuple(self._with_times(traversal) for traversal in opened)
        steps = {
            traversal.relation: _Step(
                traversal,
                walk_rule(self._walk, spec, traversal.relation, view.node_counts[traversal.relation.reaches]),
                self._walk.second_order,
            )
            for traversal in self.traversals
        }
        self._steps = [steps[relation] for relation in self._walk.steps]
        self._numbers = None
        if self._walk.window is not None:
            self._numbers = [tensor_on(values, self.device) for values in node_numbers(view, spec)]

    def _with_times(self, traversal: TorchTraversal) -> TorchTraversal:
        """Return the traversal with event times if only the clock needs them."""
        time = traversal.adjacency.time
        if traversal.time is not None or time is None or not needs_times(self._spec):
            return traversal
        return replace(traversal, time=tensor_on(time.base, self.device))

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def scratch(self) -> Scratch:
        """Return empty scratch memory, because torch allocates the memory that a batch needs."""
        return Scratch({})

    def sample(self, entry: SamplerInput, number: int, scratch: Any, words: UInt64s | None = None) -> Walks:
        """Return the walks of a batch, as tensors on a GPU, or as arrays in host memory.

        `words` contains the key of each walk if it is not that of WALK.
        """
        walk, per_seed = self._walk, self._walk.per_seed
        ids = tensor_on(entry.groups[0].ids, self.device).to(torch.int64)
        trees = torch.arange(ids.numel(), device=self.device).repeat_interleave(per_seed)
        nodes = torch.full((trees.numel(), walk.length + 1), -1, dtype=torch.int64, device=self.device)
        positions = torch.full_like(nodes[:, 1:], -1)
        nodes[:, 0] = ids[trees]
        limits = Limits.of(entry, self._spec.temporal, self.device)
        bounds = torch.full_like(trees, FIRST_TIME), torch.full_like(trees, LAST_TIME)
        keys = self._keys(entry, Domain.WALK, number) if words is None else tensor_on(words.view(np.int64), self.device)
        for i in range(walk.length):
            step = self._steps[i % len(self._steps)]
            here = nodes[:, i]
            before = torch.where(positions[:, i - 1] >= 0, nodes[:, i - 1], -1) if i else torch.full_like(here, -1)
            own, going = fold(keys, torch.tensor(i, device=self.device)), here >= 0
            if step.rule.restart:
                again = going & _restarts(step.rule, own)
                nodes[:, i + 1] = torch.where(again, nodes[:, 0], -1)
                bounds = torch.where(again, FIRST_TIME, bounds[0]), torch.where(again, LAST_TIME, bounds[1])
                going &= ~again
            walks = going.nonzero().squeeze(1)
            walking = _Walking(walks, own[walks], Frontier(here[walks], trees[walks]), before[walks])
            parts = chunks(_reads(step, walking), _LOOKED_THROUGH)
            position = torch.cat([_choose(step, walking.part(slice(*part)), limits, bounds) for part in parts])
            taken = position >= 0
            walks, position = walks[taken], position[taken]
            positions[walks, i] = position
            nodes[walks, i + 1] = step.traversal.indices[position].to(torch.int64)
            _tick(step, walks, position, bounds)
        return self._with_pairs(Walks(nodes, positions), entry, number, limits)

    def _keys(self, entry: SamplerInput, domain: Domain, number: int) -> Tensor:
        """Return [walks], the keys of all walks for a purpose."""
        prefix = signed(int(fold_parts(self._spec.seed, domain, number)))
        of_seeds = fold(prefix, tensor_on(entry.ordinals, self.device).to(torch.int64))
        return fold(of_seeds[:, None], torch.arange(self._walk.per_seed, device=self.device)).reshape(-1)

    def _with_pairs(self, walks: Walks, entry: SamplerInput, number: int, limits: Limits | None) -> Walks:
        """Return the walks with their skip-gram pairs and negatives, if the statement requests them."""
        walk, nodes = self._walk, walks.nodes
        if self._numbers is None or walk.window is None:
            return Walks(_values(nodes), _values(walks.position))
        types, offsets, starts, counts, ids, born = self._numbers
        columns = torch.arange(walk.length + 1, device=self.device)
        apart = (columns[:, None] - columns).abs()
        inside = (apart > 0) & (apart <= walk.window) & (nodes >= 0)[:, :, None] & (nodes >= 0)[:, None, :]
        which, i, j = inside.nonzero(as_tuple=True)  # in row-major order: by walk, center and context
        pairs = torch.stack((offsets[types[i]] + nodes[which, i], offsets[types[j]] + nodes[which, j]))
        if not walk.negatives:
            return Walks(_values(nodes), _values(walks.position), _values(pairs))
        keys = fold(self._keys(entry, Domain.PAIR, number)[which], i * (walk.length + 1) + j)
        kind = types[j]
        start, count = starts[kind], counts[kind]
        if limits is not None and born.numel():
            high = limits.high[which // walk.per_seed]
            first = start.clamp(min=0)
            stop = lower_bound(born, first, first + count, high, int(counts.max()).bit_length())
            count = torch.where(start >= 0, stop - first, count)
        rank = below(draw(keys[:, None], torch.arange(walk.negatives, device=self.device)), count.clamp(min=1)[:, None])
        drawn = rank
        if ids.numel():
            listed = ids[(start[:, None] + rank).clamp(min=0, max=ids.numel() - 1)]
            drawn = torch.where(start[:, None] >= 0, listed, rank)
        negatives = torch.where(count[:, None] > 0, offsets[kind][:, None] + drawn, -1)
        return Walks(_values(nodes), _values(walks.position), _values(pairs), _values(negatives))


def _values(tensor: Tensor) -> Ints:
    """Return the tensor, or a numpy array that shares its memory if that is host memory."""
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def _reads(step: _Step, walking: _Walking) -> Tensor:
    """Return the number of edges that each step may read."""
    indptr, reads = step.traversal.indptr, torch.ones_like(walking.walks)
    listed = (step.traversal.weight, step.traversal.until, step.traversal.born)
    for nodes, whole in (
        (walking.frontier.nodes, any(column is not None for column in listed)),
        (walking.before.clamp(min=0), step.second_order),
    ):
        if whole:
            reads += indptr[nodes + 1] - indptr[nodes]
    return reads


def _restarts(rule: WalkRule, keys: Tensor) -> Tensor:
    """Return a mask of the steps that go to the seed."""
    share = torch.full_like(keys, int(rule.restart_of))
    return below(draw(keys, 0), share) < int(rule.restart)


def _tick(step: _Step, walks: Tensor, position: Tensor, bounds: tuple[Tensor, Tensor]) -> None:
    """Move the clocks of the walks that took an edge with a time."""
    rule, times = step.rule, step.traversal.time
    if rule.clock == UNTIMED or times is None:
        return
    time = times[position]
    dated = time != _ALWAYS
    walks, time = walks[dated], time[dated]
    if rule.clock == FORWARD:
        bounds[0][walks] = time + int(rule.strict)
    if rule.clock == BACKWARD:
        bounds[1][walks] = time + int(not rule.strict)


def _limits(step: _Step, walking: _Walking, limits: Limits | None, bounds: tuple[Tensor, Tensor]) -> Limits | None:
    """Return the time bounds of each walk's step, by its seed and its clock."""
    trees, walks = walking.frontier.trees, walking.walks
    if limits is None and step.rule.clock == UNTIMED:
        return None
    low, high = torch.full_like(walks, FIRST_TIME), torch.full_like(walks, LAST_TIME)
    after = low
    if limits is not None:
        high, after = limits.high[trees], limits.after[trees]
        # An edge with an end can start before the seed's bound.
        low = low if step.traversal.until is not None else limits.low[trees]
    if step.rule.clock != UNTIMED:
        low, high = torch.maximum(low, bounds[0][walks]), torch.minimum(high, bounds[1][walks])
    return Limits(low, high, after, low, walks)


def _eligible(step: _Step, walking: _Walking, limits: Limits | None, bounds: tuple[Tensor, Tensor]) -> Eligible:
    """Return the eligible edges of each walk's step, except that weights are not considered."""
    traversal, frontier = step.traversal, walking.frontier
    own = _limits(step, walking, limits, bounds)
    slots = torch.arange(walking.walks.numel(), device=walking.walks.device)
    # The lower bound of the clock applies to edges with ends too, so `stretches` gets a relation without ends.
    eligible = stretches(replace(traversal, until=None), Frontier(frontier.nodes, slots), own)
    if limits is None or (traversal.until is None and traversal.born is None):
        return eligible
    every = torch.ones_like(slots, dtype=torch.bool)
    return eligible_edges(traversal, frontier, limits, None, eligible, every)


class _Sums(NamedTuple):
    """The prefix sums of the weights of the steps' eligible edges."""

    upto: Tensor
    """[edges + 1] the sums over all rows, because rows are adjacent."""
    first: Tensor
    """[steps] the index of each row's first edge in `upto`."""
    total: Tensor
    """[steps] the sum of each row."""


def _sums(traversal: TorchTraversal, eligible: Eligible) -> _Sums:
    """Return the prefix sums of each row's weights, in units of 2^-32 of the row's largest weight."""
    assert traversal.weight is not None
    counts = eligible.degrees
    rows, ranks = spread(counts)
    weights = traversal.weight[eligible.positions(rows, ranks)]
    most = torch.zeros(counts.shape, dtype=torch.float64, device=counts.device)
    most = most.scatter_reduce(0, rows, weights, "amax")
    upto = torch.nn.functional.pad(heavy(weights, most[rows]).cumsum(0), (1, 0))
    ends = counts.cumsum(0)
    return _Sums(upto, ends - counts, upto[ends] - upto[ends - counts])


# Rejection sampling over all walks at once: each round draws one candidate for each walk that has none, so the number
# of rounds is the largest number of attempts of a walk.
def _choose(step: _Step, walking: _Walking, limits: Limits | None, bounds: tuple[Tensor, Tensor]) -> Tensor:
    """Return the position of the edge that each walk takes, or -1 if it has no eligible edge."""
    traversal = step.traversal
    eligible = _eligible(step, walking, limits, bounds)
    sums = None if traversal.weight is None else _sums(traversal, eligible)
    some = eligible.degrees > 0 if sums is None else sums.total > 0
    positions = torch.full_like(walking.walks, -1)
    left, attempt = some.nonzero().squeeze(1), 0
    known = _known(step, walking, limits) if step.second_order else None
    while left.numel():
        bits = draw(walking.keys[left], 2 * attempt + 1)
        if sums is None:
            ranks = below(bits, eligible.degrees[left])
        else:
            first = sums.first[left]
            bar = sums.upto[first] + below(bits, sums.total[left])
            ranks = torch.searchsorted(sums.upto[1:], bar, right=True) - first
        candidates = eligible.positions(left, ranks)
        taken = torch.ones_like(left, dtype=torch.bool)
        if known is not None:
            taken = _accepted(step, walking.part(left), candidates, attempt, left, known)
        positions[left[taken]] = candidates[taken]
        left, attempt = left[~taken], attempt + 1
    return positions


def _accepted(
    step: _Step,
    walking: _Walking,
    candidates: Tensor,
    attempt: int,
    steps: Tensor,
    known: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return a mask of the accepted candidates of `steps`. `known` is the function that `_known` returns."""
    rule = step.rule
    bits = unsigned_order(draw(walking.keys, 2 * attempt + 2))
    far = step.traversal.indices[candidates].to(torch.int64)
    back, near, other = (_unsigned(int(limit)) for limit in (rule.back, rule.near, rule.far))
    limit = torch.where(known(steps, far), near, other)
    limit = torch.where(far == walking.before, back, limit)
    return (walking.before < 0) | (bits <= limit)


def _unsigned(word: int) -> int:
    """Return the number whose order among `unsigned_order` is that of a uint64."""
    return word - 2**63


def _known(step: _Step, walking: _Walking, limits: Limits | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that finds the vertices to which the previous vertices of steps have edges.

    The edges are those within the seeds' time bounds. The function takes steps and one vertex for each.
    """
    traversal = step.traversal
    frontier = Frontier(walking.before.clamp(min=0), walking.frontier.trees)
    eligible = stretches(traversal, frontier, limits)
    if limits is not None and (traversal.until is not None or traversal.born is not None):
        every = torch.ones_like(walking.before, dtype=torch.bool)
        eligible = eligible_edges(traversal, frontier, limits, None, eligible, every)
    counts = torch.where(walking.before >= 0, eligible.degrees, 0)
    rows, ranks = spread(counts)
    # All pairs of a step and a neighbour as one sorted list. A pair is one number, so that a search finds it.
    base = int(step.rule.reached)
    pairs, _ = (rows * base + traversal.indices[eligible.positions(rows, ranks)]).sort()

    def known(steps: Tensor, far: Tensor) -> Tensor:
        if not pairs.numel():
            return torch.zeros_like(far, dtype=torch.bool)
        wanted = steps * base + far
        return pairs[torch.searchsorted(pairs, wanted).clamp(max=pairs.numel() - 1)] == wanted

    return known
