"""Classify papers of Cora with Lightning: SnapDataModule brings the batches, Trainer does the rest.

    python examples/lightning_cora.py [--data ../shared/data] [--epochs 60]

One sampler serves training, validation and test, with three seed sets. Each undirected citation is stored once, so the
sampler walks BOTH ways; FANOUT FULL takes every neighbour, so two hops are all that a two-layer network can see. The
model is the GCN of `snapdb.train`; Kipf and Welling report 0.815 for theirs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.nn.functional import cross_entropy

import snapdb
from snapdb.lightning import SnapDataModule
from snapdb.train import GCN, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE paper AS
  SELECT id, label, split, list_transform(features, lambda word: word / total)::FLOAT[1433] AS words
  FROM (SELECT *, list_sum(features) AS total FROM '{folder}/nodes.parquet');
CREATE TABLE cites AS SELECT src, dst FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH cora
  VERTEX TABLES (paper KEY (id) FEATURES (words AS x) TARGET (label))
  EDGE TABLES (cites SOURCE KEY (src) REFERENCES paper (id) DESTINATION KEY (dst) REFERENCES paper (id));
CREATE SNAPSHOT corpus OF cora;
CREATE SAMPLER papers AS SAMPLE FROM corpus SEEDS (SELECT id FROM paper WHERE split = 'train') AS paper
  FANOUT (cites BOTH => [FULL, FULL]) BATCH 256 REPEATABLE (1);
"""
SPLIT = "SELECT id FROM paper WHERE split = '{}'"


class Classifier(LightningModule):
    """A two-layer GCN whose figures are means over seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.network = GCN(1433, 7, hidden=16, dropout=0.5, normalize="mean")

    def training_step(self, batch: snapdb.Batch, number: int) -> torch.Tensor:
        """The loss of a batch's seeds."""
        loss = cross_entropy(self.network(batch), batch.y)
        self.log("loss", loss, batch_size=batch.batch_size)
        return loss

    def validation_step(self, batch: snapdb.Batch, number: int) -> None:
        """Logs how many validation papers are told right."""
        self._log_accuracy("val_accuracy", batch)

    def test_step(self, batch: snapdb.Batch, number: int) -> None:
        """Logs how many test papers are told right."""
        self._log_accuracy("test_accuracy", batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """As Kipf and Welling train."""
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)

    def _log_accuracy(self, name: str, batch: snapdb.Batch) -> None:
        right = (self.network(batch).argmax(dim=1) == batch.y).float().mean()
        self.log(name, right, batch_size=batch.batch_size)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains once; answers the accuracies, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds cora/")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args(argv)
    folder = options.data / "cora"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    torch.manual_seed(0)  # dropout
    with snapdb.connect() as db, torch_threads(1):
        print(LOAD.format(folder=folder).strip())
        db.script(LOAD.format(folder=folder))
        data = SnapDataModule(db, "papers", val=SPLIT.format("val"), test=SPLIT.format("test"))
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=options.epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = Classifier()
        trainer.fit(model, datamodule=data)
        figures = {"val_accuracy": float(trainer.callback_metrics["val_accuracy"])}
        figures |= {
            name: float(value) for name, value in trainer.test(model, datamodule=data, verbose=False)[0].items()
        }
    print(f"test accuracy {figures['test_accuracy']:.4f} after {options.epochs} epochs")
    return figures


if __name__ == "__main__":
    main()
