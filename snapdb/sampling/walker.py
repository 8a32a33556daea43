"""The random walker: walks from the seeds of a batch, step by step over the relations of the metapath.

The back ends return the same walks, bit for bit (docs/adr/0017).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from snapdb.arrays import Int64s
from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.kernels.rng import Domain, fold_parts
from snapdb.kernels.walks import biased
from snapdb.kernels.walks.biased import walk_biased
from snapdb.kernels.walks.neighbors import neighbor_sets
from snapdb.kernels.walks.plain import walk_uniform
from snapdb.kernels.walks.problem import BACKWARD, FORWARD, UNTIMED, WalkArrays, WalkRule, key_walks, largest_draw
from snapdb.sampling.backends import check_device, check_ids
from snapdb.sampling.sampler import RelationTraversal
from snapdb.sampling.subgraph import Ints, SamplerInput
from snapdb.sampling.traversals import Traversal, damaged, open_traversals
from snapdb.types import RandomWalk, SampleSpec

_CLOCKS = {"any": UNTIMED, "forward": FORWARD, "backward": BACKWARD}


@dataclass(frozen=True, slots=True)
class Walks:
    """The random walks of a batch, as arrays, or as tensors on a GPU. Row s * k + j is walk j of seed s."""

    nodes: Ints
    """[walks, length + 1] The vertices of each walk as dense ids, from the seed. -1 from where a walk cannot
    continue."""
    position: Ints
    """[walks, length] The position of each step's edge in its relation's Adjacency. -1 if a step has no edge: it
    restarts at the seed, or the walk has ended."""
    pairs: Ints | None = None
    """[2, pairs] The skip-gram pairs: node numbers of centers and of contexts. None without WINDOW."""
    negatives: Ints | None = None
    """[pairs, n] The node numbers of the negatives of each pair, or -1 if there is none. None without NEGATIVES."""


class WalkerBackend(Protocol):
    """Opened relations and the code that walks over them. Threads can share it."""

    @property
    def on_gpu(self) -> bool: ...
    @property
    def traversals(self) -> Sequence[RelationTraversal]:
        """The relations of the metapath, in sampling order."""

    def scratch(self) -> Any:
        """Return scratch memory for one thread."""

    def sample(self, entry: SamplerInput, number: int, scratch: Any) -> Walks:
        """Return the walks of a checked input."""


class Walker:
    """Walks from seeds in one snapshot. Threads can share it, each with separate scratch memory.

    A batch is a pure function of the statement, the batch number and the input.
    """

    def __init__(self, view: GraphView, spec: SampleSpec, backend: WalkerBackend) -> None:
        walk = walk_of(spec)
        self.spec, self.backend, self.traversals = spec, backend, backend.traversals
        self.relations = tuple(traversal.relation for traversal in self.traversals)
        reached = [name for relation in self.relations for name in (relation.expands, relation.reaches)]
        self.node_types = tuple(dict.fromkeys([*walk.vertex_types, *reached]))
        """The vertex types of the walks by first appearance, then the other types of the metapath."""
        self._seeds = view.node_counts[spec.seed_type]

    @property
    def on_gpu(self) -> bool:
        """Whether walks are on a GPU."""
        return self.backend.on_gpu

    def scratch(self) -> Any:
        """Return scratch memory for one thread."""
        return self.backend.scratch()

    def sample(self, entry: SamplerInput, number: int, scratch: Any) -> Walks:
        """Return the walks of an input, as arrays, or as tensors on a GPU.

        Args:
            entry: The seeds of the batch.
            number: The global batch number.
            scratch: The calling thread's scratch memory. Its contents never change a batch.

        Raises:
            CorruptError: A row extends beyond its arrays.
            IndexError: An id of the input is not in the snapshot.
            ValueError: The statement has a time bound, but the seeds have no times.
        """
        ids = entry.groups[0].ids
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self._seeds:
            raise IndexError(
                f"dense ids of seeds must be 0 ≤ id < {self._seeds}, found {int(ids.min())} to {int(ids.max())}"
            )
        return self.backend.sample(entry, number, scratch)


def open_walker(view: GraphView, spec: SampleSpec) -> Walker:
    """Open a WALK statement with its back end.

    A statement that does not specify a back end uses numba on the CPU. On a GPU it uses torch, or numba if the edges do
    not fit. All back ends return the same walks.

    Raises:
        BindError: An edge type has no weights.
        CorruptError: A relation's rows or columns do not match its nodes.
        DataError: A weight is negative or not finite.
        InputError: The device does not exist, dense ids do not fit into the id type, or torch was requested but the
            edges do not fit.
        ValueError: The seed type is not in the snapshot.
    """
    device = "cpu" if spec.device is None else spec.device
    check_device(device)
    view = check_ids(view, spec)
    if spec.backend == "numba" or (spec.backend is None and device == "cpu"):
        return Walker(view, spec, NumbaWalker(view, spec))
    module = importlib.import_module("snapdb.sampling.torch_walker")  # on first use, as in `open_sampler`
    try:
        return Walker(view, spec, module.TorchWalker(view, spec, device))
    except InputError as error:
        if spec.backend == "torch":  # falling back to numba would hide that the device is not used
            error.code = "device"
            raise
        return Walker(view, spec, NumbaWalker(view, spec))


def walk_of(spec: SampleSpec) -> RandomWalk:
    """Return the clauses of WALK. Raises ValueError for a SAMPLE statement."""
    if spec.walk is None:
        raise ValueError("a walker needs a WALK statement")
    return spec.walk


class WalkScratch:
    """The scratch memory of one thread for any number of batches."""

    def __init__(self) -> None:
        self.steps: Int64s = np.empty((biased.BLOCK, biased.STEP_FIELDS), np.int64)
        self.step_keys = np.empty(biased.BLOCK, np.uint64)


class NumbaWalker:
    """The relations of a metapath as the arrays that kernels read."""

    on_gpu = False

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Open the relations. Raises the same errors as `open_walker`."""
        self._spec, self._walk = spec, walk_of(spec)
        self.traversals: tuple[Traversal, ...] = open_traversals(view, spec)
        by_relation = {traversal.relation: traversal for traversal in self.traversals}
        self._steps = [by_relation[relation] for relation in self._walk.steps]
        self._rules = [_rule(self._walk, spec, traversal, view.node_counts) for traversal in self._steps]
        self._sets = neighbor_sets(self._steps[0].arrays.rows) if self._walk.second_order else None

    def scratch(self) -> WalkScratch:
        """Return empty scratch memory, which grows with the longest row."""
        return WalkScratch()

    def sample(self, entry: SamplerInput, number: int, scratch: WalkScratch) -> Walks:
        """Return the walks of a batch."""
        walks, walk = self._begin(entry, number), self._walk
        # A metapath of one relation takes all steps in one call, so that a block of walks stays in the CPU cache.
        stride = walk.length if len(self._steps) == 1 else 1
        for first in range(0, walk.length, stride):
            traversal, rule = self._steps[first % len(self._steps)], self._rules[first % len(self._steps)]
            rows, last = traversal.arrays.rows, first + stride
            if self._sets is not None:
                sound = walk_biased(rows, self._sets, rule, walks, first, last, scratch.steps, scratch.step_keys)
            else:
                sound = walk_uniform(rows, rule, walks, first, last)
            if not sound:
                raise damaged(traversal.relation)
        return Walks(walks.nodes, walks.positions)

    def _begin(self, entry: SamplerInput, number: int) -> WalkArrays:
        """Return the walks before their first steps."""
        walk, ids = self._walk, entry.groups[0].ids
        count = ids.size * walk.per_seed
        nodes = buffers.empty((count, walk.length + 1), np.int64)
        positions = buffers.empty((count, walk.length), np.int64)
        nodes[:, 0] = np.repeat(ids, walk.per_seed)
        keys = np.empty(count, np.uint64)
        prefix = np.array([fold_parts(self._spec.seed, Domain.WALK, number)], np.uint64)
        key_walks(prefix, np.array(entry.ordinals, np.int64), walk.per_seed, keys)
        none: Int64s = np.empty(0, np.int64)
        return WalkArrays(nodes, positions, keys, none, none)


def _rule(walk: RandomWalk, spec: SampleSpec, traversal: Traversal, node_counts: Mapping[str, int]) -> WalkRule:
    """Return the rule of the steps over one relation."""
    reaches = traversal.relation.reaches
    restart = walk.restart.numerator if reaches == spec.seed_type else 0
    back, near, far = (largest_draw(weight, max(walk.biases)) for weight in walk.biases)
    return WalkRule(
        node_counts[reaches],
        np.uint64(restart),
        np.uint64(walk.restart.denominator),
        back,
        near,
        far,
        _CLOCKS[walk.clock],
        walk.strict,
    )
