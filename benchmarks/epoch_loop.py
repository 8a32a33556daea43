"""What the epochs of all systems share: what is asked, the model, the loop and the clock. It needs torch alone.

A runner is a module that the system's own Python runs with one JSON argument, a `Wish`; it prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = 64
KEPT = 10
"""Batches on which the model is timed alone."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a runner is to measure."""

    graph: str
    """Folder of the graph's arrays."""
    database: str
    """Where snapdb has the same graph."""
    fanouts: tuple[int, ...]
    batch: int
    cut: int | None
    """Batches of an epoch that are taken; None: all."""
    classes: int
    workers: int
    """Processes (of snapdb: threads) that make batches; 0: none beside the trainer."""
    threads: int
    """Of torch's operators."""
    epochs: int
    """That are timed, after one that is not."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a system, by the clock: means over those that were timed."""

    seconds: float
    waiting: float
    """Of them, how many the trainer waited for its next batch."""
    alone: float
    """What the model takes for as many batches that are ready, when nothing else runs."""
    batches: int
    loss: float
    """Of the last epoch."""
    version: str


class Ready(NamedTuple):
    """A batch as the model reads it."""

    x: Tensor
    edge_index: Tensor
    y: Tensor
    """Of the seeds, which are the first nodes."""


class Sage(nn.Module):
    """GraphSAGE with means, as PyG's examples have it: every layer computes all nodes of the batch."""

    def __init__(self, features: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [features, *[HIDDEN] * (layers - 1), classes]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.heard = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[nodes, classes] logits."""
        source, target = edge_index
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)[:, None]
        for own, heard in zip(self.own, self.heard, strict=True):
            mean = torch.zeros_like(x).index_add_(0, target, x[source]) / degree
            x = own(x) + heard(mean)
            x = functional.relu(x) if own is not self.own[-1] else x
        return x


def wished() -> Wish:
    """What this runner was started for."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return Wish(**{**given, "fanouts": tuple(given["fanouts"])})


def training_step(model: Sage) -> Callable[[Ready], Tensor]:
    """Trains the model on a batch, by Adam, and returns the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(batch: Ready) -> Tensor:
        loss = functional.cross_entropy(model(batch.x, batch.edge_index)[: len(batch.y)], batch.y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return step


def measure(epoch: Callable[[], Iterable[Ready]], wish: Wish, version: str) -> None:
    """Trains for one epoch and then for those that are timed, times the model alone, and prints the figures."""
    torch.manual_seed(7)
    torch.set_num_threads(wish.threads)
    kept = [Ready(*(part.clone() for part in batch)) for batch in islice(epoch(), KEPT)]
    step = training_step(Sage(kept[0].x.shape[1], wish.classes, len(wish.fanouts)))
    _trained(islice(epoch(), wish.cut), step)
    found = [_trained(islice(epoch(), wish.cut), step) for _ in range(wish.epochs)]
    began = time.perf_counter()
    for batch in kept:
        step(batch).item()
    alone = (time.perf_counter() - began) / len(kept)
    seconds, waiting = (sum(each[i] for each in found) / len(found) for i in range(2))
    _, _, batches, loss = found[-1]
    print(json.dumps(asdict(Epoch(seconds, waiting, alone * batches, batches, loss, version))), flush=True)


def _trained(batches: Iterable[Ready], step: Callable[[Ready], Tensor]) -> tuple[float, float, int, float]:
    """Seconds of an epoch, of them those of waiting, its batches and its mean loss."""
    began, waiting, losses = time.perf_counter(), 0.0, []
    for batch, waited in _timed(iter(batches)):
        waiting += waited
        losses.append(step(batch).item())
    return time.perf_counter() - began, waiting, len(losses), sum(losses) / len(losses)


def _timed(batches: Iterator[Ready]) -> Iterator[tuple[Ready, float]]:
    """Every batch, and how long it was waited for."""
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch, time.perf_counter() - asked
