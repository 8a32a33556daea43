"""A batch's tensors: conversion, placement, and values that are read on first access."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import torch
from torch import Tensor

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError, SnapdbError
from snapdb.graph.features import SparseReader
from snapdb.graph.view import Feature
from snapdb.sampling.subgraph import Ints


def rows_of(feature: Feature, ids: Int64s) -> Tensor:
    """Return [n, width], the rows of `ids` in the feature's dtype. For a sparse feature, the result is a CSR tensor."""
    if not isinstance(feature, SparseReader):
        return tensor_of(feature.read(ids))
    csr = feature.read_sparse(ids)
    return _csr_tensor(*(torch.from_numpy(part) for part in csr), size=(len(ids), feature.shape[1]))


def _csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, *, size: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor from arrays that are known to be consistent, without checking them again."""
    return torch.sparse_csr_tensor(indptr, indices, values, size=size, check_invariants=False)


def pinned(tensor: Tensor) -> Tensor:
    """Return the tensor in page-locked memory."""
    if tensor.layout != torch.sparse_csr:
        return tensor.pin_memory()
    return _csr_tensor(*(part.pin_memory() for part in parts(tensor)), size=(tensor.shape[0], tensor.shape[1]))


def parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the dense tensors that a tensor consists of."""
    if tensor.layout != torch.sparse_csr:
        return (tensor,)
    return tensor.crow_indices(), tensor.col_indices(), tensor.values()


def placed(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device. A copy from page-locked memory to a GPU is asynchronous."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=tensor.is_pinned())


def ready(tensor: Tensor) -> Tensor:
    """Return the tensor in page-locked memory, or unchanged if it is already on the GPU."""
    return tensor if tensor.is_cuda else pinned(tensor)


def host(values: Ints) -> Array:
    """Return the values as a numpy array. Waits for the GPU that computes them."""
    found: Array = values.cpu().numpy() if isinstance(values, Tensor) else values
    return found


def tensor_of(values: Array | Tensor) -> Tensor:
    """Return the array as a tensor that shares its memory, or as a copy if the array is read-only.

    A tensor is returned unchanged.
    """
    if isinstance(values, Tensor):
        return values
    return torch.from_numpy(values if values.flags.writeable else values.copy())


with warnings.catch_warnings():
    # torch warns once per process that CSR tensors are in beta, and once that it does not check a tensor from another
    # process. Warning filters are not thread-safe, and batches are built on threads, so both warnings are triggered
    # here.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0], torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 1))


# A mapping whose values are read on first access and then cached.
_K = TypeVar("_K")
_V = TypeVar("_V")


class MissingEntryError(SnapdbError, KeyError):
    """A batch has no entry for a key. The message contains the reason and the available keys."""

    code = "missing"


class Held(dict[_K, _V]):
    """A dict whose error for a missing key lists the available keys.

    >>> Held(seven=7)["eight"]
    Traceback (most recent call last):
    snapdb.loading.lazy.MissingEntryError: 'eight' does not exist here; available: 'seven'
    """

    def __missing__(self, key: _K) -> _V:
        found = ", ".join(map(_plain, self)) or "none"
        raise MissingEntryError(f"{_plain(key)} does not exist here; available: {found}")


class Lazy(Mapping[_K, _V], Generic[_K, _V]):
    """A mapping whose values are read on first access. If two threads read a value, both get the same object.

    >>> numbers = Lazy({"seven": lambda: 7}, "only seven is kept here")
    >>> numbers["seven"], "eight" in numbers
    (7, False)
    """

    def __init__(self, readers: Mapping[_K, Callable[[], _V]], hint: str) -> None:
        """`hint` is the reason why a key can be missing, and the remedy."""
        self._readers = dict(readers)
        self._kept: dict[_K, _V] = {}
        self._hint = hint

    @staticmethod
    def of(values: Mapping[_K, _V], hint: str) -> Lazy[_K, _V]:
        """Return a mapping of known values."""
        return Lazy({key: _Value(value) for key, value in values.items()}, hint)

    def __getitem__(self, key: _K) -> _V:
        if key in self._kept:
            return self._kept[key]
        if key not in self._readers:
            found = ", ".join(map(_plain, self._readers)) or "none"
            raise MissingEntryError(f"{_plain(key)} does not exist here; available: {found}; {self._hint}")
        # No lock is needed: readers are pure, and setdefault is atomic, so all threads get the first value.
        return self._kept.setdefault(key, self._readers[key]())

    def __contains__(self, key: object) -> bool:
        return key in self._readers

    def __iter__(self) -> Iterator[_K]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __repr__(self) -> str:
        return f"Lazy({', '.join(map(_plain, self._readers))})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as values, because another machine may not have the files.

        A value that cannot be read is pickled as its error.
        """
        return Lazy, ({key: _read(self, key) for key in self}, self._hint)

    def known(self, key: _K) -> _V | None:
        """Return the value of a key if it has already been read, otherwise None. The value is never read here."""
        return self._kept.get(key)

    def changed(self, change: Callable[[_V], _V]) -> Lazy[_K, _V]:
        """Return the same mapping with `change` applied to each value when it is read."""
        return Lazy({key: _Changed(self, key, change) for key in self}, self._hint)


def moved_values(values: Mapping[_K, _V], move: Callable[[_V], _V]) -> Mapping[_K, _V]:
    """Return the mapping with `move` applied to each value, or when it is read if the mapping is lazy.

    >>> dict(moved_values(Held({"a": 1}), lambda value: value + 1))
    {'a': 2}
    """
    if isinstance(values, Lazy):
        return values.changed(move)
    return Held({key: move(value) for key, value in values.items()})


def _read(values: Lazy[_K, _V], key: _K) -> Callable[[], _V]:
    """Return a reader that returns the value or raises the error that occurred when it was read."""
    try:
        return _Value(values[key])
    except CorruptError as error:
        return _Unread(error)


class _Unread(Generic[_V]):
    """Raises the error from reading a value. Pickling does not raise it, because the value may never be used."""

    def __init__(self, error: CorruptError) -> None:
        self.error = error

    def __call__(self) -> _V:
        raise self.error


class _Changed(Generic[_K, _V]):
    """A callable that reads a value and changes it."""

    def __init__(self, origin: Lazy[_K, _V], key: _K, change: Callable[[_V], _V]) -> None:
        self.origin, self.key, self.change = origin, key, change

    def __call__(self) -> _V:
        return self.change(self.origin[self.key])


class _Value(Generic[_V]):
    """A callable that returns a known value."""

    def __init__(self, value: _V) -> None:
        self.value = value

    def __call__(self) -> _V:
        return self.value


def _plain(key: object) -> str:
    """Return a key as the user would write it."""
    return repr(tuple(key)) if isinstance(key, tuple) else repr(key)
