"""Digests and plain values of what the public doors give, without what differs from run to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import snapdb
from snapdb import Batch

SHAPE = (
    "seed_type",
    "batch_size",
    "index",
    "input_id",
    "n_id",
    "edge_index",
    "e_id",
    "num_sampled_nodes",
    "num_sampled_edges",
    "batch",
    "edge_label_index",
    "edge_label",
    "src_index",
    "dst_pos_index",
    "dst_neg_index",
    "negatives_missing",
    "layout",
    "padding",
)
"""Fields of a batch that tell what was drawn."""
VALUES = (
    "y",
    "seed_time",
    "seed_columns",
    "features",
    "x",
    "edge_features",
    "edge_attr",
    "edge_time",
    "edge_weight",
    "edge_age",
)
"""Fields that tell what was gathered."""

_MOMENT = re.compile(r"20(?:1[5-9]|[2-9]\d)-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00(?::00)?|Z)?)?")
"""Today, or not long ago: event times of the recorded graphs are in 2001."""
_VERSION = re.compile(rf"\b{re.escape(snapdb.__version__)}\b")
_NAME = re.compile(r"\b[0-9a-f]{32}\b")
_DIGEST = re.compile(r'("(?:tables_digest|sha256|seal)": ")[0-9a-f]{64}"')


def bytes_of(value: Any) -> Iterable[bytes]:
    """A value as bytes, with its type, so that two are the same only where all of it is."""
    match value:
        case torch.Tensor():
            yield f"{value.dtype} {tuple(value.shape)}".encode()
            for part in _dense(value):
                yield part.contiguous().numpy().tobytes()
        case np.ndarray():
            yield f"{value.dtype} {value.shape}".encode()
            yield repr(value.tolist()).encode() if value.dtype == object else np.ascontiguousarray(value).tobytes()
        case pa.Array() | pa.ChunkedArray():
            yield f"{value.type} {value.to_pylist()!r}".encode()
        case pa.Table():
            yield from bytes_of({name: value[name] for name in value.column_names})
        case Mapping():
            yield b"{"
            for key, one in value.items():
                yield repr(tuple(key) if isinstance(key, tuple) else key).encode()
                yield from bytes_of(one)
            yield b"}"
        case list() | tuple():
            yield b"["
            for one in value:
                yield from bytes_of(one)
            yield b"]"
        case _:
            yield repr(value).encode()


def _dense(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The parts of a tensor that have values side by side."""
    if value.layout is torch.sparse_csr:
        return value.crow_indices(), value.col_indices(), value.values()
    if value.layout is torch.sparse_coo:
        return value.coalesce().indices(), value.coalesce().values()
    return (value,)


def digest(*values: Any) -> str:
    """Twelve hexadecimal digits of some values."""
    made = sha256()
    for value in values:
        for part in bytes_of(value):
            made.update(f"{len(part)} ".encode())
            made.update(part)
    return made.hexdigest()[:12]


def of_batches(batches: Iterable[Batch], *, ids: bool = False) -> str:
    """A digest of what was drawn, and one of what was gathered; with how many batches, nodes and edges.

    Args:
        ids: the user's ids are gathered too, which takes an engine for each stream.
    """
    drawn: list[Any] = []
    gathered: list[Any] = []
    nodes = edges = 0
    for batch in batches:
        drawn.append([getattr(batch, name) for name in SHAPE])
        gathered.append([getattr(batch, name) for name in VALUES])
        if ids:
            gathered.append([batch.ids(name) for name in batch.n_id])
        nodes += sum(len(ids) for ids in batch.n_id.values())
        edges += sum(index.shape[1] for index in batch.edge_index.values())
    return f"{digest(drawn)} {digest(gathered)} {len(drawn)} batches {nodes} nodes {edges} edges"


def normal(text: str, *folders: Path) -> str:
    """A text without today's moments, random names, what follows from these, this run's folders, snapdb's version."""
    for folder in folders:
        text = text.replace(str(folder), "<folder>")
    text = _VERSION.sub("<version>", text)
    return _MOMENT.sub("<moment>", _DIGEST.sub(r'\1<sha256>"', _NAME.sub("<name>", text)))


def page(value: Any) -> str:
    """A value as JSON for people."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
