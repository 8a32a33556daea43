"""Rows of features as tensors: dense ones, and sparse ones as torch's CSR tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from snapdb.graph.features import SparseReader
from snapdb.graph.view import Feature

__all__ = ["csr_tensor", "pinned", "rows_of", "tensor_of"]


def rows_of(feature: Feature, ids: npt.NDArray[np.int64]) -> Tensor:
    """[n, width] the rows of ids in the feature's type; a sparse CSR tensor when the feature is sparse."""
    if not isinstance(feature, SparseReader):
        return tensor_of(feature.read(ids))
    csr = feature.read_sparse(ids)
    parts = (torch.from_numpy(part) for part in csr)
    return csr_tensor(*parts, size=(len(ids), feature.shape[1]))


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, *, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor of arrays that fit together, which is not checked again."""
    return torch.sparse_csr_tensor(indptr, indices, values, size=size, check_invariants=False)


def pinned(tensor: Tensor) -> Tensor:
    """The tensor in page-locked memory."""
    if tensor.layout != torch.sparse_csr:
        return tensor.pin_memory()
    parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    return csr_tensor(*(part.pin_memory() for part in parts), size=(tensor.shape[0], tensor.shape[1]))


def tensor_of(values: npt.NDArray[Any]) -> Tensor:
    """The array as a tensor in the same memory; copied when it may not be written."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())


with warnings.catch_warnings():
    # Once a process torch warns that CSR tensors are new, and once that it does not check one that it is sent by
    # another process. Threads make batches, where warnings cannot be held back: so both are spent here.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0], torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 1))
