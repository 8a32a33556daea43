"""The choice of a sampler's back end: numba, or torch, which is imported only when it is used (docs/adr/0002)."""

import importlib

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.sampling.checks import check_device, check_ids
from snapdb.sampling.numba_backend import NumbaBackend
from snapdb.sampling.sampler import NeighborSampler
from snapdb.sampling.visits import NumbaVisits
from snapdb.types import SampleSpec


def open_sampler(view: GraphView, spec: SampleSpec) -> NeighborSampler:
    """Open a statement's sampler with its back end.

    A statement that does not specify a back end uses numba on the CPU. On a GPU it uses torch, or numba if the edges do
    not fit or a fanout is larger than torch supports. All back ends return the same batches.

    Raises:
        BindError: Two fanouts have the same key in a batch, or an edge type has no weights.
        CorruptError: A relation's rows or columns do not match its nodes.
        DataError: A weight is negative or not finite.
        InputError: The device does not exist, dense ids do not fit into the id type, or torch was requested but the
            edges do not fit or a fanout is too large.
        ValueError: A fanout is negative and not FULL, or the seed type is not in the snapshot.
    """
    device = "cpu" if spec.device is None else spec.device
    check_device(device)
    if spec.backend == "numba" or (spec.backend is None and device == "cpu"):
        return numba_sampler(view, spec)
    # Import the module on first use, because importing torch takes a second of CPU time and statements on the CPU do
    # not need it.
    module, name = ("torch_backend", "TorchBackend") if spec.visits is None else ("torch_visits", "TorchVisits")
    backend = getattr(importlib.import_module(f"snapdb.sampling.{module}"), name)
    try:
        return NeighborSampler(view, spec, backend(check_ids(view, spec), spec, device))
    except InputError as error:
        # The user requested torch, so falling back to numba would hide that the device is not used.
        if spec.backend == "torch":
            error.code = "device"
            raise
        return numba_sampler(view, spec)


def numba_sampler(view: GraphView, spec: SampleSpec) -> NeighborSampler:
    """Return the numba sampler for any statement. Raises the same errors as `open_sampler`."""
    backend = NumbaBackend if spec.visits is None else NumbaVisits
    return NeighborSampler(view, spec, backend(check_ids(view, spec), spec))
