"""Metrics: accuracy, area under the ROC curve, average precision, ranks, mean reciprocal rank and hits at k.

Every metric accepts tensors, arrays or lists, with the true targets first, and returns one float. The exception is
`ranks`, which returns one rank per target for `mean_reciprocal_rank` and `hits_at`.
"""

from typing import Any

import numpy as np

from snapdb.arrays import Array, Bools, Float64s
from snapdb.errors import InputError


def accuracy(y: Any, logits: Any) -> float:
    """Return the share of rows whose predicted class equals the target.

    Args:
        y: [n] classes.
        logits: [n, classes] logits, where the largest logit is the prediction, or [n] predicted classes.

    Examples:
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
    """Return the area under the ROC curve: the probability that a positive outscores a negative. Ties count half.

    Args:
        y: [n] targets, 0 or 1.
        scores: [n] scores, which are higher for the positive class, or [n, 2] logits.

    Raises:
        InputError: Only one class is present, a target is not 0 or 1, or a score is NaN.

    Examples:
        >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        0.75
        >>> roc_auc([0, 1, 1], [1, 1, 2])  # one tie of two pairs
        0.75
    """
    truth, score = _binary(y, scores)
    _, group, count = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - (count - 1) / 2)[group]  # ranks start at 1, and tied scores get their mean rank (Mann-Whitney U)
    positives = int(truth.sum())
    negatives = len(truth) - positives
    above = rank[truth].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def average_precision(y: Any, scores: Any) -> float:
    """Return the average precision as defined by scikit-learn: the sum of precision times the step in recall.

    Args:
        y: [n] targets, 0 or 1.
        scores: [n] scores, which are higher for the positive class, or [n, 2] logits. Equal scores form one threshold.

    Raises:
        InputError: Only one class is present, a target is not 0 or 1, or a score is NaN.

    Examples:
        >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])  # 1/2 * 1 + 1/2 * 2/3
        0.8333333333333333
        >>> average_precision([1, 0, 0, 1], [1, 1, 0, 0])  # 1/2 * 1/2 + 1/2 * 2/4
        0.5
    """
    truth, score = _binary(y, scores)
    order = np.argsort(-score, kind="stable")
    truth, score = truth[order], score[order]
    # Tied scores form one threshold: only the last row of each tie is a point on the curve.
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
    hits = np.cumsum(truth)[last]
    precision = hits / (last + 1)
    recall = hits / truth.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def ranks(target: Any, scores: Any, known: Any = None) -> Float64s:
    """Return the rank of each target among the candidates in its row, starting at 1. Ties share their mean rank.

    Args:
        target: [n] the columns of the true candidates.
        scores: [n, candidates] scores, where higher is better.
        known: [2, m] rows and columns of other true candidates, which are excluded for *filtered* ranks. Pairs can be
            repeated, and a target is never excluded. None excludes no candidates.

    Returns:
        [n] float64 ranks.

    Examples:
        >>> ranks([2, 0], [[0.9, 0.8, 0.7], [0.5, 0.5, 0.1]])
        array([3. , 1.5])
        >>> ranks([2, 0], [[0.9, 0.8, 0.7], [0.5, 0.5, 0.1]], known=[[0, 0], [0, 2]])
        array([2. , 1.5])
    """
    column, score = np.asarray(target, dtype=np.int64), np.asarray(scores)
    _same_length(column, score)
    _table(score, len(column), "scores")
    _inside(column, score.shape[1], "target")
    _not_nan(score)
    rows = np.arange(len(column))
    own = score[rows, column]
    above = (score > own[:, None]).sum(axis=1)
    equal = (score == own[:, None]).sum(axis=1)
    if known is not None:
        row, other = _others(known, column, score.shape[1])
        above -= np.bincount(row[score[row, other] > own[row]], minlength=len(rows))
        equal -= np.bincount(row[score[row, other] == own[row]], minlength=len(rows))
    middle: Float64s = above + (equal + 1) / 2
    return middle


def mean_reciprocal_rank(ranks: Any) -> float:
    """Return the mean of 1 / rank.

    Args:
        ranks: [n] ranks, starting at 1.

    Examples:
        >>> mean_reciprocal_rank([1, 2, 4])
        0.5833333333333334
    """
    return float((1 / _ranks(ranks)).mean())


def hits_at(k: int, ranks: Any) -> float:
    """Return the share of ranks that are `k` or better.

    Args:
        k: The worst rank that counts as a hit.
        ranks: [n] ranks, starting at 1.

    Examples:
        >>> hits_at(3, [1, 2, 4, 3.5])
        0.5
    """
    return float((_ranks(ranks) <= k).mean())


def _ranks(values: Any) -> Float64s:
    """Return the ranks as numbers. At least one is required, and none may be below 1."""
    ranks = np.asarray(values, dtype=np.float64)
    if not ranks.size or not (ranks >= 1).all():
        what = f"the minimum is {ranks.min()}" if ranks.size else "there are none"
        raise InputError(f"this metric needs ranks from 1, but {what}; compute them with ranks()", code="metric-values")
    return ranks


def _others(known: Any, target: Array, candidates: int) -> tuple[Array, Array]:
    """Return the rows and columns of known pairs that are not their row's target, without duplicates."""
    both = np.asarray(known, dtype=np.int64)
    _table(both, 2, "known pairs")
    row, column = both
    _inside(row, len(target), "row of a known pair")
    _inside(column, candidates, "candidate of a known pair")
    # One integer per pair, so that duplicates count once.
    pairs = np.unique(row * candidates + column)
    row, column = pairs // candidates, pairs % candidates
    other = column != target[row]
    return row[other], column[other]


