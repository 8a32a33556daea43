"""DGL's batches, from its classic loader (`dgl`) or from GraphBolt (`graphbolt`).

    benchmarks/.peers/dgl/bin/python -m benchmarks.peer_dgl '{…}'

DGL lists fanouts from the outermost hop, and at each hop samples all nodes of the batch again.

With narrow ids, GraphBolt uses int32. The classic loader keeps int64 ids, and only its features are float16, because
DGL 2.1 returns wrong batches for an int32 graph: 39,000, 14,000 and 8,000 nodes instead of 92,000.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.peer import Arrays, Asked, Counted, asked, load_arrays, measure, repeated_seeds

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import dgl.graphbolt as gb

NAME = "name"
"""The name of the column from which edge ids are read."""


def main() -> None:
    """Run the requested measurement."""
    wish = asked()
    torch.set_num_threads(wish.threads)
    torch.manual_seed(7)
    arrays = load_arrays(wish.graph)
    streams = {
        ("dgl", "ready"): _classic_ready,
        ("dgl", "sample"): _classic_sampled,
        ("graphbolt", "ready"): _bolt_ready,
        ("graphbolt", "sample"): _bolt_sampled,
    }
    stream = streams[wish.system, wish.mode](arrays, wish)
    measure(stream, wish, f"DGL {dgl.__version__}, torch {torch.__version__}")


def _classic(arrays: Arrays, wish: Asked) -> dgl.DGLGraph:
    indices = torch.from_numpy(arrays.indices).long()
    parts = (torch.from_numpy(arrays.indptr), indices, torch.empty(0, dtype=torch.int64))
    graph = dgl.graph(("csc", parts), num_nodes=len(arrays.labels)).formats("csc")
    if wish.edge_ids:
        graph.edata[NAME] = torch.arange(len(indices))
    return graph


def _classic_ready(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    graph = _classic(arrays, wish)
    features = torch.from_numpy(arrays.features)
    graph.ndata["x"], graph.ndata["y"] = features.half() if wish.narrow else features, torch.from_numpy(arrays.labels)
    sampler = dgl.dataloading.NeighborSampler(
        list(wish.fanouts)[::-1],
        prefetch_node_feats=["x"],
        prefetch_labels=["y"],
        prefetch_edge_feats=[NAME] if wish.edge_ids else None,
    )
    loader = dgl.dataloading.DataLoader(
        graph,
        torch.from_numpy(np.concatenate(repeated_seeds(arrays.train, wish.batch))),
        sampler,
        batch_size=wish.batch,
        shuffle=False,
        num_workers=wish.workers,
    )
    for inputs, _, blocks in loader:
        blocks[0].srcdata["x"], blocks[-1].dstdata["y"]
        if wish.edge_ids:
            for block in blocks:
                block.edata[NAME]
        yield Counted(inputs.numel(), sum(block.num_edges() for block in blocks))


def _classic_sampled(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    graph = _classic(arrays, wish)
    sampler = dgl.dataloading.NeighborSampler(list(wish.fanouts)[::-1])
    for seeds in repeated_seeds(arrays.train, wish.batch):
        inputs, _, blocks = sampler.sample_blocks(graph, torch.from_numpy(seeds))
        yield Counted(inputs.numel(), sum(block.num_edges() for block in blocks))


def _bolt(arrays: Arrays, wish: Asked) -> gb.FusedCSCSamplingGraph:
    indices = torch.from_numpy(arrays.indices).to(_ids(wish))
    names = {gb.ORIGINAL_EDGE_ID: torch.arange(len(indices))} if wish.edge_ids else None
    return gb.fused_csc_sampling_graph(torch.from_numpy(arrays.indptr), indices, edge_attributes=names)


def _ids(wish: Asked) -> torch.dtype:
    return torch.int32 if wish.narrow else torch.int64


def _bolt_ready(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    ids = torch.from_numpy(np.concatenate(repeated_seeds(arrays.train, wish.batch)))
    items = gb.ItemSet((ids.to(_ids(wish)), torch.from_numpy(arrays.labels)[ids]), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, batch_size=wish.batch).sample_neighbor(_bolt(arrays, wish), list(wish.fanouts)[::-1])
    features = torch.from_numpy(arrays.features)
    features = features.half() if wish.narrow else features
    store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(features)})
    pipe = pipe.fetch_feature(store, node_feature_keys=["x"])
    for batch in gb.DataLoader(pipe, num_workers=wish.workers):
        edges = sum(part.sampled_csc.indices.numel() for part in batch.sampled_subgraphs)
        yield Counted(batch.input_nodes.numel(), edges)


def _bolt_sampled(arrays: Arrays, wish: Asked) -> Iterator[Counted]:
    graph = _bolt(arrays, wish)
    fanouts = [torch.tensor([fanout]) for fanout in wish.fanouts]
    for seeds in repeated_seeds(arrays.train, wish.batch):
        nodes, edges = torch.from_numpy(seeds), 0
        for fanout in fanouts:
            found = graph.sample_neighbors(nodes, fanout)
            nodes, compact = gb.unique_and_compact_csc_formats(found.sampled_csc, nodes)
            edges += compact.indices.numel()
        yield Counted(nodes.numel(), edges)


if __name__ == "__main__":
    main()
