"""Scores of predictions: accuracy, area under the ROC curve, average precision.

Every metric takes the true targets first and answers with one float. Tensors, arrays and lists are all welcome.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import InputError

__all__ = ["accuracy", "average_precision", "roc_auc"]

Floats = npt.NDArray[np.float64]


def accuracy(y: Any, logits: Any) -> float:
    """The share of rows whose largest logit, or whose given class, is the target.

    Args:
        y: [n] class numbers.
        logits: [n, classes] numbers, or [n] predicted classes.

    >>> accuracy([0, 1, 1, 0], [0, 1, 0, 0])
    0.75
    >>> accuracy([0, 1], [[2.0, 1.0], [3.0, -1.0]])
    0.5
    """
    truth, guess = np.asarray(y), np.asarray(logits)
    if guess.ndim == 2:
        guess = guess.argmax(axis=1)
    _same_length(truth, guess)
    return float((truth == guess).mean())


def roc_auc(y: Any, scores: Any) -> float:
    """The chance that a positive scores above a negative; a tie counts half.

    Args:
        y: [n] 0 or 1.
        scores: [n] numbers, higher for the positive class, or [n, 2] logits.

    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    >>> roc_auc([0, 1, 1], [1, 1, 2])  # one tie of two pairs
    0.75
    """
    truth, score = _binary(y, scores)
    _, group, count = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - (count - 1) / 2)[group]  # ranks count from 1; equal scores share the middle of theirs
    positives = int(truth.sum())
    negatives = len(truth) - positives
    above = rank[truth].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def average_precision(y: Any, scores: Any) -> float:
    """The sum of precision times the step in recall over falling thresholds, as scikit-learn defines it.

    Args:
        y: [n] 0 or 1.
        scores: [n] numbers, higher for the positive class, or [n, 2] logits. Equal scores are one threshold.

    >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])  # 1/2 * 1 + 1/2 * 2/3
    0.8333333333333333
    >>> average_precision([1, 0, 0, 1], [1, 1, 0, 0])  # 1/2 * 1/2 + 1/2 * 2/4
    0.5
    """
    truth, score = _binary(y, scores)
    order = np.argsort(-score, kind="stable")
    truth, score = truth[order], score[order]
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
    hits = np.cumsum(truth)[last]
    precision = hits / (last + 1)
    recall = hits / truth.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def _binary(y: Any, scores: Any) -> tuple[npt.NDArray[np.bool_], Floats]:
    truth, score = np.asarray(y), np.asarray(scores, dtype=np.float64)
    if score.ndim == 2 and score.shape[1] == 2:
        score = score[:, 1] - score[:, 0]
    score = score.reshape(-1)
    _same_length(truth, score)
    positive = truth == 1
    if not np.all(positive | (truth == 0)):
        raise InputError(
            "this metric takes targets 0 and 1; other values were found: drop or recode those rows",
            code="metric-values",
        )
    if positive.all() or not positive.any():
        raise InputError(
            "this metric needs both targets; only one was found: score more rows at once", code="metric-values"
        )
    return positive, score


def _same_length(truth: npt.NDArray[Any], guess: npt.NDArray[Any]) -> None:
    if len(truth) != len(guess) or not len(truth):
        raise InputError(
            f"a metric needs one prediction a target, and one at least: {len(truth)} and {len(guess)}",
            code="metric-values",
        )
