"""What a stream's saved position says, and whether it fits another stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import numpy as np

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.sampling import Seeds
from snapdb.types import RNG_SCHEME, SampleSpec

__all__ = ["checked", "identity"]

PINNED = ("snapshot", "graph", "version", "window", "definition")


def identity(view: GraphView, seeds: Seeds, spec: SampleSpec, world_size: int) -> dict[str, Any]:
    """All that two streams must share to give the same batches, as plain values for JSON."""
    values = {
        "rng": RNG_SCHEME,
        "snapshot": {name: view.lineage.get(name) for name in PINNED},
        "seeds": _digest(seeds),
        "seed_type": spec.seed_type,
        "fanouts": [[*fanout.edge, fanout.direction, fanout.counts] for fanout in spec.fanouts],
        "batch_size": spec.batch_size,
        "seed": spec.seed,
        "order": spec.order,
        "drawing": asdict(spec.drawing),
        "temporal": None if spec.temporal is None else asdict(spec.temporal),
        "link": None if spec.link is None else asdict(spec.link),
        "subset": None if spec.subset is None else str(spec.subset),
        "layout": spec.layout,
        "reuse_hops": spec.reuse_hops,
        "world_size": world_size,
    }
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def checked(state: Mapping[str, Any], expected: Mapping[str, Any], batches_in: Callable[[int], int]) -> tuple[int, int]:
    """The (epoch, batches consumed) of a state that fits a stream whose epochs have so many batches.

    Raises:
        InputError: it does not, or is no state.
    """
    if not isinstance(state, Mapping):
        raise InputError(
            f"this is not a stream's state, but {state!r:.60}; give what state_dict() returned", code="stream-state"
        )
    for name, here in expected.items():
        if name not in state:
            raise InputError(
                f"this is not a stream's state: it has no {name!r}; give what state_dict() returned",
                code="stream-state",
            )
        if state[name] != here:
            raise InputError(
                f"this state is of another stream: its {name} is {state[name]!r}, here it is {here!r}; "
                "open the stream as it was opened then, or start anew",
                code="stream-state",
            )
    epoch, taken = state.get("epoch"), state.get("consumed")
    if not isinstance(epoch, int) or not isinstance(taken, int) or epoch < 0:
        raise InputError(f"this state is damaged: epoch {epoch!r}, {taken!r} batches consumed", code="stream-state")
    if not 0 <= taken <= batches_in(epoch):
        raise InputError(f"this state is damaged: {taken} of {batches_in(epoch)} batches consumed", code="stream-state")
    return epoch, taken


def _digest(seeds: Seeds) -> str:
    """The seed set in its canonical order, its targets and its query order, times and ends."""
    digest = sha256(f"{seeds.type}\0{seeds.ids.size}".encode())
    for values in (seeds.ids, seeds.y, seeds.query_order, seeds.time, *(seeds.ends or (None, None))):
        digest.update(b"\0" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
