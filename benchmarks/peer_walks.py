"""Random walks by PyG's torch-cluster or by DGL, in the peer's own environment. It does not import snapdb.

    benchmarks/.peers/pyg/bin/python -m benchmarks.peer_walks '{"system": "pyg", …}'

It prints one line of JSON: the steps, processor seconds and wall-clock seconds of each round, by case.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Draw = Callable[["torch.Tensor", int, float, float], "torch.Tensor"]
"""Returns the walks from seeds, of a length and with p and q."""


def main() -> None:
    """Run the requested measurement."""
    wish = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    folder = Path(wish["graph"])
    indptr, indices = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices"))
    draw = _SYSTEMS[wish["system"]](indptr, indices.long())
    began = time.perf_counter()
    spent: dict[str, list[list[float]]] = {}
    for case, (p, q) in wish["cases"].items():
        spent[case] = [_timed(draw, wish, p, q, turn) for turn in range(wish["rounds"] + 1)][1:]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": time.perf_counter() - began, "spent": spent, "own_rss": peak}))


def _timed(draw: Draw, wish: dict[str, Any], p: float, q: float, turn: int) -> list[float]:
    """Return the steps of a round, its processor seconds and its wall-clock seconds."""
    generator = torch.Generator().manual_seed(turn)
    nodes, length = wish["nodes"], wish["length"]
    batches = [torch.randint(0, nodes, (wish["batch"],), generator=generator) for _ in range(wish["batches"])]
    cpu, clock, steps = time.process_time(), time.perf_counter(), 0
    for seeds in batches:
        steps += int(draw(seeds, length, p, q).shape[0]) * length
    return [steps, time.process_time() - cpu, time.perf_counter() - clock]


def _pyg(indptr: torch.Tensor, indices: torch.Tensor) -> Draw:
    import torch_cluster  # noqa: F401, PLC0415  # it registers the operator

    def draw(seeds: torch.Tensor, length: int, p: float, q: float) -> torch.Tensor:
        walks: torch.Tensor = torch.ops.torch_cluster.random_walk(indptr, indices, seeds, length, p, q)[0]
        return walks

    return draw


def _dgl(indptr: torch.Tensor, indices: torch.Tensor) -> Draw:
    os.environ.setdefault("DGLBACKEND", "pytorch")
    import dgl  # noqa: PLC0415

    graph = dgl.graph(("csr", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats("csr")

    def draw(seeds: torch.Tensor, length: int, p: float, q: float) -> torch.Tensor:
        if p == q == 1:
            walks: torch.Tensor = dgl.sampling.random_walk(graph, seeds, length=length)[0]
        else:
            walks = dgl.sampling.node2vec_random_walk(graph, seeds, p, q, length)
        return walks

    return draw


_SYSTEMS = {"pyg": _pyg, "dgl": _dgl}


if __name__ == "__main__":
    main()
