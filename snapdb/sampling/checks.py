"""Checks before a sampler or a walker is opened: the device, the seed type, and the type of ids."""

from __future__ import annotations

import importlib
import re

import numpy as np

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.types import SampleSpec

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


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
