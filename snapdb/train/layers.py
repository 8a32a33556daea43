"""A model as layers: functions of a batch and its nodes' states, each of which gives the next states of the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from snapdb.errors import InputError
from snapdb.loading.batch import Batch

Layer = Callable[[Batch, Any], Any]
"""Called with a batch and the states of its nodes: a tensor where there is one node type (None where it has no x), else
a dict by node type. What it returns, a tensor or such a dict, begins with the states of the seeds."""

_OWN = "layers=[…], a function of (batch, x) for each layer that gives the seeds' next states"


@dataclass(frozen=True, slots=True)
class Layers:
    """What is to be applied, one after another, to the states of all nodes."""

    functions: tuple[Layer, ...]
    modules: tuple[nn.Module, ...]
    """What has weights in them, as far as it is known."""

    @staticmethod
    def of(model: Any, layers: Sequence[Layer] | None) -> Layers:
        """The given layers, or those that the model tells: by a method `layerwise`, or as PyG's models do.

        Raises:
            InputError: the model does not tell its layers.
            TypeError: a layer is no function, or there is none.
        """
        if layers is None:
            return _of_model(model)
        functions = tuple(layers)
        if not functions or not all(map(callable, functions)):
            raise TypeError(f"layers takes one function of (batch, x) or more, found {layers!r}")
        return Layers(functions, _modules(model, *functions))

    @property
    def device(self) -> str:
        """Where the weights are."""
        return next((str(p.device) for module in self.modules for p in module.parameters()), "cpu")

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """A block in which nothing is learned and nothing is dropped; each part's mode comes back after it."""
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
    """The layers that a model tells."""
    if hasattr(model, "layerwise"):
        return Layers(tuple(model.layerwise()), _modules(model))
    if hasattr(model, "inference_per_layer"):
        return Layers(_of_pyg(model), _modules(model))
    raise InputError(
        f"{type(model).__name__} does not tell its layers, which are applied to all nodes one after another; give "
        f"{_OWN}, or give the model a method layerwise() that returns them",
        code="not-layerwise",
    )


def _of_pyg(model: Any) -> tuple[Layer, ...]:
    """Those of PyG's BasicGNN; where they weigh by degrees, these are counted first."""
    by_degree = [conv for conv in model.convs if type(conv).__name__ == "GCNConv" and conv.normalize]
    odd = f"jk={model.jk_mode!r}, so that its answer needs the states of all layers at once"
    if model.jk_mode in (None, "last"):
        odd = "" if all(conv.add_self_loops for conv in by_degree) else "add_self_loops=False"
    if odd:
        raise InputError(f"{type(model).__name__} has {odd}; give {_OWN}", code="not-layerwise")
    numbers = range(model.num_layers)
    if by_degree:
        return (_counted, *(partial(_by_degree, model, number) for number in numbers))
    return tuple(partial(_plain, model, number) for number in numbers)


def _plain(model: Any, number: int, batch: Batch, x: Any) -> Tensor:
    """A layer of PyG's model."""
    states: Tensor = model.inference_per_layer(number, x, _edges(batch, x), batch.batch_size)
    return states


def _counted(batch: Batch, x: Any) -> Tensor:
    """The seeds' states, and beside them their degrees as GCNConv counts: the edges from others, and one to itself."""
    source, target = _edges(batch, x)
    degree = 1 + torch.bincount(target[source != target], minlength=batch.batch_size)
    return torch.cat([x[: batch.batch_size], degree[: batch.batch_size, None]], dim=1)


def _by_degree(model: Any, number: int, batch: Batch, x: Tensor) -> Tensor:
    """A layer of GCNConv, which divides what a node says by the root of its degree, and takes that from the batch.

    There it is true of the seeds. Of the others, which have no edges in a batch of one hop, it is 1.
    """
    states, degree = x[:, :-1], x[:, -1:]
    seeds, others = states[: batch.batch_size], states[batch.batch_size :] * degree[batch.batch_size :].rsqrt()
    given = _plain(model, number, batch, torch.cat([seeds, others]))
    return given if number + 1 == model.num_layers else torch.cat([given, degree[: batch.batch_size]], dim=1)


def _edges(batch: Batch, x: Any) -> Tensor:
    """The edges of a batch for a model of PyG, which knows one node type and one edge type."""
    if len(batch.n_id) == 1 and len(batch.edge_index) == 1 and x is not None:
        edges: Tensor = batch.only.edge_index
        return edges
    found = ", ".join(key.edge for key in batch.edge_index)
    raise InputError(
        f"a model of PyG takes one node type with a feature x, and one edge type; found {', '.join(batch.n_id)}"
        f"{' without x' if x is None else ''} and {found}: say fanout='edge_type => [FULL]' for one of them, or give "
        f"{_OWN}",
        code="model-inputs",
    )


def _modules(*candidates: Any) -> tuple[nn.Module, ...]:
    return tuple(one for one in candidates if isinstance(one, nn.Module))
