"""Batch transfer to a device: resident features, and copies that overlap with training."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from snapdb.arrays import Int64s
from snapdb.errors import InputError
from snapdb.graph.features import SparseReader, TimedReader
from snapdb.graph.view import Feature, GraphView
from snapdb.loading.batch import Batch
from snapdb.loading.lazy import Held, parts, placed, ready, rows_of, tensor_of
from snapdb.loading.walk_batch import WalkBatch
from snapdb.memory import available_memory

_T = TypeVar("_T")
GatherZeroCopy = Callable[[Tensor, Tensor], Tensor]
"""`gather_zero_copy` of `snapdb.kernels.triton_gather`, which needs Triton."""
_CHUNK = 1 << 26
"""The number of bytes of a feature that are copied to the device at once."""


class SentBatch(NamedTuple):
    """A batch whose copy to the device has started."""

    batch: Batch | WalkBatch
    arrival: Any
    """The CUDA event after which its tensors are complete, or None if they are already complete."""


class _Residents:
    """The features that are resident on a device, or that the device can read from host memory.

    They are uploaded on the first read.
    """

    def __init__(
        self,
        features: Mapping[str, Mapping[str, Feature]],
        device: torch.device,
        room: int | None,
        zero_copy: GatherZeroCopy | None = None,
    ) -> None:
        """`room` is the number of bytes that features may use on the device. None leaves a fifth of its memory free.

        Features that do not fit are copied to page-locked memory, which the device reads with `zero_copy`. If
        `zero_copy` is None, threads read them instead.
        """
        self._features, self._device, self._room, self._zero_copy = features, device, room, zero_copy
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], Tensor] | None = None

    def gathered(self, kind: str, name: str, ids: Tensor) -> Tensor | None:
        """Return [n, width] rows of a feature on the device, or None if threads read it."""
        rows = self.rows(kind, name)
        if rows is None:
            return None
        if self._zero_copy is not None and rows.device != ids.device:
            return self._zero_copy(rows, ids)
        return rows.index_select(0, ids)

    def rows(self, kind: str, name: str) -> Tensor | None:
        """Return all rows of a feature if the device can read them, or None if threads read them."""
        with self._lock:  # the first thread uploads while the others wait
            if self._rows is None:
                self._rows = self._uploaded()
        return self._rows.get((kind, name))

    def _uploaded(self) -> dict[tuple[str, str], Tensor]:
        """Return the features that fit, in graph order: on the device, otherwise in page-locked memory."""
        uploaded, room = {}, _room(self._device) if self._room is None else self._room
        for kind, named in self._features.items():
            for name, feature in named.items():
                size = int(np.prod(feature.shape)) * feature.dtype.itemsize
                # The rows of a sparse feature differ in length, and the values of a history depend on the seed.
                if not size or isinstance(feature, SparseReader | TimedReader):
                    continue
                if size <= room:
                    uploaded[kind, name] = _upload(feature, device=self._device)
                    room -= size
                # Page-locked memory cannot be swapped out, so at most half of the free memory is used.
                elif self._zero_copy is not None and size <= available_memory() // 2:
                    uploaded[kind, name] = _upload(feature, pin_memory=True)
        return uploaded


class DeviceTransfer:
    """Copies batches to a device on a separate CUDA stream, concurrently with the consumer's kernels."""

    def __init__(
        self,
        device: torch.device,
        view: GraphView,
        node_types: tuple[str, ...] = (),
        room: int | None = None,
        *,
        zero_copy: bool = False,
    ) -> None:
        """`node_types` are the batches' node types. `room` is the number of bytes that resident features may use.

        If `zero_copy` is true, the device reads features that exceed its memory from page-locked memory.

        Raises:
            InputError: `zero_copy` requires a GPU and Triton, and one of them is missing.
        """
        self.device = device
        self._features = {name: view.node_features.get(name, {}) for name in node_types}
        gather = _zero_copy(device) if zero_copy else None
        self._residents = _Residents(self._features, device, room, gather)
        self._backend: Any = torch.get_device_module(device) if device.type in ("cpu", "cuda") else None
        # torch's CPU streams do nothing, so on the CPU the same code passes batches through.
        self._side: Any = None
        if self._backend is not None:
            self._side = self._backend.Stream(device) if device.type == "cuda" else self._backend.Stream()
            # The sampler's tensors were created on that stream.
            self._side.wait_stream(self._backend.current_stream(device))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run the block's kernels on the side stream, so that they do not delay the consumer's."""
        if self._backend is None:
            yield
            return
        with self._backend.stream(self._side):
            yield

    def rows(
        self, kind: str, name: str, feature: Feature, nodes: Callable[[], Int64s], before: Int64s | None
    ) -> Tensor | None:
        """Return [nodes, width] rows of a feature in host memory, or None if it is resident.

        `send` adds the rows of resident features.

        Args:
            kind: The node type.
            name: The feature's name.
            feature: The feature's reader.
            nodes: A function that returns the dense ids in host memory.
            before: [nodes] int64. For a feature with a history, the last value before this time is read.
        """
        if before is not None and isinstance(feature, TimedReader):
            return tensor_of(feature.read_before(nodes(), before))
        return rows_of(feature, nodes()) if self._residents.rows(kind, name) is None else None

    def pinned(self, batch: Batch | WalkBatch) -> Batch | WalkBatch:
        """Return the batch in the memory from which it is copied to the device: page-locked memory for a GPU."""
        # A copy from pageable memory blocks the thread. From page-locked memory, the GPU copies asynchronously (DMA).
        return batch.moved(ready) if self.device.type == "cuda" else batch

    def send(self, batch: Batch | WalkBatch) -> SentBatch:
        """Start the copy of a batch, with its resident features, to the device."""
        with self.working():
            there = batch if self.device.type == "cpu" else batch.moved(partial(placed, device=self.device))
            if isinstance(there, Batch):  # walks have no features
                there = replace(there, features=Held({kind: self._joined(there, kind) for kind in there.features}))
            if self._side is None:
                return SentBatch(there, None)
            arrival = self._backend.Event()
            arrival.record(self._side)
            return SentBatch(there, arrival)

    def receive(self, sent: SentBatch) -> Batch | WalkBatch:
        """Return the batch for the consumer's CUDA stream. Kernels launched on it from now on wait for the copy."""
        if sent.arrival is None:
            return sent.batch
        current = self._backend.current_stream(self.device)
        current.wait_event(sent.arrival)
        for tensor in sent.batch.tensors():
            for part in parts(tensor):
                # The tensor was allocated on the side stream. Prevent the allocator from reusing it before the
                # consumer's kernels have run.
                if part.is_cuda:
                    part.record_stream(current)
        return sent.batch

    def _joined(self, batch: Batch, kind: str) -> dict[str, Tensor]:
        """Return all features of a node type, in graph order."""
        features: Held[str, Tensor] = Held()
        for name in self._features.get(kind, batch.features[kind]):
            rows = self._residents.gathered(kind, name, batch.n_id[kind])
            features[name] = batch.features[kind][name] if rows is None else rows
        return features


