"""PyG's negative samples, drawn from a generator of their own, among the nodes that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling


class Negatives(NegativeSampling):  # type: ignore[misc]  # PyG's classes are not typed
    """What was asked for, with draws that threads do not share.

    >>> asked = NegativeSampling("triplet", amount=2)
    >>> draws = Negatives(asked, torch.Generator().manual_seed(1), {"dst": torch.tensor([7])})
    >>> draws.sample(3, "dst", num_nodes=9)
    tensor([7, 7, 7])
    """

    def __init__(
        self, asked: NegativeSampling, generator: torch.Generator | None, there: Mapping[str, Tensor | None]
    ) -> None:
        """Takes over what was asked for.

        Args:
            generator: Of the draws; None: torch's own.
            there: 'src' and 'dst' → the nodes that may be drawn at that end; None: all.
        """
        super().__init__(asked.mode, asked.amount, asked.src_weight, asked.dst_weight)
        self._generator, self._there = generator, there

    def sample(self, num_samples: int, endpoint: Literal["src", "dst"], num_nodes: int | None = None) -> Tensor:
        """[num_samples] nodes of one end, by their weights where there are any."""
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        there = self._there[endpoint]
        if weight is None:
            count = (num_nodes or 0) if there is None else len(there)
            drawn = torch.randint(count, (num_samples,), generator=self._generator)
        elif weight.numel() == num_nodes:
            chances = weight if there is None else weight[there]
            drawn = torch.multinomial(chances, num_samples, replacement=True, generator=self._generator)
        else:
            raise ValueError(f"{endpoint}_weight has one number for each of {num_nodes} nodes, found {weight.numel()}")
        return drawn if there is None else there[drawn]
