"""The random walker: walks from the seeds of a batch, step by step over the relations of the metapath.

The back ends return the same walks, bit for bit (docs/adr/0017).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.sampling.backends import check_device, check_ids
from snapdb.sampling.numba_walker import NumbaWalker
from snapdb.sampling.sampler import RelationTraversal
from snapdb.sampling.subgraph import SamplerInput
from snapdb.sampling.walks import Walks, walk_of
from snapdb.types import SampleSpec


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
