"""The choice of a sampler's back end: numba, or torch, which is imported only when it is used (docs/adr/0002)."""

import importlib
import re

import numpy as np

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.sampling.numba_backend import NumbaBackend
from snapdb.sampling.sampler import NeighborSampler
from snapdb.types import SampleSpec

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


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
    module = importlib.import_module("snapdb.sampling.torch_backend")
    try:
        return NeighborSampler(view, spec, module.TorchBackend(check_ids(view, spec), spec, device))
    except InputError as error:
        # The user requested torch, so falling back to numba would hide that the device is not used.
        if spec.backend == "torch":
            error.code = "device"
            raise
        return numba_sampler(view, spec)


def numba_sampler(view: GraphView, spec: SampleSpec) -> NeighborSampler:
    """Return the numba sampler for any statement. Raises the same errors as `open_sampler`."""
    return NeighborSampler(view, spec, NumbaBackend(check_ids(view, spec), spec))


def check_ids(view: GraphView, spec: SampleSpec) -> GraphView:
    """Return the view after checking that it has the seed type and that its dense ids fit into the id type."""
    if spec.seed_type not in view.node_counts:
        found = ", ".join(view.node_counts)
        raise ValueError(f"seed type {spec.seed_type!r} does not exist; the snapshot has: {found}")
    ends = [name for fanout in spec.fanouts for name in (fanout.edge.source, fanout.edge.destination)]
    most = np.iinfo(spec.ids).max
    for name in dict.fromkeys([spec.seed_type, *ends]):
        if (count := view.node_counts.get(name, 0)) > most:
            raise InputError(
                f"the maximum of {spec.ids} ids is {most:,}, but vertex type {name} has {count:,} vertices; leave "
                "ids out "
                "to use int64",
                code="id-type",
            )
    return view


def check_device(name: str) -> None:
    """Raise InputError if the name is not a device name, or if the GPU does not exist."""
    if not _DEVICE.fullmatch(name):
        raise InputError(
            f"ON {name!r} is not a valid device; write 'cpu', 'cuda', or 'cuda:1' for the second GPU", code="device"
        )
    if name == "cpu":
        return
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise InputError(
            f"ON {name!r} is not available, because torch {torch.__version__} finds no CUDA device; "
            "leave ON out to sample on the CPU, or install a torch built for CUDA on a machine with a GPU",
            code="device",
        )
    found = torch.cuda.device_count()
    if ":" in name and int(name.partition(":")[2]) >= found:
        raise InputError(
            f"ON {name!r} does not exist: there are {found} CUDA devices, and the last one is 'cuda:{found - 1}'",
            code="device",
        )
