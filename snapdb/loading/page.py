"""A batch as HTML for notebooks: seeds, tensor shapes and dtypes, hops or walks, and lineage. It reads no data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from snapdb.loading.lazy import Lazy
from snapdb.types.text import Head, html_table

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch
    from snapdb.loading.walk_batch import WalkBatch


_K = TypeVar("_K")

_HEADS = (Head("of"), Head("tensor"), Head("shape"), Head("type"), Head("device"), Head("hop by hop"))
_LATER = "read on access"

_Row = tuple[str, str, str, str, str, str]


def page(batch: Batch, headline: str, optional: tuple[str, ...]) -> str:
    """Return the batch as HTML. `optional` names the fields that are a tensor or None."""
    return _html(headline, [*_seeds(batch, optional), *_nodes(batch), *_edges(batch)], batch.lineage)


def walk_page(batch: WalkBatch, headline: str, optional: tuple[str, ...]) -> str:
    """Return a batch of walks as HTML. `optional` names the fields that are a tensor or None."""
    edges = (_row("walks", name, _kept(batch.edges, name)) for name in batch.edges)
    return _html(headline, [_row("walks", "walks", batch.walks), *edges, *_seeds(batch, optional)], batch.lineage)


def _html(headline: str, rows: list[_Row], lineage_values: Mapping[str, Any]) -> str:
    """Return the table of tensors, with the lineage folded."""
    lineage = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in lineage_values.items()]
    folded = html_table((Head("name"), Head("value")), lineage)
    return (
        f"<div><b>{escape(headline)}</b>{html_table(_HEADS, rows)}"
        f"<details><summary>lineage</summary>{folded}</details></div>"
    )


def _seeds(batch: Batch | WalkBatch, optional: tuple[str, ...]) -> Iterator[_Row]:
    """Yield rows for the seed tensors."""
    yield _row("seeds", "input_id", batch.input_id)
    for name in optional:
        if (tensor := getattr(batch, name)) is not None:
            yield _row("seeds", name, tensor)
    for name, tensor in batch.seed_columns.items():
        yield _row("seeds", f"seed_columns[{name!r}]", tensor)


def _nodes(batch: Batch) -> Iterator[_Row]:
    """Yield rows for the tensors of each node type."""
    for type_, ids in batch.n_id.items():
        yield _row(type_, "n_id", ids, batch.num_sampled_nodes[type_])
        if type_ in batch.batch:
            yield _row(type_, "batch", _kept(batch.batch, type_))
        for name in (features := batch.features.get(type_, {})):
            yield _row(type_, f"features[{name!r}]", _kept(features, name))


def _edges(batch: Batch) -> Iterator[_Row]:
    """Yield rows for the tensors of each edge type."""
    for type_, index in batch.edge_index.items():
        of = " ".join(type_)
        yield _row(of, "edge_index", index, batch.num_sampled_edges[type_])
        columns = {"e_id": batch.e_id, "edge_time": batch.edge_time, "edge_weight": batch.edge_weight}
        for name, values in columns.items():
            if type_ in values:
                yield _row(of, name, _kept(values, type_))
        for name in (features := batch.edge_features.get(type_, {})):
            yield _row(of, f"edge_features[{name!r}]", _kept(features, name))


def _kept(values: Mapping[_K, Tensor], key: _K) -> Tensor | None:
    """Return a tensor that has already been read, or None if it would have to be read."""
    return values.known(key) if isinstance(values, Lazy) else values[key]


def _row(of: str, name: str, tensor: Tensor | None, hops: list[int] | None = None) -> _Row:
    """Return a row of the table."""
    counts = "" if hops is None else " + ".join(map(str, hops))
    if tensor is None:
        return of, name, _LATER, "", "", counts
    return of, name, str(list(tensor.shape)), str(tensor.dtype).removeprefix("torch."), str(tensor.device), counts
