"""The sampler that a statement asks for: numba's, or torch's, which is imported only then (docs/adr/0002)."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.sampling.sampler import Sampler
from snapdb.types import SampleSpec

if TYPE_CHECKING:
    from snapdb.sampling.torch_sampler import TorchSampler


_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def open_sampler(view: GraphView, spec: SampleSpec) -> Sampler | TorchSampler:
    """The sampler of the statement's back end.

    One that names none gets numba on the CPU, and on a GPU torch, or numba where the edges do not fit or a fanout is
    more than torch draws: the batches are the same.

    Raises:
        BindError: two fanouts lead to the same key of a batch.
        CorruptError: a relation's rows are not those of its nodes.
        DataError: weights are not finite, or negative.
        InputError: the device is not here; WITH torch, the edges do not fit or it does not draw so many.
    """
    device = "cpu" if spec.device is None else spec.device
    _check_device(device)
    if spec.backend == "numba" or (spec.backend is None and device == "cpu"):
        return Sampler(view, spec)
    module = importlib.import_module("snapdb.sampling.torch_sampler")
    try:
        sampler: TorchSampler = module.TorchSampler(view, spec, device)
    except InputError as error:
        if spec.backend == "torch":
            error.code = "device"
            raise
        return Sampler(view, spec)
    return sampler


def _check_device(name: str) -> None:
    """Refuses what is not the name of a device, and GPUs that are not there."""
    if not _DEVICE.fullmatch(name):
        raise InputError(
            f"ON {name!r} is not the name of a device: say 'cpu', 'cuda', or 'cuda:1' for the second GPU", code="device"
        )
    if name == "cpu":
        return
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise InputError(
            f"ON {name!r} was asked, but torch {torch.__version__} finds no CUDA device here; "
            "leave ON out to sample on the CPU, or install a torch built for CUDA where there is a GPU",
            code="device",
        )
    found = torch.cuda.device_count()
    if ":" in name and int(name.partition(":")[2]) >= found:
        raise InputError(
            f"ON {name!r} was asked, but there are {found} CUDA devices: the last is 'cuda:{found - 1}'", code="device"
        )
