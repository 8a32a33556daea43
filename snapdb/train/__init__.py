"""A small reference trainer in plain torch: models, embeddings, a training loop, metrics, and layer-wise
inference.

Names are imported on first use, as in `snapdb.loading`, because importing them imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use, public_names

if TYPE_CHECKING:
    from snapdb.train.layerwise import Inferred, Passes
    from snapdb.train.loop import History, Predictions, evaluate, fit, predict, seeded, torch_threads
    from snapdb.train.metrics import accuracy, average_precision, hits_at, mean_reciprocal_rank, ranks, roc_auc
    from snapdb.train.models import GCN, GraphSAGE, Layers
    from snapdb.train.node2vec import EmbeddingHistory, Node2Vec

__all__ = [
    "GCN",
    "EmbeddingHistory",
    "GraphSAGE",
    "History",
    "Inferred",
    "Layers",
    "Node2Vec",
    "Passes",
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

_NAMES = {
    ".layerwise": ("Inferred", "Passes"),
    ".loop": ("History", "Predictions", "evaluate", "fit", "predict", "seeded", "torch_threads"),
    ".metrics": ("accuracy", "average_precision", "hits_at", "mean_reciprocal_rank", "ranks", "roc_auc"),
    ".models": ("GCN", "GraphSAGE", "Layers"),
    ".node2vec": ("EmbeddingHistory", "Node2Vec"),
}

if not TYPE_CHECKING:  # a type checker would accept any name as an attribute of the package
    __getattr__ = on_first_use(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = public_names(__name__)
