"""Skip-gram embeddings of vertices, trained on random walks: node2vec, DeepWalk and metapath2vec."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError
from snapdb.kernels.skip_gram import LANES, descend

if TYPE_CHECKING:
    from snapdb.loading import BatchStream
    from snapdb.loading.walk_batch import WalkBatch

_NO_PAIRS = "the stream has no pairs; write WALK … WINDOW 5 NEGATIVES 5 in its statement"


@document_attributes
@dataclass(frozen=True, slots=True)
class EmbeddingHistory:
    """The losses of training embeddings, as returned by `Node2Vec.fit`."""

    losses: tuple[float, ...]
    """The mean loss per pair, one per epoch. The loss of a pair is measured just before its step."""
    pairs: int
    """The number of pairs over all epochs."""
    seconds: float
    """The duration in seconds, including the stream's."""


class Node2Vec(nn.Module):
    """Embeddings of vertices whose dot products predict which vertices are close to each other in random walks.

    The objective is skip-gram with negative sampling (Mikolov et al., 2013). The stream's WALK statement chooses the
    walks: with RETURN and INOUT they are those of node2vec (Grover and Leskovec, 2016), without them those of DeepWalk
    (Perozzi et al., 2014), with ALONG those of metapath2vec (Dong et al., 2017), and with TIME RESPECTING those of
    CTDNE (Nguyen et al., 2018).

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> results = db.script('''
        ...     CREATE TABLE person AS SELECT range AS id FROM range(20);
        ...     CREATE TABLE knows AS SELECT range AS a, (range + 1) % 20 AS b FROM range(20);
        ...     CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
        ...       EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
        ...     CREATE SNAPSHOT now OF g;
        ...     CREATE SAMPLER walks AS WALK FROM now SEEDS (FROM person SELECT id) AS person LENGTH 10 PER SEED 5
        ...       DIRECTION BOTH WINDOW 2 NEGATIVES 5 BATCH 8;
        ... ''')
        >>> with db.stream("walks") as stream:
        ...     model = snapdb.train.Node2Vec.of(stream, width=16)
        ...     history = model.fit(stream, epochs=20)
        >>> model.vectors("person").shape, history.losses[0] > history.losses[-1]
        (torch.Size([20, 16]), True)
        >>> db.close()
    """

    def __init__(self, offsets: Mapping[str, int], nodes: int, *, width: int = 128, seed: int = 0) -> None:
        """Initialize vectors uniformly within ±0.5 / width, and context vectors to 0, as word2vec does.

        Args:
            offsets: The first node number of each vertex type, as in `WalkBatch.node_offsets`.
            nodes: The number of node numbers.
            width: The width of the vectors, a multiple of 8.
            seed: The seed of the vectors.
        """
        super().__init__()
        if width < LANES or width % LANES:
            raise ValueError(f"width must be a positive multiple of {LANES}, found {width}")
        self.offsets, self.nodes = dict(offsets), nodes
        generator = torch.Generator().manual_seed(seed)
        start = (torch.rand(nodes, width, generator=generator) - 0.5) / width
        self.embedding = nn.Embedding(nodes, width, sparse=True, _weight=start)
        self.context = nn.Embedding(nodes, width, sparse=True, _weight=torch.zeros(nodes, width))

    @classmethod
    def of(cls, stream: BatchStream[Any], *, width: int = 128, seed: int = 0) -> Node2Vec:
        """Return a model for the vertex types of a stream of walks.

        Raises:
            InputError: The stream has no pairs of vertices.
        """
        walk = stream.spec.walk
        if walk is None or walk.window is None:
            raise InputError(_NO_PAIRS, code="needs-pairs")
        offsets, nodes = dict[str, int](), 0
        for name in walk.vertex_types:
            if name not in offsets:
                offsets[name] = nodes
                nodes += stream.view.node_counts[name]
        return cls(offsets, nodes, width=width, seed=seed)

    def forward(self, batch: WalkBatch) -> Tensor:
        """Return the mean loss of a batch's pairs, for training with an optimizer of your own.

        Gradients are sparse, so `torch.optim.SparseAdam` or SGD is suitable. Negatives that equal the pair's context
        count, unlike in `fit`.

        Raises:
            InputError: The batch has no pairs.
        """
        pairs, negatives = _pairs(batch)
        center = self.embedding(pairs[0])
        loss = -functional.logsigmoid((center * self.context(pairs[1])).sum(-1))
        if negatives is not None:
            scores = torch.einsum("pd,pnd->pn", center, self.context(negatives.clamp(min=0)))
            loss = loss - torch.where(negatives < 0, 0.0, functional.logsigmoid(-scores)).sum(-1)
        return loss.mean() if loss.numel() else loss.sum()

    def fit(
        self, stream: BatchStream[Any], *, epochs: int = 1, lr: float = 0.025, least_lr: float = 0.0001
    ) -> EmbeddingHistory:
        """Train by stochastic gradient descent, one step per pair, on the CPU and one thread.

        The learning rate falls linearly to `least_lr`, as in word2vec. The same stream and arguments give the same
        vectors.

        Args:
            stream: A stream of walks with WINDOW and NEGATIVES.
            epochs: The number of epochs. Each has other walks.
            lr: The learning rate of the first batch.
            least_lr: The learning rate after the last batch.

        Raises:
            InputError: The stream has no pairs.
        """
        started, losses, seen = time.perf_counter(), list[float](), 0
        vectors, contexts = (table.weight.detach().numpy() for table in (self.embedding, self.context))
        error = np.empty(vectors.shape[1], np.float32)
        total = max(1, sum(stream.length(epoch) for epoch in range(epochs)))
        rates = _rates(lr, least_lr, total)
        for _ in range(epochs):
            loss, count = 0.0, 0
            for batch in stream:
                pairs, negatives = _pairs(batch)
                drawn = np.empty((pairs.shape[1], 0), np.int64) if negatives is None else negatives.numpy()
                loss += descend(pairs.numpy(), drawn, vectors, contexts, error, np.float32(next(rates)))
                count += pairs.shape[1]
            losses.append(loss / max(1, count))
            seen += count
        return EmbeddingHistory(tuple(losses), seen, time.perf_counter() - started)

    def vectors(self, vertex_type: str | None = None) -> Tensor:
        """Return [nodes, width], the vectors of a vertex type by dense id, as a view without gradients.

        Args:
            vertex_type: The vertex type. It can be omitted if walks visit only one type.
        """
        start, stop = self._range(vertex_type)
        return self.embedding.weight.detach()[start:stop]

    def table(self, stream: BatchStream[Any], vertex_type: str | None = None) -> pa.Table:
        """Return the vectors with their keys: `key`, or one column per part of a composite key, and `embedding`.

        Register the table to store it: `db.register("vectors", model.table(stream))`, then
        `CREATE TABLE embedding AS FROM vectors`. Its column can be one of the FEATURES of the vertex type.

        Args:
            stream: A stream over the snapshot on which the model was trained.
            vertex_type: The vertex type. It can be omitted if walks visit only one type.
        """
        start, stop = self._range(vertex_type)
        name = vertex_type or next(iter(self.offsets))
        alive = stream.view.alive[name]
        ids = np.arange(stop - start, dtype=np.int64)
        ids = ids if alive is None else ids[alive]
        keys = stream.view.keys[name].read(ids)
        rows = self.embedding.weight.detach()[start:stop].numpy()[ids]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        if pa.types.is_struct(keys.type):
            columns = dict(zip((field.name for field in keys.type), keys.flatten(), strict=True))
        else:
            columns = {"key": keys}
        return pa.table({**columns, "embedding": vectors})

    def _range(self, vertex_type: str | None) -> tuple[int, int]:
        """Return the first node number of a vertex type, and the number after its last one."""
        if vertex_type is None and len(self.offsets) > 1:
            raise ValueError(f"choose a vertex type: {', '.join(self.offsets)}")
        name = next(iter(self.offsets)) if vertex_type is None else vertex_type
        if name not in self.offsets:
            raise ValueError(f"walks do not visit {name!r}; they visit {', '.join(self.offsets)}")
        start = self.offsets[name]
        later = [offset for offset in self.offsets.values() if offset > start]
        return start, min(later, default=self.nodes)


def _pairs(batch: WalkBatch) -> tuple[Tensor, Tensor | None]:
    """Return a batch's pairs, and its negatives, if any."""
    if getattr(batch, "pairs", None) is None:
        raise InputError(_NO_PAIRS, code="needs-pairs")
    assert batch.pairs is not None
    return batch.pairs, batch.negatives


def _rates(first: float, least: float, total: int) -> Iterator[float]:
    """Yield the learning rate of each of `total` batches, which falls linearly."""
    for number in range(total):
        yield max(least, first + (least - first) * number / total)
