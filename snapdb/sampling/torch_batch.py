"""A batch of the torch sampler while it grows: the nodes it has met, what it may see, and what each hop drew."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from snapdb.kernels.torch_numbering import number
from snapdb.sampling.rounds import Rounds
from snapdb.sampling.torch_eligible import Hidden, Limits
from snapdb.types import Relation


@dataclass(slots=True)
class Numbered:
    """The nodes of one vertex type that a batch has met; the place is the local id."""

    base: int
    """How many dense ids there are."""
    nodes: Tensor
    trees: Tensor
    """The tree of each; empty where trees are not disjoint."""

    @property
    def count(self) -> int:
        return self.nodes.numel()

    def append(self, nodes: Tensor) -> Tensor:
        """The local ids of these nodes, new ones for each."""
        low = self.count
        self.nodes = torch.cat((self.nodes, nodes))
        return torch.arange(low, self.count, device=nodes.device)

    def meet(self, nodes: Tensor, trees: Tensor) -> Tensor:
        """The local ids of these nodes of trees; those not met before get one in their order."""
        if trees.numel():
            local, new = number(self.trees * self.base + self.nodes, trees * self.base + nodes)
            self.trees = torch.cat((self.trees, trees[new]))
        else:
            local, new = number(self.nodes, nodes)
        self.nodes = torch.cat((self.nodes, nodes[new]))
        return local


class Hop(NamedTuple):
    """What one hop draws over one relation."""

    neighbours: Tensor
    """Local ids."""
    sides: Tensor
    """Local ids of the expanded nodes."""
    positions: Tensor
    weights: Tensor | None


@dataclass(slots=True)
class Growing:
    """One batch while it grows."""

    number: int
    rounds: Rounds | None
    """Under SCOPE VISITED."""
    numbered: dict[str, Numbered]
    limits: Limits | None
    hidden: dict[Relation, Hidden]
    drawn: dict[Relation, list[Hop]]
    """Nothing, then hop by hop."""

    def counts(self) -> dict[str, int]:
        """How many nodes of each type the batch has met."""
        return {name: found.count for name, found in self.numbered.items()}
