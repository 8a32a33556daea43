"""Predict the next edits of Wikipedia with PyG's GraphSAGE, made heterogeneous, on temporal neighbours.

    python examples/pyg/link_pred.py [--data ../shared/data]

A script as it is written for PyG, `HeteroData` in memory and no database. What makes the batches is snapdb: where it
says `snapdb.pyg.link_loader`, LinkNeighborLoader stood. A seed edge sees the newest edits before its own time;
negatives are drawn anew in every epoch. People and pages have a vector each, found by `n_id`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero
from torch_geometric.transforms import ToUndirected

import snapdb.pyg
from snapdb.train import roc_auc

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[3] / "shared" / "data"))
EDITS = "user", "edits", "page"


def edits(folder: Path, first: int) -> HeteroData:
    """So many edits in the order of time, and their ways back."""
    table = pq.read_table(folder / "edges.parquet").slice(0, first)
    ends = [torch.tensor(table[name].to_numpy()).unique(return_inverse=True) for name in ("src", "dst")]
    data = HeteroData()
    data["user"].num_nodes, data["page"].num_nodes = (len(known) for known, _ in ends)
    data[EDITS].edge_index = torch.stack([places for _, places in ends])
    data[EDITS].time = torch.tensor(table["ts"].to_numpy())
    return ToUndirected()(data)


class Model(nn.Module):
    """A vector for everyone, moved by two layers; a pair's score is the product of its ends."""

    def __init__(self, data: HeteroData, *, width: int = 32) -> None:
        super().__init__()
        self.start = nn.ModuleDict({kind: nn.Embedding(data[kind].num_nodes, width) for kind in data.node_types})
        self.layers = to_hetero(GraphSAGE(width, width, num_layers=2), data.metadata())

    def forward(self, batch: HeteroData) -> Tensor:
        """[pairs] logits."""
        x = {kind: table(batch[kind].n_id) for kind, table in self.start.items()}
        state = self.layers(x, batch.edge_index_dict)
        user, page = batch[EDITS].edge_label_index
        return (state["user"][user] * state["page"][page]).sum(dim=-1)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains on the first four fifths; answers losses and the AUC on the rest, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds jodie-wikipedia/")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--edits", type=int, default=40_000, help="how many of the first edits are read")
    options = parser.parse_args(argv)
    folder = options.data / "jodie-wikipedia"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    torch.manual_seed(0)
    data = edits(folder, options.edits)
    pairs, time = data[EDITS].edge_index, data[EDITS].time
    cut = pairs.shape[1] * 4 // 5
    common = {"num_neighbors": [8, 4], "time_attr": "time", "temporal_strategy": "last", "neg_sampling": "binary"}
    train_loader = snapdb.pyg.link_loader(
        data,
        edge_label_index=(EDITS, pairs[:, :cut]),
        edge_label_time=time[:cut] - 1,
        batch_size=256,
        shuffle=True,
        **common,
    )
    test_loader = snapdb.pyg.link_loader(
        data, edge_label_index=(EDITS, pairs[:, cut:]), edge_label_time=time[cut:] - 1, batch_size=1024, **common
    )
    model = Model(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

    losses = []
    for epoch in range(options.epochs):
        total = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch[EDITS].edge_label)
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(train_loader))
        print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")

    with torch.no_grad():
        found = [(batch[EDITS].edge_label, model(batch)) for batch in test_loader]
    auc = roc_auc(*(torch.cat(column) for column in zip(*found, strict=True)))
    print(f"test AUC {auc:.4f}")
    return {"first loss": losses[0], "last loss": losses[-1], "auc": auc}


if __name__ == "__main__":
    main()
