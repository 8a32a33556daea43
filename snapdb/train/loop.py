"""Training, prediction and evaluation over streams of batches, and context managers for torch's seed and threads."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError
from snapdb.loading import Batch, BatchStream
from snapdb.train.optimizer import Adam


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator for a `with` block and restore its state afterwards.

    Args:
        seed: The seed of the generator.

    Examples:
        >>> with seeded(3):
        ...     first = torch.rand(2)
        >>> with seeded(3):
        ...     again = torch.rand(2)
        >>> bool((first == again).all())
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads for a `with` block and restore the previous number afterwards.

    One thread is best for small networks. The stream's threads need the cores, and torch's own threads spend more time
    waiting for each other than working (measured: six times slower with two threads on two busy cores).

    Args:
        count: The number of threads.

    Examples:
        >>> with torch_threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_NO_TARGETS = "the stream has no targets; write TARGET (column) in CREATE PROPERTY GRAPH, or select y in SEEDS"

_Transform = Callable[[Tensor], Tensor]
_Metric = Callable[[Tensor, Tensor], float]


@document_attributes
@dataclass(frozen=True, slots=True)
class History:
    """The losses and scores of a training run, as returned by `fit`."""

    losses: tuple[float, ...]
    """The mean loss over the seeds' labels, one per epoch."""
    scores: tuple[float, ...]
    """The scores returned by `validate`, one per epoch. Empty without `validate`."""
    best: int
    """The epoch of the model's final weights: the epoch with the best score, or the last epoch without `validate`."""
    seconds: float
    """The wall-clock time of the run in seconds, including validation."""


@document_attributes
@dataclass(frozen=True, slots=True)
class Predictions:
    """A model's logits for every seed of a stream, in the order of the seed set."""

    input_id: Tensor
    """[seeds] int64: the position of each seed in the stream's seed set, in ascending order."""
    logits: Tensor
    """[seeds, classes] float32: the model's output for each seed."""
    y: Tensor | None
    """[seeds] or [seeds, n]: the targets, or None if the batches have none."""


def fit(
    model: nn.Module,
    stream: Iterable[Batch],
    *,
    epochs: int,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    validate: Callable[[], float] | None = None,
    patience: int | None = None,
    seed: int = 0,
    weight: str | None = None,
    transform: _Transform | None = None,
) -> History:
    """Train `model` in place with Adam, with one optimizer step per batch.

    The dtype and shape of the targets determine the loss:

    - int64 [seeds]: classes, by cross-entropy. -1 means unlabelled.
    - int64 [seeds, n]: n binary labels per seed, by binary cross-entropy. -1 means unlabelled.
    - float32: values to regress, by squared error. NaN means unlabelled.

    The same model, stream and `seed` produce the same weights.

    Args:
        model: Called as `model(batch, x)`. It returns the logits of the seeds.
        stream: A `BatchStream`, or a list of batches, which is repeated in each epoch.
        epochs: The maximum number of passes over the stream.
        lr: The learning rate of Adam.
        weight_decay: The L2 penalty of Adam.
        validate: Called after each epoch. It returns a score, where higher is better, and the model gets the weights of
            the best epoch. None leaves the weights of the last epoch.
        patience: The number of epochs without a better score after which training stops early, or None to disable
            early stopping.
        seed: The seed for dropout.
        weight: The column of SEEDS with the weight of each seed in the mean loss, or None for equal weights.
        transform: Maps a batch's node features [nodes, width] to the model input. None passes no input, and the model
            reads the batch's features.

    Returns:
        The losses, the scores and the best epoch.

    Raises:
        InputError: The stream has no targets, or no seed has a label.
    """
    started = time.perf_counter()
    optimizer = Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    losses: list[float] = []
    scores: list[float] = []
    best, weights = -1, None
    with seeded(seed):
        for epoch in range(epochs):
            losses.append(_epoch(model, _at(stream, epoch), optimizer, transform, weight))
            if validate is None:
                continue
            scores.append(validate())
            if best < 0 or scores[-1] > scores[best]:
                # A copy, because state_dict refers to the parameters, which the next step modifies.
                best, weights = epoch, deepcopy(model.state_dict())
            if patience is not None and epoch - best >= patience:
                break
    if weights is not None:
        model.load_state_dict(weights)
    return History(tuple(losses), tuple(scores), best if weights else len(losses) - 1, time.perf_counter() - started)


