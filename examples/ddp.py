"""Train one model on several processes: DistributedDataParallel over ranks that share a stream's batches.

    python examples/ddp.py [--ranks 2] [--uneven pad]           starts the processes itself
    torchrun --nproc-per-node 2 examples/ddp.py [--uneven pad]  each process is a rank already

Every rank opens the same stream and says which one it is; no DistributedSampler is needed. Together they read just the
batches of a single stream. DistributedDataParallel waits for all ranks at every step, so all want equally many batches:
`pad` gives the ranks that lack one the epoch's first batches again, `drop_last` leaves out what not all would get. The
graph is made up: 400 people of two clubs, who mostly meet their own. It runs on the CPU (gloo); on GPUs take nccl.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import snapdb
from snapdb.train import GraphSAGE, torch_threads

MADE = """
CREATE TABLE person AS
  SELECT range AS id, range % 2 AS club, [(range % 2) + (hash(range) % 100) / 50.0, 1]::FLOAT[2] AS f FROM range(400);
CREATE TABLE met AS
  SELECT a, (a + 2 * (hash(range) % 50)) % 400 AS b FROM (SELECT hash(range + 5) % 400 AS a, range FROM range(3000));
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x) TARGET (club AS y))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT now OF town;
CREATE SAMPLER people AS SAMPLE FROM now SEEDS (SELECT id FROM person WHERE id % 5 < 4) AS person
  FANOUT (met BOTH => [10, 10]) BATCH 48 REPEATABLE (1);
"""
TEST = "SELECT id FROM person WHERE id % 5 = 4"


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Trains on all ranks; answers the accuracy, what each rank read, and whether all ended with the same weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="how many processes, where torchrun does not say it")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--uneven", choices=["pad", "drop_last"], default="pad", help="where batches do not come out even"
    )
    options = parser.parse_args(argv)
    if "RANK" in os.environ:
        return rank_main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), None, options)
    with tempfile.TemporaryDirectory() as folder:
        # Nothing has run here yet but these imports, so that forking is safe, and quicker than to begin anew.
        multiprocessing.start_processes(
            rank_main, (options.ranks, Path(folder), options), nprocs=options.ranks, start_method="fork"
        )
        figures: dict[str, Any] = json.loads((Path(folder) / "figures.json").read_text())
    return figures


def rank_main(rank: int, ranks: int, folder: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """One of the processes: all train, the first tells, in a file too where a folder is given to meet in."""
    meeting = None if folder is None else f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    with torch_threads(1), opened(rank) as db:
        figures = train(db, rank, ranks, options)
        dist.barrier()  # until all are done with the database, which goes
    dist.destroy_process_group()
    if rank == 0:
        tell(figures)
        if folder is not None:
            (folder / "figures.json").write_text(json.dumps(figures))
    return figures


def opened(rank: int) -> snapdb.Database:
    """A temporary database that the first rank makes, opened in each."""
    db = snapdb.connect() if rank == 0 else None
    if db is not None:
        db.script(MADE)
    place = [None if db is None else str(db.path)]
    dist.broadcast_object_list(place)
    return snapdb.connect(place[0], read_only=True) if db is None else db


def train(db: snapdb.Database, rank: int, ranks: int, options: argparse.Namespace) -> dict[str, Any]:
    """What the ranks read and reached together."""
    stream = db.stream("people", rank=rank, world_size=ranks, **{options.uneven: True})
    model = DistributedDataParallel(GraphSAGE(features=2, classes=2, hidden=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seen = []
    for _ in range(options.epochs):
        for batch in stream:
            optimizer.zero_grad()
            cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
            seen.append([*batch.index, batch.padding])
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return {
        "batches": stream.batches,
        "accuracy": accuracy(db, model.module, rank, ranks),
        "seen": gathered(seen, ranks),
        "same weights": all(torch.equal(weights, other) for other in gathered(weights, ranks)),
    }


@torch.no_grad()
def accuracy(db: snapdb.Database, model: torch.nn.Module, rank: int, ranks: int) -> float:
    """The share of test seeds that are told right: nobody waits within the loop, so ranks may have uneven shares."""
    model.eval()
    counts = torch.zeros(2)
    for batch in db.stream("people", seeds=TEST, rank=rank, world_size=ranks):
        counts += torch.tensor([(model(batch).argmax(dim=1) == batch.y).sum(), batch.batch_size])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def gathered(value: Any, ranks: int) -> list[Any]:
    """Everybody's value, by rank."""
    values = [None] * ranks
    dist.all_gather_object(values, value)
    return values


def tell(figures: dict[str, Any]) -> None:
    """Prints what each rank read in the first epoch, and what came of it."""
    print(f"an epoch has {figures['batches']} batches")
    for rank, seen in enumerate(figures["seen"]):
        first = [f"{number}{' again' if padding else ''}" for epoch, number, padding in seen if epoch == 0]
        print(f"rank {rank} read batches {', '.join(first)} of epoch 0, {len(seen)} in all")
    print(f"the same weights on all ranks: {figures['same weights']}")
    print(f"test accuracy {figures['accuracy']:.4f}")


if __name__ == "__main__":
    main()
