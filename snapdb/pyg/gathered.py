"""Tensors whose rows PyG asks of torch.index_select and gets from snapdb's gather, in a fraction of the time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from snapdb.kernels.gather import gather
from snapdb.loading.rows import tensor_of

KNOWN = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    }
)
"""Types that numpy has too."""


class Gathered(Tensor):
    """A view of a tensor that takes rows as batches of a stream do: on one thread, into memory that goes round.

    >>> rows = torch.tensor([[1.0], [2.0], [3.0]]).as_subclass(Gathered)
    >>> torch.index_select(rows, 0, torch.tensor([2, 0]))
    tensor([[3.],
            [1.]])
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # By name, because PyG puts a function of its own in the place of torch.index_select.
        if func.__name__ == "index_select" and len(args) == 3:
            return _taken(*args)
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


def gathering(data: Data | HeteroData) -> Data | HeteroData:
    """The same data, whose columns of nodes and of edges are gathered from, where their rows lie one after another."""
    view = copy.copy(data)
    for stores, told in ((view.node_stores, "is_node_attr"), (view.edge_stores, "is_edge_attr")):
        for store in stores:
            for name, value in list(store.items()):
                # Of edge_index PyG takes no rows.
                if name != "edge_index" and _lies_in_rows(value) and getattr(store, told)(name):
                    store[name] = value.as_subclass(Gathered)
    return view


def _lies_in_rows(value: Any) -> bool:
    """Whether numpy can read its rows."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type != "cpu":
        return False
    return value.is_contiguous() and not value.requires_grad and value.dtype in KNOWN


def _taken(values: Tensor, dim: int, index: Tensor) -> Tensor:
    plain = values.as_subclass(Tensor)
    return tensor_of(gather(plain.numpy(), index.numpy())) if dim == 0 else torch.index_select(plain, dim, index)
