"""Classify papers of Cora with PyG's GraphSAGE: sampled neighbours to train, layer by layer to answer for all.

    python examples/pyg/graph_sage.py [--data ../shared/data]

A script as it is written for PyG, `Data` in memory and no database. What makes the batches is snapdb: where it says
`snapdb.pyg.loader`, NeighborLoader stood. `trim` drops the edges that a layer does not need, by the hops' numbers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import NormalizeFeatures, ToUndirected

import snapdb.pyg

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[3] / "shared" / "data"))


def cora(folder: Path) -> Data:
    """The papers, whose words are shares, and the citations both ways."""
    nodes, edges = (pq.read_table(folder / f"{name}.parquet") for name in ("nodes", "edges"))
    split = np.asarray(nodes["split"].to_pylist())
    data = Data(
        x=torch.tensor(np.stack(nodes["features"].to_numpy())),
        y=torch.tensor(nodes["label"].to_numpy()).long(),
        edge_index=torch.tensor(np.stack([edges["src"].to_numpy(), edges["dst"].to_numpy()])),
        train_mask=torch.tensor(split == "train"),
        test_mask=torch.tensor(split == "test"),
    )
    return NormalizeFeatures()(ToUndirected()(data))


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains and answers the first and the last loss and the test accuracy, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds cora/")
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args(argv)
    if not (options.data / "cora").exists():
        print(f"skipped: no data set at {options.data / 'cora'}; pass --data", file=sys.stderr)
        return {}
    torch.manual_seed(0)
    data = cora(options.data / "cora")
    train_loader = snapdb.pyg.loader(data, [10, 5], input_nodes=data.train_mask, batch_size=32, shuffle=True)
    all_loader = snapdb.pyg.loader(data, [-1], batch_size=1024)
    model = GraphSAGE(data.num_features, 64, num_layers=2, out_channels=7, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    losses = []
    for epoch in range(options.epochs):
        model.train()
        total = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            trim = {
                "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                "num_sampled_edges_per_hop": batch.num_sampled_edges,
            }
            out = model(batch.x, batch.edge_index, **trim)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.batch_size
        losses.append(total / int(data.train_mask.sum()))
        print(f"epoch {epoch + 1:2d}: loss {losses[-1]:.4f}")

    model.eval()
    answer = model.inference(all_loader).argmax(dim=-1)
    accuracy = float((answer == data.y)[data.test_mask].float().mean())
    print(f"test accuracy {accuracy:.4f}")
    return {"first loss": losses[0], "last loss": losses[-1], "accuracy": accuracy}


if __name__ == "__main__":
    main()
