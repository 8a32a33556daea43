"""What a batch calls its own fields, in PyG's form or in Arrow's: no feature and no column of seeds has such a name."""

from __future__ import annotations

_NODES = ("batch", "batch_size", "hop", "id", "input_id", "n_id", "num_nodes", "num_sampled_nodes", "seed_time", "y")
_EDGES = ("e_id", "edge_index", "edge_time", "edge_weight", "neighbour", "num_sampled_edges", "seed_side")
_PAIRS = (
    "destination",
    "dst_neg_index",
    "dst_pos_index",
    "edge_label",
    "edge_label_index",
    "edge_label_time",
    "source",
    "src_index",
)

BATCH_NAMES = frozenset((*_NODES, *_EDGES, *_PAIRS))