def predict(model: nn.Module, stream: Iterable[Batch], *, transform: _Transform | None = None) -> Predictions:
    """Compute the model's logits for every seed in epoch 0 of a stream, without gradients.

    Padding batches of a rank are skipped, so that no seed counts twice.

    Args:
        model: Called as `model(batch, x)` in evaluation mode. It returns the logits of the seeds.
        stream: A `BatchStream`, or a list of batches.
        transform: Maps a batch's node features [nodes, width] to the model input.

    Returns:
        The logits in the order of the seed set.

    Raises:
        InputError: The stream has no batch.
    """
    batches = _at(stream, 0)
    order: list[Tensor] = []
    logits: list[Tensor] = []
    targets: list[Tensor] = []
    training = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches:
            if batch.padding:  # its seeds are also in another batch
                continue
            order.append(batch.input_id.clone())
            logits.append(model(batch, _transformed(batch, transform)))
            if batch.y is not None:
                targets.append(batch.y.clone())
    model.train(training)
    if not order:
        raise InputError(
            "the stream has no batch to predict: its SEEDS query returned no rows", code="nothing-to-learn"
        )
    input_id = torch.cat(order)
    # Batches are in epoch order, whereas predictions are returned in the order of the seed set.
    rows = torch.argsort(input_id)
    y = torch.cat(targets)[rows] if targets else None
    return Predictions(input_id[rows], torch.cat(logits)[rows], y)


def evaluate(
    model: nn.Module, stream: Iterable[Batch], metrics: Mapping[str, _Metric], *, transform: _Transform | None = None
) -> dict[str, float]:
    """Compute metrics over all seeds of a stream.

    Args:
        model: See `predict`.
        stream: See `predict`.
        metrics: Name → a function of (y, logits), such as `accuracy`.
        transform: See `predict`.

    Returns:
        Name → metric value.

    Raises:
        InputError: The stream has no targets or no batch.
    """
    seen = predict(model, stream, transform=transform)
    if seen.y is None:
        raise InputError(_NO_TARGETS, code="targets-missing")
    return {name: metric(seen.y, seen.logits) for name, metric in metrics.items()}


def _epoch(
    model: nn.Module, batches: Iterable[Batch], optimizer: Adam, transform: _Transform | None, weight: str | None
) -> float:
    """Train for one epoch with one step per batch, and return the mean loss over the seeds' labels."""
    model.train()
    total, labelled = 0.0, 0.0
    for batch in batches:
        loss, count = _loss(model(batch, _transformed(batch, transform)), batch, weight)
        if not count:
            continue
        optimizer.zero_grad()
        # The mean over the batch's labels, so that the step size does not depend on the number of labelled seeds.
        torch.autograd.backward(loss / count)
        optimizer.step()
        total, labelled = total + loss.item(), labelled + count
    if not labelled:
        raise InputError("no seed of the stream has a label; check SEEDS and TARGET", code="nothing-to-learn")
    return total / labelled


def _loss(logits: Tensor, batch: Batch, weight: str | None) -> tuple[Tensor, float]:
    """Return the summed loss over the seeds' labels and their number, or the weighted sum and the total weight."""
    if batch.y is None:
        raise InputError(_NO_TARGETS, code="targets-missing")
    loss, labelled = _losses(logits, batch.y)
    share = labelled.to(loss.dtype)
    if weight is not None:
        share = share * batch.seed_columns[weight].to(loss.dtype).reshape(-1, *[1] * (loss.dim() - 1))
    return (loss * share).sum(), share.sum().item()


def _losses(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of each label and a mask of the existing labels, both in the shape of y."""
    labelled = ~y.isnan() if y.is_floating_point() else y != -1
    # Missing labels are replaced with a valid class, so that the loss is defined. Their losses are multiplied by 0.
    known = torch.where(labelled, y, 0)
    if y.is_floating_point():
        return functional.mse_loss(logits.reshape(y.shape), known, reduction="none"), labelled
    if y.dim() == 1:
        return functional.cross_entropy(logits, known, reduction="none"), labelled
    return functional.binary_cross_entropy_with_logits(logits, known.to(logits.dtype), reduction="none"), labelled


def _at(stream: Iterable[Batch], epoch: int) -> Iterable[Batch]:
    """Set the stream to an epoch and return it. A plain list of batches is the same in every epoch.

    Raises:
        TypeError: The argument is the name of a sampler, a database, or another object without batches.
    """
    given: object = stream  # callers without a type checker can pass anything
    if isinstance(given, str) or not isinstance(given, Iterable | Dataset):
        name = given if isinstance(given, str) else "train"
        raise TypeError(
            f"the argument must be a stream or a list of batches, found {given!r}; pass db.stream({name!r})"
        )
    if isinstance(stream, BatchStream):
        stream.set_epoch(epoch)
    return stream


def _transformed(batch: Batch, transform: _Transform | None) -> Tensor | None:
    """Return the transformed features as the model input, or None if the model reads the batch's features."""
    return None if transform is None else transform(batch.x[batch.seed_type])
