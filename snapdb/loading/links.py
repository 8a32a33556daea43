"""Where the ends of seed edges and their negatives are in a batch."""

from dataclasses import replace

import numpy as np
import torch

from snapdb.loading.batch import Batch
from snapdb.loading.rows import tensor_of
from snapdb.sampling import Entry
from snapdb.sampling.subgraph import Ints


def with_pairs(batch: Batch, entry: Entry, entered: tuple[Ints, ...]) -> Batch:
    """The batch with the pairs of its seed edges, the positives first, then each seed's negatives in slot order.

    `entered` are the local ids of sources, of destinations and, if any were asked, of negatives.
    """
    source, positive, *others = map(tensor_of, entered)
    ones = torch.ones(len(source), device=source.device)
    if entry.negatives is None:
        pairs = torch.stack([source, positive])
        return replace(batch, edge_label_index=pairs, edge_label=ones, src_index=source, dst_pos_index=positive)
    where = entry.negatives
    seed, slot = (torch.from_numpy(places).to(source.device) for places in np.nonzero(where >= 0))
    drawn = others[0][torch.from_numpy(where[where >= 0]).to(source.device)]
    negative = torch.full(where.shape, -1, dtype=torch.int64, device=source.device)
    negative[seed, slot] = drawn
    pairs = torch.stack([torch.cat([source, source[seed]]), torch.cat([positive, drawn])])
    return replace(
        batch,
        edge_label_index=pairs,
        edge_label=torch.cat([ones, torch.zeros(len(seed), device=source.device)]),
        src_index=source,
        dst_pos_index=positive,
        dst_neg_index=negative[:, 0] if where.shape[1] == 1 else negative,
        negatives_missing=int((where < 0).sum()),
    )
