"""Two small graph neural networks in plain torch over a `Batch`, GraphSAGE and GCN, and layers for `db.infer`.

Both support batches with one vertex type. Messages over several edge types are summed. They are passed from row 0 of
`edge_index` to row 1, toward the seeds. Each layer computes only the nodes that later layers need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError
from snapdb.loading import Batch
from snapdb.train.loop import seeded

_Layer = Callable[[Batch, Any], Any]
"""A layer, which is called with a batch and its nodes' states: a tensor for one node type (None without x), otherwise a
dict by node type. Its result, a tensor or such a dict, begins with the seeds' states."""

_OWN = "layers=[…], one function of (batch, x) per layer that returns the next states of the seeds"


@document_attributes
@dataclass(frozen=True, slots=True)
class Layers:
    """A model's layers, which layer-wise inference applies to all nodes one after the other."""

    functions: tuple[_Layer, ...]
    """One function of (batch, x) per layer, which returns the next states of the seeds."""
    modules: tuple[nn.Module, ...]
    """The torch modules with the layers' weights, as far as they are known."""

    @staticmethod
    def of(model: Any, layers: Sequence[_Layer] | None) -> Layers:
        """Return these layers, or those from the model's `layerwise` method or from a PyG BasicGNN.

        Args:
            model: The model. Its modules are in evaluation mode during inference.
            layers: One function of (batch, x) per layer, or None for the model's own layers.

        Raises:
            InputError: The layers of the model are not known.
            TypeError: A layer is not a function, or the sequence is empty.
        """
        if layers is None:
            return _of_model(model)
        functions = tuple(layers)
        if not functions or not all(map(callable, functions)):
            raise TypeError(f"layers must be one or more functions of (batch, x), found {layers!r}")
        return Layers(functions, _modules(model, *functions))

    @property
    def device(self) -> str:
        """The device of the weights, or 'cpu' if there are none."""
        return next((str(p.device) for module in self.modules for p in module.parameters()), "cpu")

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Enter evaluation mode without gradients for a `with` block and restore each module's mode afterwards."""
        before = [(part, part.training) for module in self.modules for part in module.modules()]
        try:
            for module in self.modules:
                module.eval()
            with torch.no_grad():
                yield
        finally:
            for part, training in before:
                part.training = training


def _of_model(model: Any) -> Layers:
    """Return the layers of a model."""
    if hasattr(model, "layerwise"):
        return Layers(tuple(model.layerwise()), _modules(model))
    if hasattr(model, "inference_per_layer"):
        return Layers(_of_pyg(model), _modules(model))
    raise InputError(
        f"the layers of {type(model).__name__} are unknown, but inference applies one layer at a time to "
        "all nodes; pass "
        f"{_OWN}, or add a method layerwise() to the model that returns them",
        code="not-layerwise",
    )


def _of_pyg(model: Any) -> tuple[_Layer, ...]:
    """Return the layers of PyG's BasicGNN. If they are normalized by degree, the first layer counts the degrees."""
    by_degree = [conv for conv in model.convs if type(conv).__name__ == "GCNConv" and conv.normalize]
    odd = f"jk={model.jk_mode!r}, which needs the states of all layers at once"
    if model.jk_mode in (None, "last"):
        odd = "" if all(conv.add_self_loops for conv in by_degree) else "add_self_loops=False"
    if odd:
        raise InputError(f"{type(model).__name__} has {odd}; pass {_OWN}", code="not-layerwise")
    numbers = range(model.num_layers)
    if by_degree:
        return (_counted, *(partial(_by_degree, model, number) for number in numbers))
    return tuple(partial(_plain, model, number) for number in numbers)


def _plain(model: Any, number: int, batch: Batch, x: Any) -> Tensor:
    """Compute one layer of PyG's model."""
    states: Tensor = model.inference_per_layer(number, x, _edges(batch, x), batch.batch_size)
    return states


def _counted(batch: Batch, x: Any) -> Tensor:
    """Return the seeds' states with their degrees as counted by GCNConv: edges from other nodes and one self loop."""
    source, target = _edges(batch, x)
    degree = 1 + torch.bincount(target[source != target], minlength=batch.batch_size)
    return torch.cat([x[: batch.batch_size], degree[: batch.batch_size, None]], dim=1)


def _by_degree(model: Any, number: int, batch: Batch, x: Tensor) -> Tensor:
    """Compute one layer of GCNConv, which divides a message by the square root of its node's degree in the batch.

    That degree is correct for the seeds. The other nodes have no edges in a one-hop batch, so their degree is 1, and
    their states are divided here by the square root of the degree counted by the first pass.
    """
    states, degree = x[:, :-1], x[:, -1:]
    seeds, others = states[: batch.batch_size], states[batch.batch_size :] * degree[batch.batch_size :].rsqrt()
    given = _plain(model, number, batch, torch.cat([seeds, others]))
    return given if number + 1 == model.num_layers else torch.cat([given, degree[: batch.batch_size]], dim=1)