def one_ahead(source: Iterator[_T]) -> Iterator[_T]:
    """Yield the same items, but start each item before yielding the previous one. Errors are raised in item order.

    >>> begun = []
    >>> items = one_ahead(begun.append(i) or i for i in range(3))
    >>> next(items), begun
    (0, [0, 1])
    """
    held = next(source, None)
    while held is not None:
        try:
            following = next(source, None)
        except Exception:
            yield held
            raise
        yield held
        held = following


def usable(name: str) -> torch.device:
    """Return the device with this name after checking that tensors can be allocated on it.

    Raises:
        ValueError: No device has this name.
        InputError: The device is not available.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"{name!r} is not a valid device; pass 'cpu', 'cuda' or 'cuda:1'") from error
    try:
        return torch.empty(0, device=device).device
    except (AssertionError, ImportError, RuntimeError) as error:
        # torch was built without the device, lacks its module, has no operators for it, or does not find one.
        reason = str(error).partition("\n")[0]
        raise InputError(f"device {name!r} is not available ({reason}); pass device='cpu'", code="device") from error


def _room(device: torch.device) -> int:
    """Return the bytes that resident features may use on a device."""
    if device.type != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info(device)
    # One fifth is reserved for the model, its gradients and the batches.
    return max(0, free - total // 5)


def _zero_copy(device: torch.device) -> GatherZeroCopy:
    """Return the kernel with which a GPU reads page-locked memory.

    Raises:
        InputError: The device is not a GPU, or Triton is not installed.
    """
    if device.type != "cuda":
        raise InputError(
            f"zero_copy is supported only for GPUs, but the device is {device.type!r}; leave it out, or pass "
            "device='cuda'",
            code="zero-copy",
        )
    try:
        module = importlib.import_module("snapdb.kernels.triton_gather")
    except ImportError as error:
        raise InputError(
            f"zero_copy needs Triton, which is not available ({error}); pip install triton, or leave it out",
            code="package-missing",
        ) from error
    gather: GatherZeroCopy = module.gather_zero_copy
    return gather


def _upload(feature: Feature, **place: Any) -> Tensor:
    """Return the whole feature as a tensor, copied in chunks because it may be larger than the host's free memory.

    Args:
        feature: The feature's reader.
        place: The destination as keyword arguments of torch.empty: `device` or `pin_memory`.
    """
    dtype = tensor_of(np.empty(0, feature.dtype)).dtype
    out = torch.empty(feature.shape, dtype=dtype, **place)
    step = max(1, _CHUNK // max(1, int(np.prod(feature.shape[1:])) * feature.dtype.itemsize))
    for start in range(0, feature.shape[0], step):
        stop = min(start + step, feature.shape[0])
        out[start:stop] = tensor_of(feature.read(np.arange(start, stop)))
    return out
