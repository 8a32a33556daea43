"""PyG's epochs with its NeighborLoader.

benchmarks/.peers/pyg/bin/python -m benchmarks.epoch_pyg '{…}'
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch_geometric
import torch_geometric.typing as installed
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from benchmarks.epoch_loop import Ready, Wish, measure, wished
from benchmarks.peer import load_arrays


def main() -> None:
    """Run the requested measurement."""
    wish = wished()
    loader = _loader(wish)

    def epoch() -> Iterator[Ready]:
        for batch in loader:
            yield Ready(batch.x, batch.edge_index, batch.y[: batch.batch_size])

    engine = "pyg-lib" if installed.WITH_PYG_LIB else "torch-sparse"
    measure(epoch, wish, f"PyG {torch_geometric.__version__} with {engine}, torch {torch.__version__}")


def _loader(wish: Wish) -> NeighborLoader:
    arrays = load_arrays(wish.graph)
    target = torch.repeat_interleave(torch.arange(len(arrays.labels)), torch.from_numpy(np.diff(arrays.indptr)))
    edges = torch.stack([torch.from_numpy(arrays.indices).long(), target])
    data = Data(x=torch.from_numpy(arrays.features), y=torch.from_numpy(arrays.labels), edge_index=edges)
    return NeighborLoader(
        data,
        num_neighbors=list(wish.fanouts),
        input_nodes=torch.from_numpy(arrays.train),
        batch_size=wish.batch,
        shuffle=True,
        is_sorted=True,  # edge_index is already sorted by target
        num_workers=wish.workers,
        persistent_workers=wish.workers > 0,
        multiprocessing_context="fork" if wish.workers else None,
    )


if __name__ == "__main__":
    main()
