"""A small reference trainer in plain torch: two models, a loop, predictions and metrics."""

from snapdb.train.fit import History, Predictions, evaluate, fit, predict
from snapdb.train.metrics import accuracy, average_precision, hits_at, mean_reciprocal_rank, ranks, roc_auc
from snapdb.train.models import GCN, GraphSAGE
from snapdb.train.seeded import seeded
from snapdb.train.threads import torch_threads

__all__ = [
    "GCN",
    "GraphSAGE",
    "History",
    "Predictions",
    "accuracy",
    "average_precision",
    "evaluate",
    "fit",
    "hits_at",
    "mean_reciprocal_rank",
    "predict",
    "ranks",
    "roc_auc",
    "seeded",
    "torch_threads",
]