def _table(numbers: Array, rows: int, what: str) -> None:
    """Raise InputError unless `numbers` is a table with this number of rows."""
    if numbers.ndim != 2 or len(numbers) != rows:
        raise InputError(
            f"the {what} must be a table of {rows} rows, found shape {numbers.shape}; transpose or reshape them",
            code="metric-values",
        )


def _inside(numbers: Array, end: int, what: str) -> None:
    """Raise InputError unless all numbers satisfy 0 ≤ number < end."""
    if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise InputError(
            f"the {what} must be from 0 to {end - 1}, found {numbers.min()} to {numbers.max()}; number them "
            "from 0, like the scores",
            code="metric-values",
        )


def _binary(y: Any, scores: Any) -> tuple[Bools, Float64s]:
    """Return targets as booleans and scores as one number per row, after validation."""
    truth, score = np.asarray(y), np.asarray(scores, dtype=np.float64)
    if score.ndim == 2 and score.shape[1] == 2:
        score = score[:, 1] - score[:, 0]
    score = score.reshape(-1)
    _same_length(truth, score)
    _not_nan(score)
    positive = truth == 1
    if not np.all(positive | (truth == 0)):
        raise InputError(
            "the targets of this metric must be 0 and 1, found other values; drop or recode those rows",
            code="metric-values",
        )
    if positive.all() or not positive.any():
        raise InputError(
            "this metric needs rows of both targets, found only one; score more rows at once", code="metric-values"
        )
    return positive, score


def _same_length(truth: Array, guess: Array) -> None:
    """Raise InputError unless there is one prediction per target and at least one target."""
    if len(truth) != len(guess) or not len(truth):
        raise InputError(
            f"a metric needs at least one target, and one prediction per target, found {len(guess)} for {len(truth)}",
            code="metric-values",
        )


def _not_nan(score: Array) -> None:
    """Raise InputError if a score is NaN."""
    if rows := int(np.isnan(score).reshape(len(score), -1).any(axis=1).sum()):
        raise InputError(
            f"the scores of a metric must not be NaN, found {rows} of {len(score)} rows with NaN; check the model",
            code="metric-values",
        )
