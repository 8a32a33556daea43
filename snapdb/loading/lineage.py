"""The lineage of a batch: all that it takes to build it again."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from snapdb.graph.view import GraphView
from snapdb.release import __version__
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.types import RNG_SCHEME, SampleSpec
from snapdb.types.sampling import ZeroWeight


def zero_weight(sampler: NeighborSampler) -> ZeroWeight | None:
    """The rule for edges of weight 0, where there are some; None: there are none, so that no rule changes a batch."""
    return "NEVER" if any(walk.skips_zeros for walk in sampler.walks) else None


def stream_lineage(
    view: GraphView, spec: SampleSpec, seeds: str, rules: Mapping[str, Any], epoch: int, zeros: ZeroWeight | None = None
) -> dict[str, Any]:
    """The lineage of the batches of one epoch, as plain values for JSON.

    Args:
        seeds: `seeds_digest` of the seed set.
        rules: what `audit` holds the batches to.
        zeros: `zero_weight` of the sampler.
    """
    return {
        **view.lineage,
        "sampler": spec.text,
        "seeds": seeds,
        "rng": RNG_SCHEME,
        "seed": spec.seed,
        "generation": spec.generation,
        **({} if zeros is None else {"zero_weight": zeros}),
        "epoch": epoch,
        "rules": dict(rules),
        "snapdb": __version__,
    }


def seeds_digest(seeds: Seeds) -> str:
    """The digest of a seed set in its canonical order, with all columns of its query."""
    digest = sha256(f"{seeds.type}\0{seeds.ids.size}".encode())
    for values in (seeds.ids, seeds.y, seeds.query_order, seeds.time, *(seeds.ends or (None, None))):
        digest.update(b"\0" if values is None else np.ascontiguousarray(values).tobytes())
    for name, values in seeds.columns.items():
        digest.update(f"{name}\0{values.dtype}\0".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
