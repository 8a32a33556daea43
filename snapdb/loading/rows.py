"""Rows of features as tensors: dense ones, and sparse ones as torch's CSR tensors."""

import warnings

import torch
from torch import Tensor

from snapdb.arrays import Array, Int64s
from snapdb.graph.features import SparseReader
from snapdb.graph.view import Feature
from snapdb.sampling.subgraph import Ints


def rows_of(feature: Feature, ids: Int64s) -> Tensor:
    """[n, width] the rows of ids in the feature's type; a sparse CSR tensor when the feature is sparse."""
    if not isinstance(feature, SparseReader):
        return tensor_of(feature.read(ids))
    csr = feature.read_sparse(ids)
    return _csr_tensor(*(torch.from_numpy(part) for part in csr), size=(len(ids), feature.shape[1]))


def _csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, *, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor of arrays that fit together, which is not checked again."""
    return torch.sparse_csr_tensor(indptr, indices, values, size=size, check_invariants=False)


def pinned(tensor: Tensor) -> Tensor:
    """The tensor in page-locked memory."""
    if tensor.layout != torch.sparse_csr:
        return tensor.pin_memory()
    return _csr_tensor(*(part.pin_memory() for part in parts(tensor)), size=(tensor.shape[0], tensor.shape[1]))


def parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that it is made of."""
    if tensor.layout != torch.sparse_csr:
        return (tensor,)
    return tensor.crow_indices(), tensor.col_indices(), tensor.values()


def placed(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; a copy from page-locked memory to a GPU is only started."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=tensor.is_pinned())


def ready(tensor: Tensor) -> Tensor:
    """The tensor in page-locked memory, or on the GPU where it is already."""
    return tensor if tensor.is_cuda else pinned(tensor)


def host(values: Ints) -> Array:
    """The values as an array; waits for a GPU that makes them."""
    found: Array = values.cpu().numpy() if isinstance(values, Tensor) else values
    return found


def tensor_of(values: Array | Tensor) -> Tensor:
    """The array as a tensor in the same memory, copied when it may not be written; a tensor as it is."""
    if isinstance(values, Tensor):
        return values
    return torch.from_numpy(values if values.flags.writeable else values.copy())


with warnings.catch_warnings():
    # Once a process torch warns that CSR tensors are new, and once that it does not check one that it is sent by
    # another process. Threads make batches, where warnings cannot be held back: so both are spent here.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0], torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 1))
