"""Classify papers of Cora by their words and citations as a graph of two types, with PyG's HGTConv over a snapshot.

    python examples/pyg/hgt.py [--data ../shared/data]

The graph is of tables: papers cite papers and hold words. `snapdb.pyg.open` gives a snapshot of it as PyG takes data,
with each edge type also against its direction, as ToUndirected would add it. Papers have features; all words have one
vector, as PyG's transform Constant gives it. Every paper outside the validation and test sets is trained on.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import HGTConv, Linear

import snapdb.pyg

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[3] / "shared" / "data"))

LOAD = """
CREATE TABLE paper AS SELECT id, label, split, features AS words FROM '{folder}/nodes.parquet';
CREATE TABLE word AS SELECT i AS id FROM range(1433) r(i);
CREATE TABLE cites AS SELECT src, dst FROM '{folder}/edges.parquet';
CREATE TABLE holds AS
  SELECT paper, word FROM (SELECT id AS paper, unnest(words) AS times, unnest(range(1433)) AS word FROM paper)
  WHERE times > 0;
CREATE PROPERTY GRAPH cora
  VERTEX TABLES (paper KEY (id) FEATURES (words AS x) TARGET (label), word KEY (id))
  EDGE TABLES (cites SOURCE KEY (src) REFERENCES paper DESTINATION KEY (dst) REFERENCES paper,
               holds SOURCE KEY (paper) REFERENCES paper DESTINATION KEY (word) REFERENCES word);
CREATE SNAPSHOT corpus OF cora
"""


class HGT(nn.Module):
    """A layer of HGTConv over the features of papers and one vector for all words."""

    def __init__(self, types: tuple[list[str], list[tuple[str, str, str]]], *, width: int = 64) -> None:
        super().__init__()
        self.paper, self.word = Linear(-1, width), nn.Parameter(torch.ones(1, width))
        self.conv = HGTConv(width, width, types, heads=2)
        self.out = Linear(width, 7)

    def forward(self, batch: HeteroData) -> Tensor:
        """[batch_size, classes] logits of the papers that were asked for."""
        x = {"paper": self.paper(batch["paper"].x).relu(), "word": self.word.expand(batch["word"].num_nodes, -1)}
        return self.out(self.conv(x, batch.edge_index_dict)["paper"][: batch["paper"].batch_size])


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains and answers the first and the last loss and the test accuracy, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds cora/")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args(argv)
    folder = options.data / "cora"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    torch.manual_seed(0)
    with snapdb.connect() as db:
        for statement in LOAD.format(folder=folder).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        data = snapdb.pyg.open(db, "corpus", reverse=True)
        train_loader, test_loader = (
            snapdb.pyg.loader(data, [10], input_nodes=("paper", papers(db, data, split)), batch_size=64, shuffle=True)
            for split in ("NOT IN ('val', 'test')", "= 'test'")
        )
        model = HGT(data.metadata())
        losses = train(model, train_loader, epochs=options.epochs)
        accuracy = tested(model, test_loader)
        data.close()
    print(f"test accuracy {accuracy:.4f}")
    return {"first loss": losses[0], "last loss": losses[-1], "accuracy": accuracy}


def papers(db: snapdb.Database, data: snapdb.pyg.SnapshotGraph, split: str) -> Tensor:
    """PyG's numbers of the papers of a split."""
    return data.find(db.execute(f"SELECT id FROM paper WHERE split {split}").arrow()["id"], "paper")


def train(model: HGT, loader: NeighborLoader, *, epochs: int) -> list[float]:
    """The loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=0.001)
    losses = []
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), batch["paper"].y[: batch["paper"].batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
        print(f"epoch {epoch + 1:2d}: loss {losses[-1]:.4f}")
    return losses


@torch.no_grad()
def tested(model: HGT, loader: NeighborLoader) -> float:
    """How many of the loader's papers are found."""
    model.eval()
    right = [model(batch).argmax(dim=-1) == batch["paper"].y[: batch["paper"].batch_size] for batch in loader]
    return float(torch.cat(right).float().mean())


if __name__ == "__main__":
    main()