def _edges(batch: Batch, x: Any) -> Tensor:
    """Return a batch's edges for a PyG model, which supports one node type and one edge type."""
    if len(batch.n_id) == 1 and len(batch.edge_index) == 1 and x is not None:
        edges: Tensor = batch.only.edge_index
        return edges
    edge_types = ", ".join(key.edge for key in batch.edge_index)
    raise InputError(
        f"a PyG model needs one node type with a feature x and one edge type, but the batch has {', '.join(batch.n_id)}"
        f"{' without x' if x is None else ''} and {edge_types}; pass fanout='edge_type => [FULL]' for one of them, or "
        f"{_OWN}",
        code="model-inputs",
    )


def _modules(*candidates: Any) -> tuple[nn.Module, ...]:
    """Return the torch modules among the candidates."""
    return tuple(model for model in candidates if isinstance(model, nn.Module))


class GraphSAGE(nn.Module):
    """GraphSAGE: an encoder, `layers` rounds of mean aggregation, and a linear read-out for the seeds.

    Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", 2017.

    Examples:
        >>> GraphSAGE(features=10, classes=2, layers=3).depth
        3
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        hidden: int = 64,
        layers: int = 2,
        dropout: float = 0.2,
        norm: bool = True,
        residual: bool = True,
        seed: int = 0,
    ) -> None:
        """Initialize the weights, which depend only on `seed`.

        Args:
            features: The width of the node feature x.
            classes: The number of logits per seed.
            hidden: The width of the states.
            layers: The number of rounds, which is the sampler's number of hops.
            dropout: The dropout probability after each round.
            norm: Whether to apply a LayerNorm before each round.
            residual: Whether to add the input of each round to its output.
            seed: The seed of the weights.
        """
        super().__init__()
        self.depth = layers
        self.residual = residual
        with seeded(seed):
            self.encode = nn.Linear(features, hidden)
            self.norm = nn.ModuleList(nn.LayerNorm(hidden) if norm else nn.Identity() for _ in range(layers))
            self.root = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
            self.neighbour = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(layers))
            self.read = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch, x: Tensor | None = None) -> Tensor:
        """Return the logits of the seeds: [batch_size, classes] float32.

        Args:
            batch: A batch of one vertex type.
            x: [nodes, features] node features, or None for `batch.x` of the type.

        Raises:
            InputError: The batch has several vertex types, or there is no feature x.
        """
        state = torch.relu(self.encode(_features(batch, x, self.depth)))
        for i in range(self.depth):
            state = self._round(i, state, _LayerEdges.of(batch, self.depth - i))
        logits: Tensor = self.read(state[: batch.batch_size])
        return logits

    def layerwise(self) -> list[_Layer]:
        """Return each round as a function of (batch, x) for `db.infer`. The first encodes, and the last reads out."""
        return [partial(self._layer, i) for i in range(self.depth)]

    def _layer(self, i: int, batch: Batch, x: Tensor | None) -> Tensor:
        """Compute one round as a function of a one-hop batch."""
        state = _features(batch, x, 1)
        if i == 0:
            state = torch.relu(self.encode(state))
        state = self._round(i, state, _LayerEdges.of(batch, 1))
        given: Tensor = self.read(state) if i + 1 == self.depth else state
        return given

    def _round(self, i: int, state: Tensor, edges: _LayerEdges) -> Tensor:
        """Compute one round: a linear map of a node's own state plus a linear map of its neighbours' mean."""
        normed = self.norm[i](state)
        messages = self.root[i](normed[: edges.receivers]) + self.neighbour[i](edges.mean(normed))
        change: Tensor = self.dropout(torch.relu(messages))
        return state[: edges.receivers] + change if self.residual else change


class GCN(nn.Module):
    """GCN: each layer averages a node with its neighbours and applies a linear map.

    Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", 2017.

    `normalize="symmetric"` weights an edge by 1 / sqrt(source degree · destination degree), including self loops.
    Degrees are counted in the batch. They are exact for nodes whose neighbours were all sampled (FULL), and too small
    for nodes in the last hop, which are not expanded. With one more hop than layers, the result is the same as for the
    whole graph, as in `db.infer`. `normalize="mean"` weights an edge by 1 / destination degree. The destination is
    always expanded, so the result is exact with as many hops as layers.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        hidden: int = 16,
        layers: int = 2,
        dropout: float = 0.5,
        normalize: str = "symmetric",
        seed: int = 0,
    ) -> None:
        """Initialize the weights, which depend only on `seed`.

        Args:
            features: The width of the node feature x.
            classes: The number of logits per seed.
            hidden: The width of the states between layers.
            layers: The number of layers.
            dropout: The dropout probability before each layer.
            normalize: 'symmetric' or 'mean'.
            seed: The seed of the weights.

        Raises:
            InputError: `normalize` has another value.
        """
        super().__init__()
        if normalize not in ("symmetric", "mean"):
            raise InputError(f"normalize must be 'symmetric' or 'mean', found {normalize!r}", code="model-inputs")
        self.depth = layers
        self.normalize = normalize
        widths = [features, *[hidden] * (layers - 1), classes]
        with seeded(seed):
            self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
            for layer in self.linear:
                assert isinstance(layer, nn.Linear)
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch, x: Tensor | None = None) -> Tensor:
        """Return the logits of the seeds: [batch_size, classes] float32.

        Args:
            batch: A batch of one vertex type.
            x: [nodes, features] node features, or None for `batch.x` of the type.

        Raises:
            InputError: The batch has several vertex types, or there is no feature x.
        """
        state = _features(batch, x, self.depth)
        degree = _degree(batch)
        for i in range(self.depth):
            state = self._round(i, state, _LayerEdges.of(batch, self.depth - i), degree)
        return state[: batch.batch_size]

    def layerwise(self) -> list[_Layer]:
        """Return the layers as functions of (batch, x) for `db.infer`. The first one counts degrees."""
        return [self._counted, *(partial(self._layer, i) for i in range(self.depth))]

    def _counted(self, batch: Batch, x: Tensor | None) -> Tensor:
        """Return the seeds' states with their degrees as an additional column."""
        state = _features(batch, x, 0)
        return torch.cat([state, _degree(batch)[: len(state), None]], dim=1)

    def _layer(self, i: int, batch: Batch, x: Tensor) -> Tensor:
        """Compute one layer as a function of a one-hop batch, with degrees as the last column."""
        given = self._round(i, x[:, :-1], _LayerEdges.of(batch, 1), x[:, -1])
        return given if i + 1 == self.depth else torch.cat([given, x[: len(given), -1:]], dim=1)

    def _round(self, i: int, state: Tensor, edges: _LayerEdges, degree: Tensor) -> Tensor:
        """Compute one layer for the nodes within its reach."""
        mixed = self._mix(edges, self.linear[i](self.dropout(state)), degree)
        return torch.relu(mixed) if i + 1 < self.depth else mixed

    def _mix(self, edges: _LayerEdges, state: Tensor, degree: Tensor) -> Tensor:
        """Return the normalized sum over the neighbours and the node itself."""
        scale = degree[: len(state), None]
        here = degree[: edges.receivers, None]
        if self.normalize == "mean":
            return (edges.total(state) + state[: edges.receivers]) / here
        scaled = state * scale.rsqrt()
        return (edges.total(scaled) + scaled[: edges.receivers]) * here.rsqrt()


