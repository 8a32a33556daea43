"""PyG's batches, from NeighborLoader for ready batches or from its sampling operator for sampling only.

benchmarks/.peers/pyg/bin/python -m benchmarks.peer_pyg '{…}'
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch_geometric
import torch_geometric.typing as installed
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from benchmarks.peer import Arrays, Asked, Counted, asked, load_arrays, measure, repeated_seeds


def main() -> None:
    """Run the requested measurement."""
    wish = asked()
    torch.set_num_threads(wish.threads)
    torch.manual_seed(7)
    arrays = load_arrays(wish.graph)
    stream = _ready(arrays, wish) if wish.mode == "ready" else _sampled(arrays, wish)
    engine = "pyg-lib" if installed.WITH_PYG_LIB else "torch-sparse"
    measure(stream, wish, f"PyG {torch_geometric.__version__} with {engine}, torch {torch.__version__}")


def _ready(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    count = len(arrays.labels)
    target = torch.repeat_interleave(torch.arange(count), torch.from_numpy(np.diff(arrays.indptr)))
    source = torch.from_numpy(arrays.indices).long()
    data = Data(
        num_nodes=count,
        edge_index=torch.stack([source, target]),
        x=torch.from_numpy(arrays.features),
        y=torch.from_numpy(arrays.labels),
    )
    if wish.edge_ids:
        data.edge_name = torch.arange(len(source))  # arbitrary values, because only their gather is timed
    del source, target
    loader = NeighborLoader(
        data,
        num_neighbors=list(wish.fanouts),
        input_nodes=torch.from_numpy(np.concatenate(repeated_seeds(arrays.train, wish.batch))),
        batch_size=wish.batch,
        shuffle=False,
        is_sorted=True,  # edge_index is already sorted by target
        num_workers=wish.workers,
        multiprocessing_context="fork" if wish.workers else None,
    )
    for batch in loader:
        yield Counted(batch.n_id.numel(), batch.edge_index.shape[1])


def _sampled(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    indptr, indices = torch.from_numpy(arrays.indptr), torch.from_numpy(arrays.indices).long()
    for seeds in repeated_seeds(arrays.train, wish.batch):
        given, fanouts = torch.from_numpy(seeds), list(wish.fanouts)
        if installed.WITH_PYG_LIB:
            row, _, nodes = torch.ops.pyg.neighbor_sample(
                indptr, indices, given, fanouts, None, None, None, None, True, False, True, False, "uniform", False
            )[:3]
        else:
            nodes, row = torch.ops.torch_sparse.neighbor_sample(indptr, indices, given, fanouts, False, True)[:2]
        yield Counted(nodes.numel(), row.numel())


if __name__ == "__main__":
    main()
