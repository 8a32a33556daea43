"""The same small graphs and loaders for snapdb.pyg and PyG. As a program, it prints PyG's batch fields as JSON.

It does not import snapdb, so that it can run in PyG's own environment.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NegativeSampling

BOUGHT = ("customer", "bought", "product")
BACK = ("product", "rev_bought", "customer")


def homogeneous() -> Any:
    """Return a graph with one node type and a column of every kind."""
    draw = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(60, 4, generator=draw),
        y=torch.arange(60) % 3,
        edge_index=torch.randint(0, 60, (2, 500), generator=draw),
        edge_attr=torch.rand(500, 2, generator=draw),
        train_mask=torch.arange(60) % 2 == 0,
        time=torch.arange(500) // 2,
        born=torch.arange(60),
        weight=torch.arange(500) % 8,
        name="mine",
    )


def heterogeneous() -> Any:
    """Return a graph with several node types, one of which has no incoming edges."""
    draw, data = torch.Generator().manual_seed(0), HeteroData()
    data["customer"].x, data["customer"].y = torch.rand(40, 4, generator=draw), torch.arange(40) % 2
    data["product"].x, data["shop"].num_nodes = torch.rand(30, 3, generator=draw), 5
    ends = torch.stack([torch.randint(0, count, (300,), generator=draw) for count in (40, 30)])
    data[BOUGHT].edge_index, data[BACK].edge_index = ends, ends.flip(0)
    data[BOUGHT].edge_attr, data[BOUGHT].time = torch.rand(300, 2, generator=draw), torch.arange(300)
    return data


Case = tuple[Callable[[], Any], dict[str, Any]]

NODES: dict[str, Case] = {
    "one type": (homogeneous, {"input_nodes": homogeneous().train_mask}),
    "several types": (heterogeneous, {"input_nodes": ("customer", torch.arange(3, 20))}),
}
LINKS: dict[str, Case] = {
    "no negatives": (homogeneous, {}),
    "binary": (homogeneous, {"neg_sampling": "binary", "edge_label": torch.ones(500)}),
    "triplets": (homogeneous, {"neg_sampling": NegativeSampling("triplet", 2)}),
    "binary, several types": (
        heterogeneous,
        {"edge_label_index": BOUGHT, "neg_sampling": NegativeSampling("binary", 0.5)},
    ),
    "triplets, several types": (heterogeneous, {"edge_label_index": BOUGHT, "neg_sampling": "triplet"}),
}


def fields(batch: Any) -> dict[str, list[str]]:
    """Return the names of a batch's fields by store."""
    return {str(store._key): sorted(store.keys()) for store in batch.stores}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    loaders = [(NeighborLoader, NODES), (LinkNeighborLoader, LINKS)]
    found = {
        name: fields(next(iter(loader(make(), [3, 2], batch_size=8, **words))))
        for loader, cases in loaders
        for name, (make, words) in cases.items()
    }
    print(json.dumps(found))