class _LayerEdges(NamedTuple):
    """The edges and receivers of one layer, which are those within `reach` hops of the seeds."""

    edges: tuple[Tensor, ...]
    """[2, edges] local ids per relation: neighbour, receiver."""
    receivers: int
    """The number of leading nodes in the batch whose states the layer computes."""

    @classmethod
    def of(cls, batch: Batch, reach: int) -> _LayerEdges:
        """Return the edges of a layer that computes the nodes in the first `reach` hops. The seeds count as one hop."""
        kind = batch.seed_type
        edges = tuple(index[:, : sum(batch.num_sampled_edges[key][:reach])] for key, index in batch.edge_index.items())
        return cls(edges, sum(batch.num_sampled_nodes[kind][:reach]))

    def total(self, state: Tensor) -> Tensor:
        """Return [receivers, width], the sum of the neighbours' states over all relations."""
        out = state.new_zeros(self.receivers, state.shape[1])
        for index in self.edges:
            out = out.index_add(0, index[1], state.index_select(0, index[0]))
        return out

    def mean(self, state: Tensor) -> Tensor:
        """Return [receivers, width], the mean of each relation's neighbours (0 if none), summed over relations."""
        out = state.new_zeros(self.receivers, state.shape[1])
        for index in self.edges:
            count = torch.bincount(index[1], minlength=self.receivers).clamp(min=1).to(state.dtype)
            total = _LayerEdges((index,), self.receivers).total(state)
            out = out + total / count[:, None]
        return out


def _features(batch: Batch, x: Tensor | None, layers: int) -> Tensor:
    """Return [nodes within `layers` hops, width], the features of a batch with one vertex type: `x` or its own."""
    kind = batch.seed_type
    if len(batch.num_sampled_nodes) != 1:
        kinds = ", ".join(sorted(batch.num_sampled_nodes))
        raise InputError(
            f"this model supports one vertex type, but the batch has {kinds}; write a model for several types",
            code="several-vertex-types",
        )
    if x is None and kind not in batch.x:
        raise InputError(
            f"{kind} has no feature x; write FEATURES (column AS x) in CREATE PROPERTY GRAPH, or pass x",
            code="model-inputs",
        )
    rows = batch.x[kind] if x is None else x
    return rows[: sum(batch.num_sampled_nodes[kind][: layers + 1])]


def _degree(batch: Batch) -> Tensor:
    """Return [nodes] float: the number of incoming edges in the batch, plus one for the self loop."""
    nodes = sum(batch.num_sampled_nodes[batch.seed_type])
    # Degrees in the batch rather than in the snapshot. They are exact for nodes whose neighbours were all sampled.
    degree = torch.ones(nodes, device=batch.input_id.device)
    for index in batch.edge_index.values():
        degree += torch.bincount(index[1], minlength=nodes)
    return degree
