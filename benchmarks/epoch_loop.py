"""The parts of epoch measurement that all systems share: the request, the model, the loop and the timing.

This module requires only torch. A runner is a module that the system's own Python interpreter runs with one JSON
argument, a `Wish`. It prints one line of JSON.
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
"""The number of batches on which the model alone is timed."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The request to a runner."""

    graph: str
    """The folder with the graph's arrays."""
    database: str
    """The path of the snapdb database with the same graph."""
    fanouts: tuple[int, ...]
    batch: int
    cut: int | None
    """The number of batches per epoch that are used, or None for all."""
    classes: int
    workers: int
    """The number of worker processes (threads for snapdb) that build batches, or 0 to build them in the trainer."""
    threads: int
    """The number of threads for torch's operators."""
    epochs: int
    """The number of timed epochs, which follow one untimed epoch."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The wall-clock times of a system's epochs, as means over the timed epochs."""

    seconds: float
    waiting: float
    """The seconds of an epoch for which the trainer waited for its next batch."""
    alone: float
    """The seconds that the model takes for the same number of prepared batches while nothing else runs."""
    batches: int
    loss: float
    """The mean loss of the last epoch."""
    version: str


class Ready(NamedTuple):
    """A batch in the form that the model reads."""

    x: Tensor
    edge_index: Tensor
    y: Tensor
    """The labels of the seeds, which are the first nodes."""


class Sage(nn.Module):
    """GraphSAGE with mean aggregation, as in PyG's examples: every layer computes all nodes of the batch."""

    def __init__(self, features: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [features, *[HIDDEN] * (layers - 1), classes]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.heard = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return [nodes, classes] logits."""
        source, target = edge_index
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)[:, None]
        for own, heard in zip(self.own, self.heard, strict=True):
            mean = torch.zeros_like(x).index_add_(0, target, x[source]) / degree
            x = own(x) + heard(mean)
            x = functional.relu(x) if own is not self.own[-1] else x
        return x


def wished() -> Wish:
    """Return the request in this runner's argument."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return Wish(**{**given, "fanouts": tuple(given["fanouts"])})


def training_step(model: Sage) -> Callable[[Ready], Tensor]:
    """Return a function that trains the model on one batch with Adam and returns the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(batch: Ready) -> Tensor:
        loss = functional.cross_entropy(model(batch.x, batch.edge_index)[: len(batch.y)], batch.y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return step


def measure(epoch: Callable[[], Iterable[Ready]], wish: Wish, version: str) -> None:
    """Train for one untimed epoch and then the timed epochs, time the model alone, and print the figures."""
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
    """Return an epoch's duration and waiting time in seconds, its number of batches and its mean loss."""
    began, waiting, losses = time.perf_counter(), 0.0, []
    for batch, waited in _timed(iter(batches)):
        waiting += waited
        losses.append(step(batch).item())
    return time.perf_counter() - began, waiting, len(losses), sum(losses) / len(losses)


def _timed(batches: Iterator[Ready]) -> Iterator[tuple[Ready, float]]:
    """Yield each batch with the seconds spent waiting for it."""
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch, time.perf_counter() - asked
