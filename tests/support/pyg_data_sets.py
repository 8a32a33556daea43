"""The shared data sets under the names and in the form of the data sets that PyG's example scripts download."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

SHARED = Path(os.environ.get("SNAPDB_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class DataSet:
    """A graph in the form of PyG's data sets. A call with a root directory returns the data set again."""

    read: Callable[[], Any]
    transform: Callable[[Any], Any] | None = None

    def __call__(self, root: str, *, transform: Callable[[Any], Any] | None = None, **_: Any) -> DataSet:
        return DataSet(self.read, transform)

    def __getitem__(self, index: int) -> Any:
        return self.graph

    @cached_property
    def graph(self) -> Any:
        return self.read() if self.transform is None else self.transform(self.read())

    @property
    def num_features(self) -> int:
        return int(self.graph.num_features)

    @property
    def num_classes(self) -> int:
        return 7


def table(name: str) -> dict[str, Any]:
    """Return the columns of a file."""
    columns = pq.read_table(SHARED / f"{name}.parquet")
    return {label: np.array(columns[label].to_pylist()) for label in columns.column_names}


def papers() -> dict[str, Tensor]:
    """Return the fields of Cora's papers."""
    nodes = table("cora/nodes")
    masks = {f"{split}_mask": torch.tensor(nodes["split"] == split) for split in ("train", "val", "test")}
    return {"x": torch.tensor(nodes["features"]).float(), "y": torch.tensor(nodes["label"]).long(), **masks}


def citations() -> Tensor:
    edges = table("cora/edges")
    return torch.tensor(np.stack([edges["src"], edges["dst"]]))


def one_type() -> Data:
    """Return Cora with edges in both directions."""
    cites = citations()
    return Data(edge_index=torch.cat([cites, cites.flip(0)], dim=1), **papers())


def two_types() -> HeteroData:
    """Return Cora with papers and words as node types."""
    graph = HeteroData()
    for name, values in papers().items():
        graph["paper"][name] = values
    graph["word"].x = torch.eye(1433)
    graph["paper", "cites", "paper"].edge_index = citations()
    graph["paper", "holds", "word"].edge_index = graph["paper"].x.nonzero().t().contiguous()
    return graph


def ratings() -> HeteroData:
    """Return the first ratings of Bitcoin OTC with the rated people as movies."""
    edges = {name: torch.tensor(values[:200]) for name, values in table("bitcoin-otc/edges").items()}
    ends = [edges[name].unique(return_inverse=True) for name in ("src", "dst")]
    graph = HeteroData()
    graph["user"].num_nodes, graph["movie"].x = len(ends[0][0]), torch.eye(len(ends[1][0]))
    rates = graph["user", "rates", "movie"]
    rates.edge_index, rates.time = torch.stack([places for _, places in ends]), edges["ts"]
    rates.edge_label = edges["weight"].float()
    return graph


Reddit, OGB_MAG, MovieLens = DataSet(one_type), DataSet(two_types), DataSet(ratings)
